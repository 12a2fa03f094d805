package requests

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Error is an error with a status of its own (405, 413, 415, 425). Code and description are those of the wrapped error.
type Error struct {
	Status int
	Err    *oauth.Error
	Allow  string // for a 405
}

// Error returns the text of the wrapped error, for logs only.
func (e Error) Error() string { return e.Err.Error() }

func (e Error) Unwrap() error { return e.Err }

// RefuseEarlyData returns an error for a request in TLS early data, which an attacker can replay. Any Early-Data header counts, regardless
// of its value (RFC 8470 §5.1). GET and HEAD are safe and allowed.
func RefuseEarlyData(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if (r.TLS != nil && !r.TLS.HandshakeComplete) || r.Header["Early-Data"] != nil {
		return Error{Status: http.StatusTooEarly, Err: oauth.NewError(oauth.InvalidRequest, "early_data")}
	}
	return nil
}

// MethodNotAllowed returns the error for a wrong method; allow lists the right ones (RFC 9110 §15.5.6).
func MethodNotAllowed(allow string) error {
	return Error{
		Status: http.StatusMethodNotAllowed, Allow: allow,
		Err: oauth.NewError(oauth.InvalidRequest, "method_not_allowed"),
	}
}

// Invalid returns an invalid_request error; reason is for the audit log.
func Invalid(reason string) *oauth.Error {
	return oauth.NewError(oauth.InvalidRequest, reason)
}

// TooLarge returns the error for a body beyond maxBody. It closes the connection instead of reading the rest.
func TooLarge(w http.ResponseWriter) error {
	w.Header().Set("Connection", "close")
	return Error{Status: http.StatusRequestEntityTooLarge, Err: Invalid("body_too_large")}
}
