package endpoint

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// credentials are the id and secret that a client shows, in the core's own type. They prove nothing yet.
type credentials = tokenissuer.ClientCredential

// presented is how the client of a request says who it is. Readings are what its credentials can mean: the client is
// authenticated when one of them is right, and has failed once when none is. PublicID is set instead when there is a
// client_id without a secret. UsedHeader reports whether an Authorization header came: only then does a 401 carry a
// challenge (RFC 6749 §5.2).
type presented struct {
	Readings   []credentials
	PublicID   string
	UsedHeader bool
}

// twoMechanisms is the sentence of the wire contract for RFC 6749 §2.3: one method of authentication a request.
const twoMechanisms = "The request utilizes more than one mechanism for authenticating the client."

// clientCredentials reads the client authentication of a request (RFC 6749 §2.3.1): HTTP Basic, or client_id and
// client_secret in the body. Without any of them it returns no reading and no PublicID, and the endpoint decides.
// UsedHeader is right whatever the error. An Authorization header of another scheme, or an empty one, is ignored: many
// HTTP clients send a default header with every request, such as a Bearer token that may have expired.
func clientCredentials(r *http.Request, f form) (presented, error) {
	headers := r.Header["Authorization"]
	id, secret := f.get("client_id"), f.secret("client_secret")
	p := presented{UsedHeader: len(headers) > 0}

	switch {
	case len(headers) > 1:
		return p, invalidRequest("authorization_header_duplicate")
	case len(headers) == 1 && hasScheme(headers[0], "Basic"):
		if !secret.IsEmpty() {
			return p, invalidRequest("client_authentication_twice").WithDescription(twoMechanisms)
		}
		return basicCredentials(p, headers[0], id)
	case id == "" && secret.IsEmpty():
		return p, nil
	case id == "":
		return p, invalidClient("client_id_missing")
	case !storable(id) || !storable(secret.Reveal()):
		return p, invalidClient("client_credentials_malformed")
	case secret.IsEmpty():
		p.PublicID = id
	default:
		p.Readings = []credentials{{ID: id, Secret: secret}}
	}
	return p, nil
}

// basicCredentials adds what a Basic header says to p. A client_id in the body must name the same client: only the
// readings that agree with it are kept, so that nobody is authenticated as one client and served as another.
func basicCredentials(p presented, header, id string) (presented, error) {
	readings, err := parseBasic(header)
	if err != nil {
		return p, err
	}
	readings = slices.DeleteFunc(readings, func(c credentials) bool { return id != "" && c.ID != id })
	if len(readings) == 0 {
		return p, invalidClient("client_id_mismatch")
	}
	p.Readings = readings
	return p, nil
}

// parseBasic returns what an Authorization header of scheme Basic can mean. RFC 6749 §2.3.1 has id and secret
// form-encoded before they are joined, and many clients do not do it; so the form-decoded reading comes first, and
// the raw one follows when it differs. Base64 must be the canonical one, with its padding: it re-encodes to the same
// text. A reading that no directory could hold is left out. An empty secret is no secret: the client is a public one, or
// proves nothing.
func parseBasic(header string) ([]credentials, error) {
	const prefix = len("Basic ")
	if len(header) < prefix || !hasScheme(header, "Basic") || header[prefix-1] != ' ' {
		return nil, invalidClient("basic_malformed")
	}
	decoded, canonical := decodeCanonical(header[prefix:])
	id, secret, colon := strings.Cut(decoded, ":")
	if !canonical || !colon || id == "" {
		return nil, invalidClient("basic_malformed")
	}

	readings := make([]credentials, 0, 2)
	add := func(id, secret string) {
		if storable(id) && storable(secret) {
			readings = append(readings, credentials{ID: id, Secret: oauth.NewSecret(secret)})
		}
	}
	plainID, idErr := url.QueryUnescape(id)
	plainSecret, secretErr := url.QueryUnescape(secret)
	encodes := idErr == nil && secretErr == nil
	if encodes {
		add(plainID, plainSecret)
	}
	if !encodes || plainID != id || plainSecret != secret {
		add(id, secret)
	}
	if len(readings) == 0 {
		return nil, invalidClient("basic_malformed")
	}
	return readings, nil
}

var strictBase64 = base64.StdEncoding.Strict()

// decodeCanonical decodes a text that is the one encoding of its bytes. Strict refuses stray bits, but Go's decoder skips
// line ends anywhere, so those are refused here.
func decodeCanonical(encoded string) (decoded string, canonical bool) {
	var room [256]byte // for more than credentials usually need
	buffer := room[:]
	if n := strictBase64.DecodedLen(len(encoded)); n > len(buffer) {
		buffer = make([]byte, n)
	}
	n, err := strictBase64.Decode(buffer, []byte(encoded))
	return string(buffer[:n]), err == nil && !strings.ContainsAny(encoded, "\r\n")
}

// hasScheme reports whether an Authorization header is of the scheme, in any case (RFC 9110 §11.1). What follows the
// scheme may be anything that does not make it another one, so that its reader can refuse it.
func hasScheme(header, scheme string) bool {
	n := len(scheme)
	if len(header) < n || !strings.EqualFold(header[:n], scheme) {
		return false
	}
	return len(header) == n || !isTokenChar(header[n])
}

// isTokenChar reports whether c can be part of a scheme's name: the tchar of RFC 9110 §5.6.2.
func isTokenChar(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// invalidClient is the refusal of client credentials, with reason as the audit log's word for it.
func invalidClient(reason string) *oauth.Error {
	return oauth.NewError(oauth.InvalidClient, reason)
}
