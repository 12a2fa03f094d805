package endpoint

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Codes that only the wire knows.
const (
	notFound oauth.ErrorCode = "not_found"
)

// rendering is how a code looks on the wire: its status, and its name where the wire has another one.
type rendering struct {
	status int
	oauth  string // the error member of OAuth JSON, when it is not the code itself
}

// renderings is the one table from code to status. A code that is not in it is a 400.
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
	oauth.UserContextRequired:    {status: http.StatusForbidden},
	oauth.AdminRequired:          {status: http.StatusForbidden},
	oauth.TargetRoleNotAllowed:   {status: http.StatusForbidden},
	oauth.UserNotFound:           {status: http.StatusNotFound},
	oauth.UserInactive:           {status: http.StatusUnprocessableEntity},
	oauth.RateLimited:            {status: http.StatusTooManyRequests, oauth: "temporarily_unavailable"},

	oauth.InsufficientAuthentication: {status: http.StatusUnauthorized},
}

// retryAfter is what a client is told when an outage has no known end.
const retryAfter = 2 * time.Second

// StatusOf returns the HTTP status of an error.
func StatusOf(err error) int {
	if h, ok := errors.AsType[httpError](err); ok {
		return h.status
	}
	if r, ok := renderings[oauth.AsError(err).Code]; ok {
		return r.status
	}
	return http.StatusBadRequest
}

// wireName returns the error member of OAuth JSON.
func wireName(code oauth.ErrorCode) string {
	if r := renderings[code]; r.oauth != "" {
		return r.oauth
	}
	return string(code)
}

// bearerError marks an error of a request that authenticates with an access token, on an endpoint whose other errors
// are about clients.
type bearerError struct{ err *oauth.Error }

func (e bearerError) Error() string { return e.err.Error() }
func (e bearerError) Unwrap() error { return e.err }

// clientError tells the audit log which client a refusal concerns.
type clientError struct {
	error
	clientID string
}

func (e clientError) Unwrap() error { return e.error }

// forClient adds the client, when it is known, to an error.
func forClient(err error, client *store.Client) error {
	if client == nil {
		return err
	}
	return clientError{err, client.ID}
}

// writeOAuthError writes an error as OAuth JSON (RFC 6749 §5.2). Only a 401 to a request that used the Authorization
// header has a challenge: with one on a 400 common clients lose the typed error.
func writeOAuthError(w http.ResponseWriter, r *http.Request, err error, realm string) {
	if bearer, ok := errors.AsType[bearerError](err); ok {
		Challenge{Realm: realm}.Write(w, r, bearer.err)
		return
	}
	e := oauth.AsError(err)
	if e.Code == oauth.InvalidClient && len(r.Header["Authorization"]) > 0 {
		w.Header().Set("Www-Authenticate", "Basic realm="+quote(realm))
	}
	writeOAuthJSON(w, setStatusHeaders(w, err), e)
}

// writeOAuthJSON writes status and body of an error in the form of RFC 6749 §5.2.
func writeOAuthJSON(w http.ResponseWriter, status int, e *oauth.Error) {
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
	writeEncoded(w, status, jsonUTF8, body)
}

// oauthJSON is the body of an error; nil: a text is not UTF-8. The two members are appended by hand, because a flood of
// refusals is paid for here.
func oauthJSON(e *oauth.Error) []byte {
	body := make([]byte, 0, 256)
	body = append(body, `{"error":`...)
	body, err := jsontext.AppendQuote(body, wireName(e.Code))
	if err == nil {
		body = append(body, `,"error_description":`...)
		body, err = jsontext.AppendQuote(body, e.Description)
	}
	if err != nil {
		return nil
	}
	return append(body, '}')
}

// setStatusHeaders sets the headers that belong to a status, and returns the status: Allow, and when a client may come
// back (RFC 9110 §10.2.3), in whole seconds, rounded up.
func setStatusHeaders(w http.ResponseWriter, err error) int {
	if h, ok := errors.AsType[httpError](err); ok && h.allow != "" {
		w.Header().Set("Allow", h.allow)
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

var jsonUTF8 = []string{"application/json; charset=utf-8"}

// writeJSON writes a success.
func writeJSON(w http.ResponseWriter, body any) error {
	writeBody(w, http.StatusOK, jsonUTF8, body)
	return nil
}

func writeBody(w http.ResponseWriter, status int, contentType []string, body any) {
	encoded, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		writeUnencodable(w)
		return
	}
	writeEncoded(w, status, contentType, encoded)
}

func writeUnencodable(w http.ResponseWriter) {
	const body = `{"error":"server_error","error_description":"The response could not be encoded."}`
	writeEncoded(w, http.StatusInternalServerError, jsonUTF8, []byte(body))
}

func writeEncoded(w http.ResponseWriter, status int, contentType []string, body []byte) {
	w.Header()["Content-Type"] = slices.Clone(contentType) // a site's handlers may change lines in their places
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON, sent as JSON; the client is gone when this fails
}

// quote makes text a quoted-string (RFC 9110 §5.6.4) of visible ASCII: what could end or escape the string is dropped
// or escaped.
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
