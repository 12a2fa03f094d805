package endpoint

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reading is what a lenient server or proxy may take a path for.
type reading struct {
	segments []string // decoded, in lower case, without empty ones
	// climbs: there was a dot segment that takes away segments before it. Servers differ in which, so that none is.
	climbs bool
}

// maxDecoded is how often a path is decoded. No chain of proxies decodes as often.
const maxDecoded = 4

// segmentParameters are what some servers cut off a segment: parameters (RFC 3986 §3.3), and whatever follows an encoded NUL, question
// mark or number sign.
var segmentParameters = regexp.MustCompile(`[;?#\x00][^/\\]*`)

// readingsOf calls found with what servers may take a path for, until it returns true, and reports whether it did. They may decode
// the path, once or several times, before or after they cut off parameters; take a backslash for a slash; ignore case, empty
// segments, white space, and dots at the end of a segment.
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

// unescape decodes the escapes of a path once, and leaves a stray percent sign alone.
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

// read splits a path that has been decoded.
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

// readingOf is how a path of ours reads.
func readingOf(path string) []string {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		decoded = path
	}
	return read(decoded).segments
}

// isAt reports whether a path is for what is at these segments. With a dot segment that climbs it may be, once they come in their
// order.
func (r reading) isAt(segments []string) bool {
	return r.climbs && r.passes(segments) || slices.Equal(r.segments, segments)
}

// isBelow reports likewise whether a path is for what is at or below these segments.
func (r reading) isBelow(segments []string) bool {
	return r.climbs && r.passes(segments) || len(r.segments) >= len(segments) && slices.Equal(r.segments[:len(segments)], segments)
}

// passes reports whether the segments come in their order, whatever stands between them.
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

// Spellings are the paths that somebody behind us could read as one path. The zero value has none.
type Spellings struct{ segments []string }

// SpellingsOf returns the spellings of a path. Those of the root are none.
func SpellingsOf(path string) Spellings { return Spellings{readingOf(path)} }

// Has reports whether the path of u is one of them. The query and the host do not matter.
func (s Spellings) Has(u *url.URL) bool {
	last := len(s.segments) - 1
	return last >= 0 && mayMention(u, s.segments[last]) && readingsOf(u, func(read reading) bool { return read.isAt(s.segments) })
}

// mayMention is a cheap look at a path before its readings: whether any of them can have the word, which is in lower case.
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

// isStripped reports whether read drops a character within a segment.
func isStripped(c rune) bool { return c <= ' ' || c == 0x7f }
