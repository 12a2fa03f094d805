//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
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
}

func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("%d %s %s", a.Status, a.Header.Get("Location"), a.Body)
}

// Lost tells whether nobody can know what came of a request that may have been seen: its answer did not arrive whole, or says
// that the node could not tell either.
func (a Answer) Lost() bool {
	return !a.Unsent && (a.Err != nil || a.Status >= http.StatusInternalServerError)
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

// Send sends a request on a connection of its own and follows no redirect. Headers are name, value, name, value, …
func Send(ctx context.Context, method, target, body string, headers ...string) Answer {
	return send(ctx, nil, method, target, body, headers)
}

func send(ctx context.Context, jar http.CookieJar, method, target, body string, headers []string) Answer {
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
