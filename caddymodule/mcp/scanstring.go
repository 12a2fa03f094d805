package mcp

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// quoted is a string as it is written, with its quotes.
type quoted struct {
	text    []byte
	escaped bool
}

// decoded returns what the string says.
func (q quoted) decoded() []byte {
	if !q.escaped {
		return q.text[1 : len(q.text)-1]
	}
	var text string
	if json.Unmarshal(q.text, &text) != nil { // it was checked
		return nil
	}
	return []byte(text)
}

// string reads a string.
func (s *scanner) string() (q quoted, err error) {
	text, start, at := s.text, s.at, s.at+1
	if start >= len(text) || text[start] != '"' {
		return q, errSyntax
	}
	for {
		at = plain(text, at)
		if at >= len(text) {
			return q, errSyntax
		}
		switch c := text[at]; {
		case c == '"':
			s.at = at + 1
			q.text = text[start:s.at]
			return q, nil
		case c == '\\':
			q.escaped = true
			s.at = at
			if err := s.escape(); err != nil {
				return q, err
			}
			at = s.at
		case c < utf8.RuneSelf:
			return q, errSyntax // a control character
		default:
			_, size := utf8.DecodeRune(text[at:])
			if size == 1 {
				return q, errSyntax
			}
			at += size
		}
	}
}

// plain returns where the first byte is that cannot stand in a string as it is, or is not ASCII. It looks at eight bytes at a time.
func plain(text []byte, at int) int {
	const (
		ones = 0x0101010101010101
		high = ones * 0x80
	)
	for ; len(text)-at >= 8; at += 8 {
		w := binary.LittleEndian.Uint64(text[at:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// The high bit of the first such byte is set, and none before it: a control character, a quote, a backslash, not ASCII.
		if found := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash | w) & high; found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for at < len(text) && ' ' <= text[at] && text[at] < utf8.RuneSelf && text[at] != '"' && text[at] != '\\' {
		at++
	}
	return at
}

// escape reads an escape sequence. A surrogate counts only in a pair.
func (s *scanner) escape() error {
	if s.at+1 >= len(s.text) {
		return errSyntax
	}
	switch s.text[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return nil
	case 'u':
	default:
		return errSyntax
	}
	unit, ok := s.hex()
	if !ok || 0xdc00 <= unit && unit < 0xe000 {
		return errSyntax
	}
	if 0xd800 <= unit && unit < 0xdc00 {
		if low, ok := s.hex(); !ok || low < 0xdc00 || 0xe000 <= low {
			return errSyntax
		}
	}
	return nil
}

// hex reads \uXXXX.
func (s *scanner) hex() (unit rune, ok bool) {
	if len(s.text)-s.at < 6 || s.text[s.at] != '\\' || s.text[s.at+1] != 'u' {
		return 0, false
	}
	for _, c := range s.text[s.at+2 : s.at+6] {
		switch {
		case '0' <= c && c <= '9':
			unit = unit<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			unit = unit<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	s.at += 6
	return unit, true
}
