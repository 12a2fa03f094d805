package requests

import (
	"net/http"
	"strings"
)

// IsVisit reports whether a user follows a link, or sends a form. A prefetch or a HEAD is nobody's decision.
func IsVisit(r *http.Request) bool {
	return r.Method != http.MethodHead && !strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch")
}

// NotAVisit refuses what only a visit may do.
func NotAVisit() error { return Error{Status: http.StatusForbidden, Err: Invalid("not_a_visit")} }
