package admin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
)

// Operator runs operations of the API for a user who operates a configuration in a browser: with the same checks as a request, and with
// audit lines that name the user.
type Operator struct {
	Target *Target
	UserID string
}

// Ask is what an operator asks of the API.
type Ask struct {
	Route Route
	// IDs are the values of the route's wildcards, in their order.
	IDs   []string
	Query url.Values
	// Body is the content, which is sent as JSON; nil: there is none.
	Body any
	// Version is that of the thing to be changed, as an answer had it. If the thing has changed since, the answer is a Refusal with 412.
	// Empty: it is changed in any case.
	Version string
}

// Answer is what the API answers.
type Answer struct {
	// Content is of the type that the route answers with, or nil.
	Content any
	// After is where the next page of a list begins; empty: there is none.
	After string
	// Version is that of the thing shown, for routes that can be asked to change it.
	Version string
}

// Refusal is an error with its status, in words for the operator.
type Refusal struct {
	Status int
	Err    error
}

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the error.
func (r *Refusal) Unwrap() error { return r.Err }

// Do asks the API. An error is a Refusal.
func (o Operator) Do(ctx context.Context, ask Ask) (Answer, error) {
	op, what := operationOf(ask.Route)
	method, _ := ask.Route.split()
	request := ask.Route.For(ask.IDs...).With(ask.Query)
	body := io.Reader(http.NoBody)
	if ask.Body != nil {
		text, err := json.Marshal(ask.Body)
		if err != nil {
			return Answer{}, &Refusal{http.StatusBadRequest, malformed(err)}
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(AsOperator(ctx, o.UserID), method, request.Path, body)
	if err != nil {
		return Answer{}, &Refusal{http.StatusInternalServerError, err}
	}
	for i, name := range ask.Route.wildcards() {
		r.SetPathValue(name, ask.IDs[i])
	}
	if ask.Version != "" {
		r.Header.Set("If-Match", ask.Version)
	}
	_, content, err := op(o.Target, r)
	if err != nil {
		return Answer{}, &Refusal{statusOf(err), inWords(what, err)}
	}
	return answerOf(content), nil
}

// answerOf takes an answer out of what the API adds to it for HTTP.
func answerOf(content any) (a Answer) {
	if versioned, is := content.(versioned); is {
		content, a.Version = versioned.content, versioned.version
	}
	if list, is := content.(page); is {
		content = list.items
		if link, err := url.Parse(list.next); err == nil {
			a.After = link.Query().Get("after")
		}
	}
	a.Content = content
	return a
}

// Write writes a long answer, such as an export.
func (a Answer) Write(w io.Writer) error {
	long, is := a.Content.(written)
	if !is {
		return fmt.Errorf("a %T is no text", a.Content)
	}
	return long.write(w)
}

// ReadAs asks the API, and returns the content as a T. It panics if the route answers with another type.
func ReadAs[T any](ctx context.Context, o Operator, ask Ask) (content T, a Answer, err error) {
	if a, err = o.Do(ctx, ask); err != nil {
		return content, a, err
	}
	return a.Content.(T), a, nil
}
