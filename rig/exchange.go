//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const formType = "application/x-www-form-urlencoded"

// Answer is the result of a request.
type Answer struct {
	// Status is 0 unless the whole answer was received.
	Status int
	Header http.Header
	Body   string
	// Err is the reason why it was not received.
	Err error
	// Unsent: the request reached no node, because none was there.
	Unsent bool
	// Repeated is how often the request was sent again after a 503. The effect of the earlier requests is unknown.
	Repeated int
}

func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("%d %s %s", a.Status, a.Header.Get("Location"), a.Body)
}

// Lost reports whether the effect of a request is unknown: its answer did not arrive completely, or it says that the node could not tell
// either and must be asked again. Any other 5xx is an answer, and a wrong one.
func (a Answer) Lost() bool {
	return !a.Unsent && (a.Err != nil || a.IsDeferred())
}

// IsDeferred reports whether the node has asked to send the request again later.
func (a Answer) IsDeferred() bool {
	return a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != ""
}

// transport opens a connection for each request. A broken connection then concerns one request only.
var transport = &http.Transport{DisableKeepAlives: true, DisableCompression: true}

// viaKey is the context key of Via.
type viaKey struct{}

// Via makes the requests of a context use another transport than the one with a connection for each request.
func Via(ctx context.Context, other http.RoundTripper) context.Context {
	return context.WithValue(ctx, viaKey{}, other)
}

func transportOf(ctx context.Context) http.RoundTripper {
	if other, ok := ctx.Value(viaKey{}).(http.RoundTripper); ok {
		return other
	}
	return transport
}

// mannersKey is the context key of AtOnce and Counting.
type mannersKey struct{}

// manners are how a client handles a 503 with Retry-After. With the zero value it waits that long and sends the request again (RFC 9110
// §10.2.3). A node answers so when all slots for hashing passwords or for the database are busy. That happens on a busy machine, and must
// not fail a test.
type manners struct {
	atOnce   bool
	repeated *atomic.Int64 // nil: they are not counted
}

// maxRepeated is how often a request is sent again. Even on a far too busy machine most requests are not deferred.
const maxRepeated = 15

func mannersOf(ctx context.Context) manners {
	m, _ := ctx.Value(mannersKey{}).(manners)
	return m
}

// AtOnce is for callers that retry themselves or expect a 503: each request of the context is sent once.
func AtOnce(ctx context.Context) context.Context {
	return context.WithValue(ctx, mannersKey{}, manners{atOnce: true})
}

// Counting counts the requests of the context that are sent again after a 503.
func Counting(ctx context.Context, repeated *atomic.Int64) context.Context {
	return context.WithValue(ctx, mannersKey{}, manners{repeated: repeated})
}

// Send sends a request on its own connection and follows no redirect. headers are name, value, name, value, …
func Send(ctx context.Context, method, target, body string, headers ...string) Answer {
	return send(ctx, nil, method, target, body, headers)
}

func send(ctx context.Context, jar http.CookieJar, method, target, body string, headers []string) Answer {
	answer, m := sendOnce(ctx, jar, method, target, body, headers), mannersOf(ctx)
	for repeated := 1; !m.atOnce && answer.IsDeferred() && repeated <= maxRepeated; repeated++ {
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err != nil {
			return answer // its caller retries
		}
		select {
		case <-ctx.Done():
			return answer
		case <-time.After(time.Duration(seconds) * time.Second):
		}
		if m.repeated != nil {
			m.repeated.Add(1)
		}
		answer = sendOnce(ctx, jar, method, target, body, headers)
		answer.Repeated = repeated
	}
	return answer
}

func sendOnce(ctx context.Context, jar http.CookieJar, method, target, body string, headers []string) Answer {
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return Answer{Err: err}
	}
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Add(pair[0], pair[1])
	}
	client := http.Client{
		Transport: transportOf(ctx), Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return Answer{Err: err, Unsent: errors.Is(err, syscall.ECONNREFUSED)}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{Err: err}
	}
	return Answer{
		Status: response.StatusCode, Header: response.Header, Body: string(text),
		Unsent: response.Header.Get(nobodyHeader) != "",
	}
}
