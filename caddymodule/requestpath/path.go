// Package requestpath finds out whether a path can be read in one way only: by the gate, by Caddy's matchers and by the
// upstream alike.
package requestpath

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Exam is what Examine found out about the path that an upstream will be sent.
type Exam struct {
	Ambiguous    bool   // two honest servers could read two different resources in it: `paths strict` refuses it
	Reason       string // why it is ambiguous, for the audit log: "path_dot_segment", …
	EncodedSlash bool   // it holds %2F, so the rules of both readings apply and it is never anonymous
	Canonical    bool   // it has one spelling only, and this is it: the only kind of path that may be anonymous
}

// Examine reads the bytes that reverse_proxy writes into its request line (u.EscapedPath) and what they decode to
// (u.Path), and nothing else: the query and the fragment are no part of a path. Caddy's own matchers clean and lower-case
// a path before they compare it and forward it as it came, so what they match is not what an upstream serves.
func Examine(u *url.URL) Exam {
	if u.RawPath == "" && u.Opaque == "" && isPlainPath(u.Path) {
		return Exam{Canonical: true}
	}
	encodedSlash, needless := scanEscapes(u.EscapedPath())
	reason := pathFault(u)
	return Exam{
		Ambiguous:    reason != "",
		Reason:       reason,
		EncodedSlash: encodedSlash,
		Canonical:    reason == "" && !encodedSlash && !needless && strings.HasPrefix(u.Path, "/"),
	}
}

// isPlainPath is the fast exit for the paths that nearly every request has: absolute, ASCII, nothing in it that would
// have to be escaped, and no segment that is empty or starts with a dot.
func isPlainPath(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	afterSlash := true
	for i := 1; i < len(p); i++ {
		c := p[i]
		if !plainPathByte[c] || afterSlash && (c == '/' || c == '.') {
			return false
		}
		afterSlash = c == '/'
	}
	return true
}

// plainPathByte holds RFC 3986's pchar without the percent sign and the semicolon, and the slash.
var plainPathByte = func() (table [256]bool) {
	for c := range table {
		table[c] = isUnreserved(byte(c)) || strings.IndexByte("/!$&'()*+,=:@", byte(c)) >= 0
	}
	return table
}()

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// scanEscapes reports whether an escaped path holds an encoded slash, and whether it holds an escape which keeps it from
// being canonical: that of an unreserved character (RFC 3986 §6.2.2.2 calls the two spellings equivalent), or %3F and
// %23, at which an upstream that decodes too early would cut the path off.
func scanEscapes(raw string) (encodedSlash, needless bool) {
	for i := 0; i+2 < len(raw); i++ {
		if raw[i] != '%' {
			continue
		}
		c, ok := escapedByte(raw[i:])
		switch {
		case !ok:
		case c == '/':
			encodedSlash = true
		case isUnreserved(c), c == '?', c == '#':
			needless = true
		}
	}
	return encodedSlash, needless
}

// escapedByte decodes the escape at the start of s.
func escapedByte(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	high, isHigh := hexValue(s[1])
	low, isLow := hexValue(s[2])
	return high<<4 | low, isHigh && isLow
}

