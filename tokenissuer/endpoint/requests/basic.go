package requests

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// credentials are an unverified client id and secret.
type credentials = clients.Credential

// ClientCredentials is the client authentication of a request. Readings are the possible readings of its credentials. The client is
// authenticated if one is correct; if none is, that counts as one failure. For a client_id without a secret, PublicID is set instead.
// UsedHeader reports whether there is an Authorization header, because only then may a 401 carry a challenge (RFC 6749 §5.2).
type ClientCredentials struct {
	Readings []credentials
	PublicID string
	// Assertion is the client_assertion (RFC 7523 §2.2), or empty. With an assertion, PublicID is the client_id, if there is one.
	Assertion  oauth.Secret
	UsedHeader bool
}

// TwoMechanisms is the error_description for RFC 6749 §2.3, which allows only one authentication method per request.
const TwoMechanisms = "The request utilizes more than one mechanism for authenticating the client."

// ReadClientCredentials reads the client authentication of a request: HTTP Basic, client_id and client_secret in the body (RFC 6749
// §2.3.1), or a client_assertion. If there is none, it returns neither readings nor a PublicID, and the endpoint decides. UsedHeader is
// valid even with an error. An Authorization header that is empty or of another scheme is ignored, because many HTTP clients send a default
// header with every request, such as an expired Bearer token.
func ReadClientCredentials(r *http.Request, f Form) (ClientCredentials, error) {
	headers := r.Header["Authorization"]
	id, secret := f.Get("client_id"), f.Secret("client_secret")
	p := ClientCredentials{UsedHeader: len(headers) > 0}

	asserts := f.Get("client_assertion_type") != "" || !f.Secret("client_assertion").IsEmpty()
	switch {
	case len(headers) > 1:
		return p, Invalid("authorization_header_duplicate")
	case len(headers) == 1 && hasScheme(headers[0], "Basic"):
		if !secret.IsEmpty() || asserts {
			return p, Invalid("client_authentication_twice").WithDescription(TwoMechanisms)
		}
		return basicCredentials(p, headers[0], id)
	case asserts:
		return assertionCredentials(p, f, id)
	case id == "" && secret.IsEmpty():
		return p, nil
	case id == "":
		return p, invalidClient("client_id_missing")
	case !Storable(id) || !Storable(secret.Reveal()):
		return p, invalidClient("client_credentials_malformed")
	case secret.IsEmpty():
		p.PublicID = id
	default:
		p.Readings = []credentials{{ID: id, Secret: secret}}
	}
	return p, nil
}

// assertionCredentials adds a client_assertion to p (RFC 7521 §4.2). The assertion names its client, and a client_id must agree.
func assertionCredentials(p ClientCredentials, f Form, id string) (ClientCredentials, error) {
	switch {
	case !f.Secret("client_secret").IsEmpty():
		return p, Invalid("client_authentication_twice").WithDescription(TwoMechanisms)
	case f.Get("client_assertion_type") != clients.AssertionType:
		return p, invalidClient("client_assertion_type_unknown").WithDescription("The client_assertion_type must be " + clients.AssertionType + ".")
	case f.Secret("client_assertion").IsEmpty():
		return p, invalidClient("client_assertion_missing")
	case !Storable(id):
		return p, invalidClient("client_credentials_malformed")
	}
	p.PublicID, p.Assertion = id, f.Secret("client_assertion")
	return p, nil
}

// basicCredentials adds the readings of a Basic header to p. It drops readings that disagree with a client_id in the body, so that a
// request is not authenticated as one client and served as another.
func basicCredentials(p ClientCredentials, header, id string) (ClientCredentials, error) {
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

// parseBasic returns the possible readings of a Basic header. RFC 6749 §2.3.1 requires id and secret to be form-encoded, but many clients
// do not encode them. So the decoded reading comes first, and the raw one follows if it differs. Base64 must be canonical, with padding. It
// omits readings that cannot be stored. An empty secret counts as none: the client is public or unauthenticated.
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
		if Storable(id) && Storable(secret) {
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

// decodeCanonical decodes base64 and reports whether the encoding is canonical. Strict refuses nonzero trailing bits. Go's decoder ignores
// line breaks, so they are refused here.
func decodeCanonical(encoded string) (decoded string, canonical bool) {
	var room [256]byte // enough for typical credentials
	buffer := room[:]
	if n := strictBase64.DecodedLen(len(encoded)); n > len(buffer) {
		buffer = make([]byte, n)
	}
	n, err := strictBase64.Decode(buffer, []byte(encoded))
	return string(buffer[:n]), err == nil && !strings.ContainsAny(encoded, "\r\n")
}

// hasScheme reports whether an Authorization header has the scheme, ignoring case (RFC 9110 §11.1). Any character that cannot be part of
// the scheme's name may follow. The scheme's parser refuses malformed headers.
func hasScheme(header, scheme string) bool {
	n := len(scheme)
	if len(header) < n || !strings.EqualFold(header[:n], scheme) {
		return false
	}
	return len(header) == n || !isTokenChar(header[n])
}

// isTokenChar reports whether c may occur in a scheme's name (tchar of RFC 9110 §5.6.2).
func isTokenChar(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// invalidClient returns an invalid_client error; reason is for the audit log.
func invalidClient(reason string) *oauth.Error {
	return oauth.NewError(oauth.InvalidClient, reason)
}
