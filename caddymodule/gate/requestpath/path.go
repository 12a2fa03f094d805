// Package requestpath reports whether a path has only one reading: for the gate, for Caddy's matchers and for the
// upstream alike. Where a request has several, Readings lists them.
package requestpath

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Exam is the result of Examine.
type Exam struct {
	Ambiguous    bool   // servers could read two different resources in it: `paths strict` refuses it
	Reason       string // reason for the audit log: "path_dot_segment", …
	EncodedSlash bool   // has %2F: the rules of both readings apply, and it is never anonymous
	Canonical    bool   // is its only spelling, as anonymous requests require
}

// Examine examines the path that reverse_proxy sends (u.EscapedPath) and its decoded form (u.Path). Caddy's matchers
// clean and lower-case a path for the comparison, but forward it unchanged, so they may match something else than the
// upstream serves.
func Examine(u *url.URL) Exam {
	encodedSlash, needless := scanEscapes(u.EscapedPath())
	reason := pathFault(u)
	return Exam{
		Ambiguous:    reason != "",
		Reason:       reason,
		EncodedSlash: encodedSlash,
		Canonical:    reason == "" && !encodedSlash && !needless && strings.HasPrefix(u.Path, "/"),
	}
}

// plainPathByte is RFC 3986's pchar without percent sign and semicolon, plus the slash.
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

// scanEscapes reports whether an escaped path has an encoded slash, and whether it has an escape that makes it
// non-canonical: one of an unreserved character (RFC 3986 §6.2.2.2), or %3F or %23, where an upstream that decodes too
// early would cut the path.
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

// hexValue returns the value of a hexadecimal digit in either case.
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

// pathFault returns why a path is ambiguous, or "". It checks the decoded path, where %2F is a slash, so it also finds
// dot segments and empty segments next to one.
func pathFault(u *url.URL) string {
	switch {
	case u.Opaque != "": // `GET x:api/s` is forwarded as `api/s`, but matchers see an empty path
		return "path_opaque"
	case u.Path == "": // authority form
		return ""
	case u.Path == "*": // only for OPTIONS, which the server answers itself; rules for /* would not apply
		return "path_asterisk"
	case u.Path[0] != '/':
		return "path_relative"
	}
	return decodedFault(u.Path, false)
}

