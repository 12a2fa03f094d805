package requests

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// PathReading is a path as a lenient server or proxy may parse it.
type PathReading struct {
	Segments []string // decoded, lower-cased, without empty ones
	// Climbs reports that the path has dot segments that remove others. Servers differ in which, so all segments are kept.
	Climbs bool
}

// maxDecoded is the maximum number of times a path is decoded, more than any chain of proxies does.
const maxDecoded = 4

// PathReadings calls found with each reading of a path until it returns true, and reports whether it did. A server may decode the path once
// or several times, before or after it removes parameters. It may treat a backslash as a slash, and ignore case, empty segments, white
// space, and dots at the end of a segment.
func PathReadings(u *url.URL, found func(PathReading) bool) bool {
	text := u.EscapedPath()
	if u.Opaque != "" { // GET x:oauth/token
		text = u.Opaque
	}
	for range maxDecoded {
		cut := cutParameters(text)
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

// segmentEnds are the characters at which some servers cut a segment: before parameters (RFC 3986 §3.3), and before an encoded NUL,
// question mark or number sign.
const segmentEnds = ";?#\x00"

// cutParameters cuts each segment at the first character in segmentEnds.
func cutParameters(path string) string {
	if !strings.ContainsAny(path, segmentEnds) {
		return path
	}
	kept, cut := make([]byte, 0, len(path)), false
	for i := range len(path) {
		c := path[i]
		cut = c != '/' && c != '\\' && (cut || strings.IndexByte(segmentEnds, c) >= 0)
		if !cut {
			kept = append(kept, c)
		}
	}
	return string(kept)
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
func read(path string) (r PathReading) {
	path = strings.ReplaceAll(cutParameters(path), `\`, "/")
	for segment := range strings.SplitSeq(strings.ToLower(path), "/") {
		segment = strip(segment)
		switch name := strings.TrimRight(segment, "."); {
		case name != "":
			r.Segments = append(r.Segments, name)
		case len(segment) > 1:
			r.Climbs = true
		}
	}
	return r
}

// SegmentsOf returns the segments of one of our paths.
func SegmentsOf(path string) []string {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		decoded = path
	}
	return read(decoded).Segments
}

// IsAt reports whether a path may be the one with these segments. If r climbs, it suffices that they occur in order.
func (r PathReading) IsAt(segments []string) bool {
	return r.Climbs && r.Passes(segments) || slices.Equal(r.Segments, segments)
}

// IsBelow reports whether a path may be at or below these segments. If r climbs, it suffices that they occur in order.
func (r PathReading) IsBelow(segments []string) bool {
	return r.Climbs && r.Passes(segments) || len(r.Segments) >= len(segments) && slices.Equal(r.Segments[:len(segments)], segments)
}

// Passes reports whether the segments occur in order, possibly with others between them.
func (r PathReading) Passes(segments []string) bool {
	rest := r.Segments
	for _, segment := range segments {
		i := slices.Index(rest, segment)
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
	}
	return true
}

// Spellings is the set of paths that an upstream could read as a given path. The zero value is empty.
type Spellings struct{ segments []string }

// SpellingsOf returns the spellings of a path. There are none for the root.
func SpellingsOf(path string) Spellings { return Spellings{SegmentsOf(path)} }

// Has reports whether s contains the path of u. It ignores query and host.
func (s Spellings) Has(u *url.URL) bool {
	last := len(s.segments) - 1
	return last >= 0 && MayMention(u, s.segments[last]) && PathReadings(u, func(read PathReading) bool { return read.IsAt(s.segments) })
}

// MayMention is a cheap check before PathReadings. It reports whether any reading may contain the lower-case word.
func MayMention(u *url.URL, word string) bool {
	text := u.Path
	if u.Opaque != "" {
		text = u.Opaque
	}
	for range 2 * maxDecoded { // as many times as a reading decodes
		if strings.Contains(strings.ToLower(strip(text)), word) {
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

// strip removes white space and control characters, as read does in each segment.
func strip(text string) string {
	if !strings.ContainsFunc(text, isStripped) {
		return text
	}
	return strings.Join(strings.FieldsFunc(text, isStripped), "")
}

func isStripped(c rune) bool { return c <= ' ' || c == 0x7f }
