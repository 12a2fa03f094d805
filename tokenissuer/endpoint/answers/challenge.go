package answers

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Challenge describes the WWW-Authenticate header of a protected resource's refusals (RFC 6750 §3).
type Challenge struct {
	// Realm is the issuer's URL.
	Realm string
	// ResourceMetadata is the resource_metadata URL (RFC 9728 §5.1), or empty.
	ResourceMetadata string
	// Scope lists the scopes that the resource needs. If it is empty, those that the error names are used.
	Scope string
}

// PreparedChallenge is a Challenge that caches the headers of common refusals. Each resource has one of its own.
type PreparedChallenge struct {
	challenge Challenge
	lines     prepared[string]
}

// Prepare returns a PreparedChallenge of c.
func (c Challenge) Prepare() *PreparedChallenge { return &PreparedChallenge{challenge: c} }

// Challenge returns the Challenge that c was prepared from.
func (c *PreparedChallenge) Challenge() Challenge { return c.challenge }

// SetHeaders is like Challenge.SetHeaders. A nonempty scope replaces the resource's.
func (c *PreparedChallenge) SetHeaders(w http.ResponseWriter, err error, scope string) int {
	status, e := SetStatusHeaders(w, err), oauth.AsError(err)
	build := func() string {
		challenge := c.challenge
		if scope != "" {
			challenge.Scope = scope
		}
		return challenge.line(status, e)
	}
	if isCommon(e) {
		setChallenge(w, c.lines.get(refusalKey{e.Code, e.Description, scope}, build))
	} else {
		setChallenge(w, build())
	}
	return status
}

// SetHeaders sets the headers of a refusal and returns its status. A request without a token gets a challenge without an error (RFC 6750
// §3.1). Errors that do not concern the credential get no challenge.
func (c Challenge) SetHeaders(w http.ResponseWriter, err error) int {
	status := SetStatusHeaders(w, err)
	setChallenge(w, c.line(status, oauth.AsError(err)))
	return status
}

// setChallenge sets the headers of every refusal. An empty line means no challenge.
func setChallenge(w http.ResponseWriter, line string) {
	header := w.Header()
	// The array must not be shared between responses, because other handlers may edit header values in place.
	lines := []string{"no-store", "no-cache", "Accept", line, "nosniff"}
	header["Cache-Control"], header["Pragma"], header["X-Content-Type-Options"] = lines[0:1:1], lines[1:2:2], lines[4:5:5]
	if header["Vary"] == nil {
		header["Vary"] = lines[2:3:3]
	} else {
		header.Add("Vary", "Accept")
	}
	if lines[3] != "" {
		header["Www-Authenticate"] = lines[3:4:4]
	}
}

// line returns the challenge, or "" if the error gets none.
func (c Challenge) line(status int, e *oauth.Error) string {
	value := append(make([]byte, 0, 256), "Bearer realm="...)
	value = appendQuoted(value, c.Realm)
	switch {
	case e.Code == oauth.Unauthorized:
	case e.Code == oauth.InvalidToken, e.Code == oauth.InsufficientScope, e.Code == oauth.InsufficientAuthentication,
		e.Code == oauth.InvalidRequest && status == http.StatusBadRequest:
		value = append(append(value, `, error="`...), e.Code...)
		value = appendQuoted(append(value, `", error_description=`...), e.Description)
	default:
		return ""
	}
	if c.ResourceMetadata != "" {
		value = appendQuoted(append(value, ", resource_metadata="...), c.ResourceMetadata)
	}
	if scope := c.scopeFor(e); scope != "" {
		value = appendQuoted(append(value, ", scope="...), scope)
	}
	return string(appendStepUp(value, e))
}

// appendStepUp appends the required sign-in (RFC 9470 §3). It rounds max_age down, so that a token obtained with it is accepted.
func appendStepUp(value []byte, e *oauth.Error) []byte {
	if len(e.ACRValues) > 0 {
		value = appendQuoted(append(value, ", acr_values="...), strings.Join(e.ACRValues, " "))
	}
	if e.MaxAge > 0 {
		value = appendQuoted(append(value, ", max_age="...), strconv.FormatInt(int64(e.MaxAge/time.Second), 10))
	}
	return value
}

// scopeFor returns the scope parameter. It names all scopes that the resource needs, so that a client that requests exactly those succeeds.
// If they are unknown, it returns the scopes that the error names.
func (c Challenge) scopeFor(e *oauth.Error) string {
	if c.Scope != "" {
		return c.Scope
	}
	return e.Scope
}

// Write writes a refusal, as a JSON:API document if the client prefers that, or else as OAuth JSON.
func (c Challenge) Write(w http.ResponseWriter, r *http.Request, err error) {
	status := c.SetHeaders(w, err)
	WriteRefusal(w, r, status, err)
}

// WriteRefusal writes the status and body of a refusal.
func WriteRefusal(w http.ResponseWriter, r *http.Request, status int, err error) {
	e := oauth.AsError(err)
	if prefersJSONAPI(r.Header["Accept"]) {
		WriteJSONAPIError(w, status, e, nil)
		return
	}
	WriteOAuthJSON(w, status, e)
}
