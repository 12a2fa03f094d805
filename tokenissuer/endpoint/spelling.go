package endpoint

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reading is a path as a lenient server or proxy may parse it.
type reading struct {
	segments []string // decoded, lower-cased, without empty ones
	// climbs: the path has dot segments that remove others. Servers differ in which, so all segments are kept.
	climbs bool
}

// maxDecoded is how often a path is decoded, more than any chain of proxies does.
const maxDecoded = 4

// segmentParameters matches what some servers cut off a segment: parameters (RFC 3986 §3.3), and anything after an
// encoded NUL, question mark or number sign.
var segmentParameters = regexp.MustCompile(`[;?#\x00][^/\\]*`)

// readingsOf calls found with each reading of a path until it returns true, and reports whether it did. A server may
// decode the path once or several times, before or after it cuts off parameters; treat a backslash as a slash; and ignore
// case, empty segments, white space, and dots at the end of a segment.
func readingsOf(u *url.URL, found func(reading) bool) bool {
	text := u.EscapedPath()
	if u.Opaque != "" { // GET x:oauth/token
		text = u.Opaque
	}
	for range maxDecoded {
		cut := segmentParameters.ReplaceAllString(text, "")
		for range maxDecoded {
			cut = unescape(cut)
		}
		if found(read(cut)) {
			return true
		}
		decoded := unescape(text)
		if decoded == text {
			return false
		}
		text = decoded
	}
	return false
}

// unescape decodes percent-encoding once, and keeps a stray percent sign.
func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var decoded strings.Builder
	for {
		before, after, found := strings.Cut(text, "%")
		decoded.WriteString(before)
		if !found {
			return decoded.String()
		}
		if c, err := strconv.ParseUint(after[:min(2, len(after))], 16, 8); err == nil && len(after) >= 2 {
			decoded.WriteByte(byte(c))
			text = after[2:]
		} else {
			decoded.WriteByte('%')
			text = after
		}
	}
}

// read splits a decoded path.
func read(path string) (r reading) {
	path = strings.ReplaceAll(segmentParameters.ReplaceAllString(path, ""), `\`, "/")
	for segment := range strings.SplitSeq(strings.ToLower(path), "/") {
		segment = strings.Join(strings.FieldsFunc(segment, isStripped), "")
		switch name := strings.TrimRight(segment, "."); {
		case name != "":
			r.segments = append(r.segments, name)
		case len(segment) > 1:
			r.climbs = true
		}
	}
	return r
}

// readingOf returns the segments of one of our paths.
func readingOf(path string) []string {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		decoded = path
	}
	return read(decoded).segments
}

// isAt reports whether a path may be the one with these segments. If it climbs, it suffices that they occur in order.
func (r reading) isAt(segments []string) bool {
	return r.climbs && r.passes(segments) || slices.Equal(r.segments, segments)
}

// isBelow reports whether a path may be at or below these segments. If it climbs, it suffices that they occur in order.
func (r reading) isBelow(segments []string) bool {
	return r.climbs && r.passes(segments) || len(r.segments) >= len(segments) && slices.Equal(r.segments[:len(segments)], segments)
}

// passes reports whether the segments occur in order, with any others between them.
func (r reading) passes(segments []string) bool {
	rest := r.segments
	for _, segment := range segments {
		i := slices.Index(rest, segment)
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
	}
	return true
}

// Spellings are the paths that an upstream could read as one given path. The zero value is empty.
type Spellings struct{ segments []string }

// SpellingsOf returns the spellings of a path. There are none for the root.
func SpellingsOf(path string) Spellings { return Spellings{readingOf(path)} }

// Has reports whether the path of u is one of them. It ignores query and host.
func (s Spellings) Has(u *url.URL) bool {
	last := len(s.segments) - 1
	return last >= 0 && mayMention(u, s.segments[last]) && readingsOf(u, func(read reading) bool { return read.isAt(s.segments) })
}

// mayMention is a cheap check before readingsOf: it reports whether any reading may contain the lower-case word.
func mayMention(u *url.URL, word string) bool {
	text := u.Path
	if u.Opaque != "" {
		text = u.Opaque
	}
	for range 2 * maxDecoded { // as often as a reading decodes
		plain := text
		if strings.ContainsFunc(plain, isStripped) {
			plain = strings.Join(strings.FieldsFunc(plain, isStripped), "")
		}
		if strings.Contains(strings.ToLower(plain), word) {
			return true
		}
		decoded := unescape(text)
		if decoded == text {
			return false
		}
		text = decoded
	}
	return false
}

// isStripped reports whether read removes the character from a segment.
func isStripped(c rune) bool { return c <= ' ' || c == 0x7f }
