package identity

import "strings"

// Names is a set of header names that finds a name in every spelling which some server takes for it. CGI and
// everything that descends from it (FastCGI, WSGI, Rack) writes X-Auth-Subject, X_Auth_Subject and x.auth.subject as the
// one variable HTTP_X_AUTH_SUBJECT. So names are compared lower-cased, with all but letters and digits read as a hyphen.
type Names struct {
	folded []string
	// Most headers are passed over without a comparison: bit n of lengths: there is a name of n bytes; bit n of starts: one
	// begins with a byte of which these are the lowest six bits.
	lengths, starts uint64
}

// NewNames returns the set of these names.
func NewNames(names ...string) Names {
	var s Names
	for _, name := range names {
		if !s.Has(name) {
			s.folded = append(s.folded, Fold(name))
			s.lengths |= lengthBit(name)
			s.starts |= startBit(name)
		}
	}
	return s
}

// Has reports whether name is a spelling of a name in the set. It does not allocate.
func (s Names) Has(name string) bool {
	if s.lengths&lengthBit(name) == 0 || s.starts&startBit(name) == 0 {
		return false
	}
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

// lengthBit gives names of 63 bytes and more one bit together.
func lengthBit(name string) uint64 { return 1 << min(len(name), 63) }

// startBit gives the empty name, which is in no set, some bit.
func startBit(name string) uint64 {
	if name == "" {
		return 0
	}
	return 1 << (foldedByte[name[0]] & 63)
}

// Fold returns the one spelling that stands for all spellings of a name which an upstream may take for the same.
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

// unforwardable are the headers which frame a message, belong to one connection, carry credentials, tell an upstream where a
// request came from, or say which answer is asked for and what an answer is (RFC 9110, RFC 9111; with `forward_to response` it
// has the claims too). A claim in one of them would be a claim that steers the proxy, its upstream or a cache.
var unforwardable = NewNames(
	"Host", "Connection", "Transfer-Encoding", "TE", "Trailer", "Upgrade", "Keep-Alive", "Expect", "HTTP2-Settings",
	"Authorization", "Cookie", "Set-Cookie", "Proxy", "Via", "Early-Data", "Max-Forwards", "Alt-Svc",
	"Origin", "Referer",
	"Accept", "Range", "Date", "Cache-Control", "Pragma", "Warning", "Priority", "Prefer",
	"Allow", "Age", "ETag", "Expires", "Last-Modified", "Location", "Retry-After", "Vary", "WWW-Authenticate", "Authentication-Info",
)

// Forbidden reports whether `forward` must not write a claim into the header name: into none that means something
// to HTTP or to a proxy, in any spelling, and into none that is no header name at all (RFC 9110 §5.1).
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

// IsTokenRune is tchar of RFC 9110 §5.6.2.
func IsTokenRune(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}
