package requests

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
)

// BearerToken returns the token in the Authorization header of r (RFC 6750 §2.1). present reports whether the request has a bearer
// credential. Without the header, or with another scheme, it has none, and gets the challenge without an error attribute (§3.1). The header
// must occur once, with the scheme in any case, exactly one space and a b64token; nothing is trimmed. A header of another form is an
// invalid_request, and one with a non-ASCII byte an invalid_token. BearerToken ignores query, body and cookies.
func BearerToken(r *http.Request) (token oauth.Secret, present bool, err error) {
	headers := r.Header["Authorization"]
	switch {
	case len(headers) > 1:
		return oauth.Secret{}, true, Invalid("authorization_header_duplicate")
	case len(headers) == 0 || headers[0] == "":
		return oauth.Secret{}, false, nil
	case !isTokenChar(headers[0][0]):
		// HTTP/2 preserves leading white space, which another hop may strip, making this a credential.
		return oauth.Secret{}, true, Invalid("bearer_malformed")
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
	return oauth.Secret{}, true, Invalid("bearer_malformed")
}

// queryToken is the query parameter for a token, which RFC 6750 §2.3 allowed and OAuth 2.1 forbids.
const queryToken = "access_token"

// QueryCarriesToken reports whether a raw query has a parameter that some query parser takes for access_token. It splits at semicolons too,
// because an upstream may.
func QueryCarriesToken(rawQuery string) bool {
	for rest := rawQuery; rest != ""; {
		pair, _, after := cutPair(rest)
		if isQueryToken(pair) {
			return true
		}
		rest = after
	}
	return false
}

// WithoutQueryToken removes such parameters from a raw query, so that no upstream uses one as a credential. It removes each with the
// separator before it, or after it for the first one. All other bytes stay.
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

// cutPair splits a raw query at its first separator, which is "" if there is none.
func cutPair(rawQuery string) (pair, separator, after string) {
	i := strings.IndexAny(rawQuery, "&;")
	if i < 0 {
		return rawQuery, "", ""
	}
	return rawQuery[:i], rawQuery[i : i+1], rawQuery[i+1:]
}

// isQueryToken reports whether some query parser takes the name of a pair for access_token. PHP replaces a dot, a space and an unclosed
// bracket by an underscore, skips spaces before a name and ends it at a NUL. Rack and qs drop brackets around a name. ASP.NET ignores case.
// Most parsers make a list of access_token[].
func isQueryToken(pair string) bool {
	name, _, _ := strings.Cut(pair, "=")
	if len(name) < len(queryToken) {
		return false
	}
	if strings.ContainsAny(name, "%+") {
		name = unescape(strings.ReplaceAll(name, "+", " "))
	}
	name, _, _ = strings.Cut(name, "\x00")
	name = strings.TrimSpace(strings.TrimLeft(name, "[] "))
	if strings.Contains(name, "]") {
		name = name[:strings.IndexAny(name, "[]")]
	}
	return strings.EqualFold(underscores.Replace(name), queryToken)
}

// underscores makes the replacements of PHP.
var underscores = strings.NewReplacer(".", "_", " ", "_", "[", "_")

// ShowsPersonalToken reports whether a text contains most or all of a personal access token, at any level of percent-encoding.
func ShowsPersonalToken(text string) bool {
	const most = 16 // characters after the prefix
	if strings.Contains(text, "%") {
		text = unescapeFully(text)
	}
	for {
		_, after, found := strings.Cut(text, people.TokenPrefix)
		if !found {
			return false
		}
		if len(after) >= most && !strings.ContainsFunc(after[:most], func(c rune) bool { return !strings.ContainsRune(oauth.Base62, c) }) {
			return true
		}
		text = after
	}
}

// unescapeFully decodes percent-encoding until none is left. It reads the text once, whatever the level of encoding: decoded characters may
// be the beginning or the end of another escape.
func unescapeFully(text string) string {
	decoded := make([]byte, 0, len(text))
	for i := range len(text) {
		decoded = append(decoded, text[i])
		for n := len(decoded) - 3; n >= 0 && decoded[n] == '%'; n = len(decoded) - 3 {
			c, err := strconv.ParseUint(string(decoded[n+1:]), 16, 8)
			if err != nil {
				break
			}
			decoded = append(decoded[:n], byte(c))
		}
	}
	return string(decoded)
}

// Credential returns the only access token of a request. If there is none, the error is unauthorized. It refuses a token in the header
// together with one in the query, and ignores a token in the query alone (RFC 6750 §2: only one method; OAuth 2.1 §5.1 has no query
// method).
func Credential(r *http.Request) (oauth.Secret, error) {
	token, present, err := BearerToken(r)
	switch {
	case err != nil:
		return token, err
	case !present:
		return token, oauth.NewError(oauth.Unauthorized, "token_missing")
	case QueryCarriesToken(r.URL.RawQuery):
		return token, Invalid("token_twice")
	}
	return token, nil
}
