package identity

import "strings"

// Names is a set of header names that matches every spelling which some server treats as equal. CGI and its descendants
// (FastCGI, WSGI, Rack) map X-Auth-Subject, X_Auth_Subject and x.auth.subject to the variable HTTP_X_AUTH_SUBJECT. So
// names are compared in lower case, with everything but letters and digits read as a hyphen.
type Names struct{ folded []string }

// NewNames returns the set of these names.
func NewNames(names ...string) Names {
	var s Names
	for _, name := range names {
		if !s.Has(name) {
			s.folded = append(s.folded, Fold(name))
		}
	}
	return s
}

// Has reports whether name is a spelling of a name in the set. It does not allocate.
func (s Names) Has(name string) bool {
	for _, folded := range s.folded {
		if len(folded) == len(name) && isSpelling(name, folded) {
			return true
		}
	}
	return false
}

func isSpelling(name, folded string) bool {
	for i := range len(name) {
		if foldedByte[name[i]] != folded[i] {
			return false
		}
	}
	return true
}

// Fold returns the canonical form of all spellings of a name.
func Fold(name string) string {
	folded := []byte(name)
	for i, c := range folded {
		folded[i] = foldedByte[c]
	}
	return string(folded)
}

var foldedByte = func() (table [256]byte) {
	for i := range table {
		switch c := byte(i); {
		case 'A' <= c && c <= 'Z':
			table[i] = c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			table[i] = c
		default:
			table[i] = '-'
		}
	}
	return table
}()

// unforwardable headers frame a message, belong to one connection, carry credentials, describe where a request came from,
// or control content and caching (RFC 9110, RFC 9111; with `forward_to response` claims are in responses too). A claim in
// one of them could control the proxy, the upstream or a cache.
var unforwardable = NewNames(
	"Host", "Connection", "Transfer-Encoding", "TE", "Trailer", "Upgrade", "Keep-Alive", "Expect", "HTTP2-Settings",
	"Authorization", "Cookie", "Set-Cookie", "Proxy", "Via", "Early-Data", "Max-Forwards", "Alt-Svc",
	"Origin", "Referer",
	"Accept", "Range", "Date", "Cache-Control", "Pragma", "Warning", "Priority", "Prefer",
	"Allow", "Age", "ETag", "Expires", "Last-Modified", "Location", "Retry-After", "Vary", "WWW-Authenticate", "Authentication-Info",
)

// Forbidden reports whether `forward` must not write to a header: because it has a meaning in HTTP or for proxies, in any
// spelling, or because the name is invalid (RFC 9110 §5.1).
func Forbidden(name string) bool {
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return !IsTokenRune(c) }) {
		return true
	}
	folded := Fold(name)
	for _, prefix := range [...]string{"proxy-", "x-forwarded-", "content-", "sec-", "access-control-", "accept-", "if-"} {
		if strings.HasPrefix(folded, prefix) {
			return true
		}
	}
	return unforwardable.Has(name) || forwardingNames.Has(name) || overridingNames.Has(name)
}

// IsTokenRune reports whether c is a tchar of RFC 9110 §5.6.2.
func IsTokenRune(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}
