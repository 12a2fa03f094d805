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

// Browser is a person with a cookie jar, who walks through sign-in and consent by the forms of the pages.
type Browser struct {
	// User is who signs in when asked to.
	User string
	jar  *cookiejar.Jar
}

// NewBrowser has an empty jar.
func NewBrowser(user string) *Browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // it never is one
	}
	return &Browser{User: user, jar: jar}
}

// Authorize answers an authorization request, and returns the code. Without one the error says why, and the answer, which
// was the last, whether it was lost: then the person begins again with another request, as people do.
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

// codeIn takes the code from the address of the callback.
func codeIn(callback *url.URL, r Request, answer Answer) (string, Answer, error) {
	query := callback.Query()
	switch code := query.Get("code"); {
	case code != "" && query.Get("state") == r.State:
		return code, answer, nil
	case query.Get("error") == "temporarily_unavailable":
		answer.Status, answer.Header = http.StatusServiceUnavailable, answer.Header.Clone() // it would be one if it were no redirect
		answer.Header.Set("Retry-After", "1")
	}
	return "", answer, fmt.Errorf("authorizing: no code: %s", callback)
}

func (b *Browser) open(ctx context.Context, address string) Answer {
	return send(ctx, b.jar, http.MethodGet, address, "", nil)
}

// follow goes where a redirect from one of our pages leads.
func (b *Browser) follow(ctx context.Context, from string, next *url.URL) (Answer, string) {
	address := resolve(from, next.String())
	return b.open(ctx, address), address
}

// fillIn answers the form of a page: sign-in or consent. The page of a wrong password or of an expired request has the same
// form again, and the walk then does not end.
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

// resolve makes an address of a reference in a page.
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

// formIn returns where the first form of a page goes, and its fields as they stand: ticked boxes, no buttons.
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
