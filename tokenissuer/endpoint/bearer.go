package endpoint

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// BearerToken returns the token in the Authorization header of r (RFC 6750 §2.1), and whether the request carries a
// bearer credential at all. No header and a header of another scheme are none: such a request gets the challenge
// without an error attribute (§3.1). The header must be one, and hold the scheme in any case, exactly one space and
// one b64token; nothing is trimmed. What is not of that shape is an invalid_request, and a byte which no ASCII text
// has is an invalid_token. Neither the query nor the body nor a cookie is looked at.
func BearerToken(r *http.Request) (token oauth.Secret, present bool, err error) {
	headers := r.Header["Authorization"]
	switch {
	case len(headers) > 1:
		return oauth.Secret{}, true, invalidRequest("authorization_header_duplicate")
	case len(headers) == 0 || headers[0] == "":
		return oauth.Secret{}, false, nil
	case !isTokenChar(headers[0][0]):
		// HTTP/2 keeps leading white space, and a hop that does not would make a credential of what was none here.
		return oauth.Secret{}, true, invalidRequest("bearer_malformed")
	case !hasScheme(headers[0], "Bearer"):
		return oauth.Secret{}, false, nil
	}
	rest := headers[0][len("Bearer"):]
	text, spaced := strings.CutPrefix(rest, " ")
	switch {
	case spaced && oauth.IsB64Token(text):
		return oauth.NewSecret(text), true, nil
	case strings.ContainsFunc(rest, func(c rune) bool { return c >= 0x7f }):
		return oauth.Secret{}, true, oauth.NewError(oauth.InvalidToken, "bearer_bytes_invalid")
	}
	return oauth.Secret{}, true, invalidRequest("bearer_malformed")
}

// queryToken is the name of the query parameter that RFC 6750 §2.3 once allowed for a token and OAuth 2.1 forbids.
const queryToken = "access_token"

// QueryCarriesToken reports whether a raw query has a parameter whose name decodes to access_token. A semicolon parts
// parameters here like an ampersand, because an upstream may read it so.
func QueryCarriesToken(rawQuery string) bool {
	if !strings.Contains(rawQuery, "%") && !strings.Contains(rawQuery, queryToken) {
		return false
	}
	for rest := rawQuery; rest != ""; {
		pair, _, after := cutPair(rest)
		if isQueryToken(pair) {
			return true
		}
		rest = after
	}
	return false
}

// WithoutQueryToken returns a raw query without the parameters that QueryCarriesToken looks for, so that no upstream
// takes one as a credential. Each goes with the separator before it, or after it when it is the first; every other
// byte is kept, in its place.
func WithoutQueryToken(rawQuery string) string {
	if !QueryCarriesToken(rawQuery) {
		return rawQuery
	}
	var kept strings.Builder
	first, before := true, ""
	for rest, more := rawQuery, true; more; {
		pair, separator, after := cutPair(rest)
		if !isQueryToken(pair) {
			if !first {
				kept.WriteString(before)
			}
			kept.WriteString(pair)
			first = false
		}
		before, rest, more = separator, after, separator != ""
	}
	return kept.String()
}

// cutPair cuts a raw query around its first separator, which is "" when there is none.
func cutPair(rawQuery string) (pair, separator, after string) {
	i := strings.IndexAny(rawQuery, "&;")
	if i < 0 {
		return rawQuery, "", ""
	}
	return rawQuery[:i], rawQuery[i : i+1], rawQuery[i+1:]
}

// isQueryToken reports whether a pair's name decodes to access_token.
func isQueryToken(pair string) bool {
	name, _, _ := strings.Cut(pair, "=")
	if name == queryToken {
		return true
	}
	if !strings.Contains(name, "%") {
		return false
	}
	decoded, err := url.QueryUnescape(name)
	return err == nil && decoded == queryToken
}

// Credential returns the one access token of a request. No token is unauthorized; a token in the header and another in
// the query is an invalid_request, and a token in the query alone is no token (RFC 6750 §2: one method only; OAuth 2.1
// §5.1 has no query method).
func Credential(r *http.Request) (oauth.Secret, error) {
	token, present, err := BearerToken(r)
	switch {
	case err != nil:
		return token, err
	case !present:
		return token, oauth.NewError(oauth.Unauthorized, "token_missing")
	case QueryCarriesToken(r.URL.RawQuery):
		return token, invalidRequest("token_twice")
	}
	return token, nil
}
