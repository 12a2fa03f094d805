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

// Answer is what came of a request.
type Answer struct {
	// Status is 0 unless the whole answer was received.
	Status int
	Header http.Header
	Body   string
	// Err is why it was not.
	Err error
	// Unsent: no node has seen the request, because none was there.
	Unsent bool
	// Repeated is how often it was sent again after a 503. What the first requests have done nobody knows.
	Repeated int
}

func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("%d %s %s", a.Status, a.Header.Get("Location"), a.Body)
}

// Lost reports whether nobody can know what came of a request that may have been seen: its answer did not arrive whole, or says
// that the node could not tell either and is to be asked again. Any other 5xx is an answer, and a wrong one.
func (a Answer) Lost() bool {
	return !a.Unsent && (a.Err != nil || a.IsDeferred())
}

// IsDeferred reports whether the node has asked for the request to be sent again later.
func (a Answer) IsDeferred() bool {
	return a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != ""
}

// transport has a connection for each request: what a dead connection says is then about this request and no other.
var transport = &http.Transport{DisableKeepAlives: true, DisableCompression: true}

// viaKey is the key of what Via puts into a context.
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

// mannersKey is the key of what AtOnce and Counting put into a context.
type mannersKey struct{}

// manners are how a client takes a 503 with Retry-After. The zero value: it waits for as long as that says, and sends the request
// again (RFC 9110, section 10.2.3). A node says so when all that hash passwords or wait for the database are busy, as they
// are where much else runs on the machine, and then no test may take that for a failure.
type manners struct {
	atOnce   bool
	repeated *atomic.Int64 // nil: nobody counts
}

// maxRepeated is how often a request is sent again. Even on a machine that is far too busy most are not put off.
const maxRepeated = 15

func mannersOf(ctx context.Context) manners {
	m, _ := ctx.Value(mannersKey{}).(manners)
	return m
}

// AtOnce is for who sends again himself, or wants to see a 503: each request of the context is sent once.
func AtOnce(ctx context.Context) context.Context {
	return context.WithValue(ctx, mannersKey{}, manners{atOnce: true})
}

// Counting counts the requests of the context that are sent again after a 503.
func Counting(ctx context.Context, repeated *atomic.Int64) context.Context {
	return context.WithValue(ctx, mannersKey{}, manners{repeated: repeated})
}

// Send sends a request on a connection of its own and follows no redirect. Headers are name, value, name, value, …
func Send(ctx context.Context, method, target, body string, headers ...string) Answer {
	return send(ctx, nil, method, target, body, headers)
}

func send(ctx context.Context, jar http.CookieJar, method, target, body string, headers []string) Answer {
	answer, m := sendOnce(ctx, jar, method, target, body, headers), mannersOf(ctx)
	for repeated := 1; !m.atOnce && answer.IsDeferred() && repeated <= maxRepeated; repeated++ {
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err != nil {
			return answer // it comes back when it likes
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
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{Err: err}
	}
	return Answer{
		Status: response.StatusCode, Header: response.Header, Body: string(text),
		Unsent: response.Header.Get(nobodyHeader) != "",
	}
}
