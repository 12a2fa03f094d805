package keys

import (
	"strings"
)

// Results of Elsewhere.
const (
	fromAnotherAddress   = "another address"
	fromAnotherUserAgent = "another user agent"
	fromElsewhere        = "another address and user agent"
)

// Elsewhere returns what differs between the requester that redeemed a refresh token and the one that repeats it; empty: nothing, or unknown.
func Elsewhere(rotated, repeats string) string {
	if len(rotated) != 2*RequesterDigestPart || len(repeats) != 2*RequesterDigestPart {
		return ""
	}
	address, agent := rotated[:RequesterDigestPart] != repeats[:RequesterDigestPart], rotated[RequesterDigestPart:] != repeats[RequesterDigestPart:]
	switch {
	case address && agent:
		return fromElsewhere
	case address:
		return fromAnotherAddress
	case agent:
		return fromAnotherUserAgent
	}
	return ""
}

// maxUserAgent bounds the part of a User-Agent that is read, in bytes.
const maxUserAgent = 512

// UserAgentFamily returns the names of the products in a User-Agent (RFC 9110 §10.1.5), without their versions and without
// comments, which name versions of systems, so that an update does not change it.
func UserAgentFamily(userAgent string) string {
	var products []string
	var product strings.Builder
	depth := 0 // of comments, which nest
	end := func() {
		name, _, _ := strings.Cut(product.String(), "/")
		if product.Reset(); name != "" && !isVersion(name) {
			products = append(products, strings.ToLower(name))
		}
	}
	for _, c := range []byte(userAgent[:min(len(userAgent), maxUserAgent)]) {
		switch {
		case c == '(':
			end()
			depth++
		case c == ')':
			depth = max(0, depth-1)
		case depth > 0:
		case c == ' ' || c == '\t':
			end()
		default:
			product.WriteByte(c)
		}
	}
	end()
	return strings.Join(products, " ")
}

// isVersion reports whether a word is a version that stands alone: 1.2, v1.2-beta.
func isVersion(word string) bool {
	word = strings.TrimLeft(word, "vV")
	return word != "" && word[0] >= '0' && word[0] <= '9'
}
