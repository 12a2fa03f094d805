package requests

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// IsVisit reports whether a request may be a user following a link or sending a form. A prefetch or a HEAD is not.
func IsVisit(r *http.Request) bool {
	return r.Method != http.MethodHead && !strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch")
}

// IsNavigation reports whether the browser shows the response as a page of its own, as far as the browser says (Fetch Metadata). No script,
// image or frame can claim that. Programs and older browsers do not send the headers.
func IsNavigation(r *http.Request) bool {
	return says(r.Header["Sec-Fetch-Mode"], "navigate") && says(r.Header["Sec-Fetch-Dest"], "document")
}

func says(lines []string, value string) bool {
	return len(lines) == 0 || slices.Equal(lines, []string{value})
}

// IsFrame reports whether the browser says that it shows the response in a frame.
func IsFrame(r *http.Request) bool {
	return slices.Equal(r.Header["Sec-Fetch-Mode"], []string{"navigate"}) && slices.Equal(r.Header["Sec-Fetch-Dest"], []string{"iframe"})
}

// ComesFrom reports whether a page of an origin caused a request, by its Referer. A page can omit the header but not forge another origin.
func ComesFrom(r *http.Request, origin string) bool {
	lines := r.Header["Referer"]
	if len(lines) != 1 {
		return false
	}
	page, err := url.Parse(lines[0])
	return err == nil && page.Host != "" && oauth.OriginOf(page) == origin
}

// NotAVisit returns the error for a request that must be a visit.
func NotAVisit() error { return Error{Status: http.StatusForbidden, Err: Invalid("not_a_visit")} }