// decodedFault checks a decoded path that begins with a slash. Characters that compatibility normalisation (NFKC) or a
// best-fit table maps to a dot, slash, backslash, semicolon or percent sign count as these. Again means that the path was
// decoded twice; then any further escape is a fault.
func decodedFault(p string, again bool) string {
	var s segment
	escaped, fault := false, ""
	s.begin()
	for i := 1; i < len(p); {
		if c := p[i]; plainPathByte[c] && c != '/' && c != '.' {
			s.empty, s.other, s.last, s.emoji = false, true, rune(c), false
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(p[i:])
		text, rest := p[i:i+size], p[i+size:]
		i += size
		if r > unicode.MaxASCII && fault == "" {
			fault = s.foreignFault(r, text, rest)
		}
		switch {
		case r == utf8.RuneError && size == 1: // overlong forms and surrogates are invalid too
			return "path_invalid_utf8"
		case r == '/':
			if s.empty {
				return "path_empty_segment"
			}
			if s.isDots() {
				return "path_dot_segment"
			}
			if fault == "" {
				fault = s.trimFault()
			}
			s.begin()
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
			if ok && (r != '%' || again || c == '/' || isUnreserved(c)) || isUnicodeEscape(rest) {
				return "path_double_encoding"
			}
			escaped = escaped || ok
		}
		s.add(r)
	}
	if s.isDots() {
		return "path_dot_segment"
	}
	if fault == "" {
		fault = s.trimFault()
	}
	if fault == "" && escaped && decodedFault(decodeAgain(p), true) != "" {
		return "path_double_encoding"
	}
	return fault
}

// segment is what has been read of one segment of a path.
type segment struct {
	empty, dots, other, paddedStart bool
	last                            rune
	emoji                           bool // last belongs to an emoji
}

func (s *segment) begin() { *s = segment{empty: true} }

// add reads one more character.
func (s *segment) add(r rune) {
	switch {
	case strings.ContainsRune(".\uff0e\ufe52\u2024\u2025\u2026", r):
		s.dots = true
	case unicode.IsSpace(r), isIgnorable(r): // some servers trim these: `.. ` is like `..` to them
		s.paddedStart = s.paddedStart || s.empty
	default:
		s.other = true
	}
	s.emoji = r > unicode.MaxASCII && (unicode.In(r, unicode.So, unicode.Sk) || s.emoji && isIgnorable(r))
	s.empty, s.last = false, r
}

// isDots reports whether nothing but dots remains of the segment on some servers.
func (s *segment) isDots() bool { return s.dots && !s.other }

// trimFault returns the fault of a segment whose leading or trailing dots or spaces some servers trim: Windows drops those at the
// end.
func (s *segment) trimFault() string {
	if s.paddedStart || s.last == '.' || unicode.IsSpace(s.last) {
		return "path_trimmed_segment"
	}
	return ""
}

// foreignFault returns the fault of a character that is not ASCII, and that some servers replace by ASCII or leave out. It
// may be text in the path, and rest follows it. An emoji may have the characters that join its parts, and so may a word of a script that
// needs them: without them it is another word, and none of ASCII.
func (s *segment) foreignFault(r rune, text, rest string) string {
	switch {
	case isIgnorable(r):
		joins := r == 0x200d || 0xfe0e <= r && r <= 0xfe0f || 0xe0020 <= r && r <= 0xe007f
		if joins && s.emoji || r == 0xfe0f && strings.HasPrefix(rest, "\u20e3") || (r == 0x200c || r == 0x200d) && isJoined(s.last) && isJoined(firstRune(rest)) {
			return ""
		}
		return "path_ignorable"
	case strings.ContainsRune(asciiInAnotherCase, r):
		return "path_lookalike"
	case norm.NFKC.QuickSpanString(text) == len(text):
		return ""
	}
	if strings.ContainsFunc(norm.NFKC.String(text), func(c rune) bool { return c <= unicode.MaxASCII }) {
		return "path_lookalike"
	}
	return ""
}

// isJoined reports whether c belongs to the words of a script that is written with joiners and non-joiners.
func isJoined(c rune) bool {
	return unicode.In(c, unicode.L, unicode.M) && unicode.In(c, unicode.Arabic, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya,
		unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala)
}

func firstRune(text string) rune {
	first, _ := utf8.DecodeRuneInString(text)
	return first
}

// asciiInAnotherCase are the characters that no normalisation, but upper-casing, lower-casing or case folding replaces by
// ASCII, at least in part.
const asciiInAnotherCase = "\u00df\u0130\u0131\u01f0\u1e96\u1e97\u1e98\u1e99\u1e9e\U0001d6a4"

// isIgnorable reports whether some servers leave the character out: it is default-ignorable in Unicode, or another control
// of the format.
func isIgnorable(r rune) bool {
	return r > unicode.MaxASCII && unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// isUnicodeEscape reports whether s begins like a %uXXXX escape of old Windows servers, after the percent sign.
func isUnicodeEscape(s string) bool {
	return len(s) >= 5 && (s[0] == 'u' || s[0] == 'U') && strings.Trim(s[1:5], "0123456789abcdefABCDEF") == ""
}

// decodeAgain decodes a path a second time, and keeps a stray percent sign.
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

// MatchesExactly reports whether the path is canonical and matches one of Caddy's `path` patterns as MatchesCase says.
func MatchesExactly(patterns []string, u *url.URL) bool {
	return Examine(u).Canonical && MatchesCase(patterns, u.Path)
}

// MatchesCase reports whether a decoded path matches one of Caddy's `path` patterns as configured, without folding case:
// /PUB/x must not be anonymous because of /pub/*. Patterns with an escape or placeholder never match, since they mean
// something else in Caddy and refusing is safe.
func MatchesCase(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return !strings.ContainsAny(pattern, "%{") && matchesPattern(pattern, p)
	})
}

// matchesPattern treats wildcards like caddyhttp.MatchPath.
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
