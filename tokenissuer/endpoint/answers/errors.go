package answers

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Error codes that exist only in HTTP.
const (
	// NotFound: there is nothing at the path.
	NotFound oauth.ErrorCode = "not_found"
)

// rendering is the status of a code and its name in a response.
type rendering struct {
	status int
	oauth  string // the error member of OAuth JSON; empty: the code
}

// renderings maps codes to their rendering. An unlisted code has status 400.
var renderings = map[oauth.ErrorCode]rendering{
	oauth.InvalidClient:          {status: http.StatusUnauthorized},
	oauth.Unauthorized:           {status: http.StatusUnauthorized},
	oauth.InvalidToken:           {status: http.StatusUnauthorized},
	oauth.InsufficientScope:      {status: http.StatusForbidden},
	oauth.AccessDenied:           {status: http.StatusForbidden},
	oauth.TokenNotYours:          {status: http.StatusForbidden, oauth: "unauthorized_client"},
	oauth.ServerError:            {status: http.StatusInternalServerError},
	oauth.TemporarilyUnavailable: {status: http.StatusServiceUnavailable},
	oauth.Denied:                 {status: http.StatusForbidden, oauth: "access_denied"},
	oauth.DeviceDenied:           {status: http.StatusBadRequest, oauth: "access_denied"},
	oauth.UserContextRequired:    {status: http.StatusForbidden},
	oauth.AdminRequired:          {status: http.StatusForbidden},
	oauth.TargetRoleNotAllowed:   {status: http.StatusForbidden},
	oauth.UserNotFound:           {status: http.StatusNotFound},
	oauth.UserInactive:           {status: http.StatusUnprocessableEntity},
	oauth.RateLimited:            {status: http.StatusTooManyRequests, oauth: "temporarily_unavailable"},

	oauth.InsufficientAuthentication: {status: http.StatusUnauthorized},
}

// retryAfter is the Retry-After of an outage of unknown length.
const retryAfter = 2 * time.Second

// StatusOf returns the HTTP status of an error.
func StatusOf(err error) int {
	if h, ok := errors.AsType[requests.Error](err); ok {
		return h.Status
	}
	if r, ok := renderings[oauth.AsError(err).Code]; ok {
		return r.status
	}
	return http.StatusBadRequest
}

// WireName returns the error member of OAuth JSON for a code.
func WireName(code oauth.ErrorCode) string {
	if r := renderings[code]; r.oauth != "" {
		return r.oauth
	}
	return string(code)
}

// BearerError marks an error about an access token, at an endpoint whose other errors concern clients.
type BearerError struct{ Err *oauth.Error }

// Error returns what is wrong with the token.
func (e BearerError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e BearerError) Unwrap() error { return e.Err }

// WriteError writes an error as OAuth JSON (RFC 6749 §5.2). It adds a challenge only to a 401 for a request with an Authorization header,
// because common clients ignore the error code of a 400 with a challenge.
func WriteError(w http.ResponseWriter, r *http.Request, err error, realm string) {
	if bearer, ok := errors.AsType[BearerError](err); ok {
		Challenge{Realm: realm}.Write(w, r, bearer.Err)
		return
	}
	e := oauth.AsError(err)
	if e.Code == oauth.InvalidClient && len(r.Header["Authorization"]) > 0 {
		w.Header().Set("Www-Authenticate", "Basic realm="+quote(realm))
	}
	WriteOAuthJSON(w, SetStatusHeaders(w, err), e)
}

// WriteOAuthJSON writes an error as OAuth JSON with a status.
func WriteOAuthJSON(w http.ResponseWriter, status int, e *oauth.Error) {
	var body []byte
	if isCommon(e) {
		body = preparedBodies.get(refusalKey{e.Code, e.Description, ""}, func() []byte { return oauthJSON(e) })
	} else {
		body = oauthJSON(e)
	}
	if body == nil {
		writeUnencodable(w)
		return
	}
	writeEncoded(w, status, JSON, body)
}

// oauthJSON returns the body of an error, or nil if a text is not UTF-8. It encodes by hand, because floods of refusals must be cheap.
func oauthJSON(e *oauth.Error) []byte {
	body := make([]byte, 0, 256)
	body = append(body, `{"error":`...)
	body, err := jsontext.AppendQuote(body, WireName(e.Code))
	if err == nil {
		body = append(body, `,"error_description":`...)
		body, err = jsontext.AppendQuote(body, e.Description)
	}
	if err != nil {
		return nil
	}
	return append(body, '}')
}

// SetStatusHeaders sets the headers for the error's status and returns the status. They are Allow, and Retry-After in whole seconds,
// rounded up (RFC 9110 §10.2.3).
func SetStatusHeaders(w http.ResponseWriter, err error) int {
	if h, ok := errors.AsType[requests.Error](err); ok && h.Allow != "" {
		w.Header().Set("Allow", h.Allow)
	}
	status := StatusOf(err)
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		wait := oauth.AsError(err).RetryAfter
		if wait <= 0 {
			wait = retryAfter
		}
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	return status
}

// SetPageHeaders sets the headers of an HTML page in a language, with its Content-Security-Policy.
func SetPageHeaders(h http.Header, language, policy string) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Language", language)
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// JSON is the Content-Type header of JSON.
var JSON = []string{"application/json; charset=utf-8"}

// WriteJSON writes a 200 response with body as JSON.
func WriteJSON(w http.ResponseWriter, body any) error {
	WriteBody(w, http.StatusOK, JSON, body)
	return nil
}

// WriteBody writes a response with body as JSON.
func WriteBody(w http.ResponseWriter, status int, contentType []string, body any) {
	encoded, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		writeUnencodable(w)
		return
	}
	writeEncoded(w, status, contentType, encoded)
}

func writeUnencodable(w http.ResponseWriter) {
	const body = `{"error":"server_error","error_description":"The response could not be encoded."}`
	writeEncoded(w, http.StatusInternalServerError, JSON, []byte(body))
}

func writeEncoded(w http.ResponseWriter, status int, contentType []string, body []byte) {
	w.Header()["Content-Type"] = slices.Clone(contentType) // cloned, because other handlers may edit header values in place
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has disconnected
}

// quote returns text as a quoted-string (RFC 9110 §5.6.4) of visible ASCII; other characters are dropped.
func quote(text string) string { return string(appendQuoted(nil, text)) }

func appendQuoted(b []byte, text string) []byte {
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= 0x20 && c <= 0x7e:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
