package answers

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// ProblemOf returns what a page says of a status of which nothing else is known.
func ProblemOf(status int) pages.ProblemCode {
	switch {
	case status == http.StatusNotFound:
		return pages.NotFound
	case status == http.StatusMethodNotAllowed:
		return pages.NotAllowed
	case status == http.StatusTooManyRequests:
		return pages.Throttled
	case status == http.StatusServiceUnavailable:
		return pages.Unavailable
	case status >= http.StatusInternalServerError:
		return pages.Internal
	}
	return pages.BadRequest
}