// hexValue is the value of a hexadecimal digit in either case.
func hexValue(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// pathFault gives the reason for which a path is ambiguous, or "". It looks at the decoded path, where %2F is a slash:
// so a dot segment or an empty one is found beside an encoded slash too.
func pathFault(u *url.URL) string {
	switch {
	case u.Opaque != "": // `GET x:api/s`: forwarded as `api/s`, while the path that matchers look at is empty
		return "path_opaque"
	case u.Path == "": // authority form
		return ""
	case u.Path == "*": // only OPTIONS may have it, which the server answers itself; a rule for /* would not concern it
		return "path_asterisk"
	case u.Path[0] != '/':
		return "path_relative"
	}
	return decodedFault(u.Path, false)
}

// decodedFault walks over a decoded path that starts with a slash. Characters which compatibility normalisation (NFKC)
// or a best-fit table turns into a dot, a slash, a backslash, a semicolon or a percent sign count as what they turn into.
// again says that the path has been decoded twice, and then any further escape is a fault.
func decodedFault(p string, again bool) string {
	escaped, empty, dots, other := false, true, false, false
	for i := 1; i < len(p); {
		if c := p[i]; plainPathByte[c] && c != '/' && c != '.' {
			empty, other = false, true
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(p[i:])
		rest := p[i+size:]
		i += size
		switch {
		case r == utf8.RuneError && size == 1: // overlong forms and surrogates are invalid too
			return "path_invalid_utf8"
		case r == '/':
			if empty {
				return "path_empty_segment"
			}
			if dots && !other {
				return "path_dot_segment"
			}
			empty, dots, other = true, false, false
			continue
		case unicode.IsControl(r):
			return "path_control_byte"
		case strings.ContainsRune("\\\uff3c\ufe68\u2216\u29f5\u29f9", r):
			return "path_backslash"
		case strings.ContainsRune("\uff0f\u2044\u2215\u29f8", r):
			return "path_lookalike_slash"
		case strings.ContainsRune(";\uff1b\ufe54\u037e", r):
			return "path_semicolon"
		case strings.ContainsRune("%\uff05\ufe6a", r):
			c, ok := escapedByte("%" + rest[:min(2, len(rest))])
			if ok && (r != '%' || again || c == '.' || c == '/') || isUnicodeEscape(rest) {
				return "path_double_encoding"
			}
			escaped, other = escaped || ok, true
		case strings.ContainsRune(".\uff0e\ufe52\u2024\u2025\u2026", r):
			dots = true
		case unicode.IsSpace(r), unicode.Is(unicode.Cf, r): // some servers trim these: `.. ` is as good as `..` to them
		default:
			other = true
		}
		empty = false
	}
	if dots && !other {
		return "path_dot_segment"
	}
	if escaped && decodedFault(decodeAgain(p), true) != "" {
		return "path_double_encoding"
	}
	return ""
}

// isUnicodeEscape recognises what follows the percent sign in the %uXXXX escapes of old Windows servers.
func isUnicodeEscape(s string) bool {
	return len(s) >= 5 && (s[0] == 'u' || s[0] == 'U') && strings.Trim(s[1:5], "0123456789abcdefABCDEF") == ""
}

// decodeAgain decodes the escapes in a path that has been decoded once, and leaves a stray percent sign alone.
func decodeAgain(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		c, ok := escapedByte(p[i:])
		if !ok {
			b.WriteByte(p[i])
			continue
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String()
}

// OtherReading gives the request as a server sees it that does not take %2F for a separator: r has it decoded to a
// slash in URL.Path, the copy has U+FFFD there, which is no separator, one character (as `?` in a pattern wants it), and
// in nobody's pattern. Rules are asked about both. Without an encoded slash it is r itself. Placeholders such as
// {http.request.uri.path} stay bound to the request that Caddy received.
func OtherReading(r *http.Request) *http.Request {
	raw := r.URL.EscapedPath()
	if encodedSlash, _ := scanEscapes(raw); !encodedSlash {
		return r
	}
	raw = encodedSlashes.Replace(raw)
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		return r // cannot be: EscapedPath gives valid escapes only
	}
	r2, u2 := *r, *r.URL
	u2.Path, u2.RawPath = decoded, raw
	r2.URL = &u2
	return &r2
}

var encodedSlashes = strings.NewReplacer("%2f", "%EF%BF%BD", "%2F", "%EF%BF%BD")

// MatchesExactly asks Caddy's `path` patterns, as they were written, about a path without folding case: /PUB/x must
// not be anonymous because /pub/* is. Only a canonical path can match. Patterns with an escape or a placeholder never
// do: in Caddy they mean something else, and to be refused is the safe side.
func MatchesExactly(patterns []string, u *url.URL) bool {
	return Examine(u).Canonical && slices.ContainsFunc(patterns, func(pattern string) bool {
		return !strings.ContainsAny(pattern, "%{") && matchesPattern(pattern, u.Path)
	})
}

// matchesPattern gives wildcards the meaning that caddyhttp.MatchPath gives them.
func matchesPattern(pattern, p string) bool {
	stars := strings.Count(pattern, "*")
	first, last := strings.HasPrefix(pattern, "*"), strings.HasSuffix(pattern, "*")
	switch {
	case pattern == "*":
		return true
	case stars == 2 && first && last:
		return strings.Contains(p, pattern[1:len(pattern)-1])
	case stars == 1 && first:
		return strings.HasSuffix(p, pattern[1:])
	case stars == 1 && last:
		return strings.HasPrefix(p, pattern[:len(pattern)-1])
	}
	matched, err := path.Match(pattern, p)
	return matched && err == nil
}
