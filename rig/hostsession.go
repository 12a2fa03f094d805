//go:build linux

package rig

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// WebPage is behind `challenge browser`, at the host that WebOf names.
const WebPage = "/web/page"

// WebOf returns the URL of the host at which browsers have host sessions: the issuer's by another name.
func WebOf(issuer string) string { return strings.Replace(issuer, "//127.0.0.1", "//localhost", 1) }

// navigation is the header that a browser sends when it opens a page.
var navigation = []string{
	"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none", "Accept", "text/html",
}

// See opens a page, with the browser's session at its host, and follows no redirect.
func (b *Browser) See(ctx context.Context, page string) Answer {
	return send(ctx, b.jar, http.MethodGet, page, "", navigation)
}

// Visit opens a page and signs in as often as asked, until it sees the page. Otherwise it returns the reason and the last answer, which
// says whether it was lost. The person then opens the page again.
func (b *Browser) Visit(ctx context.Context, page string) (Answer, error) {
	return b.walk(ctx, page, func(*url.URL) bool { return false })
}

// walk opens a page and continues until it gets a page without a form, or a redirect for which stops returns true.
func (b *Browser) walk(ctx context.Context, at string, stops func(next *url.URL) bool) (Answer, error) {
	answer := b.See(ctx, at)
	for range 12 {
		if answer.Status == 0 || answer.Unsent || answer.Lost() {
			return answer, fmt.Errorf("visiting: %s", answer)
		}
		next, err := url.Parse(answer.Header.Get("Location"))
		switch {
		case err != nil:
			return answer, fmt.Errorf("visiting: %w", err)
		case next.String() != "" && stops(next):
			return answer, nil
		case next.String() != "":
			at = resolve(at, next.String())
			answer = b.See(ctx, at)
		case answer.Status == http.StatusOK && !strings.Contains(answer.Body, "<form"):
			return answer, nil
		default:
			if answer, err = b.fillIn(ctx, at, answer); err != nil {
				return answer, fmt.Errorf("visiting: %w", err)
			}
		}
	}
	return answer, fmt.Errorf("visiting: it does not end: %s", answer)
}

// keep returns a browser with the current cookies of this one.
func (b *Browser) keep(sites ...string) *Browser {
	copied := NewBrowser(b.User)
	for _, site := range sites {
		if u, err := url.Parse(site); err == nil {
			copied.jar.SetCookies(u, b.jar.Cookies(u))
		}
	}
	return copied
}

// SignOut signs the browser out at a host, and thereby at all hosts of the same sign-in.
func (b *Browser) SignOut(ctx context.Context, host string) Answer {
	return send(ctx, b.jar, http.MethodPost, host+"/oauth/sign_out", "", []string{
		"Content-Type", formType, "Origin", "null", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate",
	})
}
