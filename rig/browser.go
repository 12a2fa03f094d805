//go:build linux

package rig

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// Browser is a person with a cookie jar who walks through sign-in and consent by submitting the forms of the pages.
type Browser struct {
	// User is the person who signs in when asked to.
	User string
	jar  *cookiejar.Jar
}

// NewBrowser returns a browser with an empty jar.
func NewBrowser(user string) *Browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // cookiejar.New never fails
	}
	return &Browser{User: user, jar: jar}
}

// Authorize sends an authorization request and returns the code. Without a code it returns the reason and the last answer, which says
// whether it was lost. The person then begins again with another request.
func (b *Browser) Authorize(ctx context.Context, r Request) (string, Answer, error) {
	at := r.Address()
	answer := b.open(ctx, at)
	for range 8 {
		if answer.Status == 0 || answer.Unsent || answer.Lost() {
			return "", answer, fmt.Errorf("authorizing: %s", answer)
		}
		next, err := url.Parse(answer.Header.Get("Location"))
		if err != nil {
			return "", answer, fmt.Errorf("authorizing: %w", err)
		}
		switch {
		case strings.HasPrefix(next.String(), Callback):
			return codeIn(next, r, answer)
		case next.String() != "":
			answer, at = b.follow(ctx, at, next)
		default:
			if answer, err = b.fillIn(ctx, at, answer); err != nil {
				return "", answer, fmt.Errorf("authorizing: %w", err)
			}
		}
	}
	return "", answer, fmt.Errorf("authorizing: it does not end: %s", answer)
}

// codeIn returns the code from the URL of the callback.
func codeIn(callback *url.URL, r Request, answer Answer) (string, Answer, error) {
	query := callback.Query()
	switch code := query.Get("code"); {
	case code != "" && query.Get("state") == r.State:
		return code, answer, nil
	case query.Get("error") == "temporarily_unavailable":
		answer.Status, answer.Header = http.StatusServiceUnavailable, answer.Header.Clone() // the status that the error would have without a redirect
		answer.Header.Set("Retry-After", "1")
	}
	return "", answer, fmt.Errorf("authorizing: no code: %s", callback)
}

func (b *Browser) open(ctx context.Context, address string) Answer {
	return send(ctx, b.jar, http.MethodGet, address, "", nil)
}

// follow requests the target of a redirect from one of our pages.
func (b *Browser) follow(ctx context.Context, from string, next *url.URL) (Answer, string) {
	address := resolve(from, next.String())
	return b.open(ctx, address), address
}

// fillIn submits the form of a page: sign-in or consent. The page after a wrong password or an expired request has the same form again,
// and the walk then does not end.
func (b *Browser) fillIn(ctx context.Context, at string, page Answer) (Answer, error) {
	action, fields, err := formIn(page.Body)
	if err != nil {
		return page, fmt.Errorf("%w: %s", err, page)
	}
	if _, asked := fields["password"]; asked {
		fields.Set("email", Email(b.User))
		fields.Set("password", Password)
	} else {
		fields.Set("decision", "allow")
	}
	return send(ctx, b.jar, http.MethodPost, resolve(at, action), fields.Encode(), []string{
		"Content-Type", formType, "Origin", "null", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate",
	}), nil
}

// resolve returns the absolute URL of a reference in a page.
func resolve(page, reference string) string {
	from, err := url.Parse(page)
	if err != nil {
		return reference
	}
	to, err := from.Parse(reference)
	if err != nil {
		return reference
	}
	return to.String()
}

// formIn returns the action of the first form of a page, and its fields with their current values: checked boxes, no buttons.
func formIn(page string) (action string, fields url.Values, err error) {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return "", nil, err
	}
	fields, found := make(url.Values), false
	for n := range root.Descendants() {
		attributes := make(map[string]string)
		for _, a := range n.Attr {
			attributes[a.Key] = a.Val
		}
		switch {
		case n.Data == "form" && !found:
			action, found = attributes["action"], true
		case n.Data == "input" && attributes["name"] != "":
			if _, ticked := attributes["checked"]; ticked {
				fields.Set(attributes["name"], "on")
			} else if attributes["type"] != "checkbox" {
				fields.Set(attributes["name"], attributes["value"])
			}
		}
	}
	if !found {
		return "", nil, fmt.Errorf("neither a form nor a redirect")
	}
	return action, fields, nil
}
