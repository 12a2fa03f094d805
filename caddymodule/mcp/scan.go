package mcp

import "errors"

// maxDepth bounds how deep arrays and objects may be nested: as deep as a word has bits.
const maxDepth = 64

var errSyntax = errors.New("this is not JSON")

// scanner reads JSON (RFC 8259) strictly: in valid UTF-8, without lone surrogates. It allocates nothing.
type scanner struct {
	text []byte
	at   int
}

// peek returns the next byte behind white space; 0: the text has ended.
func (s *scanner) peek() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take reads one byte behind white space, and reports whether it is c.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// value skips one value and returns its text. Depth is how deep it is nested.
func (s *scanner) value(depth int) ([]byte, error) {
	first := s.peek()
	start := s.at
	var err error
	if first == '{' || first == '[' {
		err = s.nested(depth)
	} else {
		err = s.scalar()
	}
	return s.text[start:s.at], err
}

// nested skips an object or an array, with all that is in it.
func (s *scanner) nested(outer int) error {
	var objects uint64 // a bit for each that is open: it is an object
	for depth := outer; ; {
		// A value begins here.
		switch c := s.peek(); c {
		case '{', '[':
			if depth >= maxDepth {
				return errSyntax
			}
			s.at++
			objects <<= 1
			depth++
			if c == '[' && s.peek() != ']' {
				continue
			}
			if c == '{' {
				objects |= 1
				if s.peek() != '}' {
					if _, err := s.name(); err != nil {
						return err
					}
					continue
				}
			}
		default:
			if err := s.scalar(); err != nil {
				return err
			}
		}
		// A value has ended here.
		for more := false; !more; {
			isObject := objects&1 == 1
			switch c := s.peek(); {
			case c == ',':
				s.at++
				if isObject {
					if _, err := s.name(); err != nil {
						return err
					}
				}
				more = true
			case c == '}' && isObject, c == ']' && !isObject:
				s.at++
				objects >>= 1
				if depth--; depth == outer {
					return nil
				}
			default:
				return errSyntax
			}
		}
	}
}

// name reads the name of a member and the colon. It refuses control characters, and __proto__, which gives an object other members where
// a reader copies it.
func (s *scanner) name() (quoted, error) {
	s.peek()
	name, err := s.string()
	if err != nil {
		return name, err
	}
	if text := name.decoded(); string(text) == "__proto__" || hasControl(text) {
		return name, errText
	}
	if !s.take(':') {
		return name, errSyntax
	}
	return name, nil
}

// scalar skips a value that is neither object nor array.
func (s *scanner) scalar() error {
	switch s.peek() {
	case '"':
		_, err := s.string()
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

// object reads an object. It calls member with each name; that has to read the value.
func (s *scanner) object(depth int, member func(name quoted) error) error {
	if depth >= maxDepth || !s.take('{') {
		return errSyntax
	}
	if s.take('}') {
		return nil
	}
	for {
		name, err := s.name()
		if err != nil {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return errSyntax
		}
	}
}

// array reads an array. Element has to read one.
func (s *scanner) array(element func() error) error {
	if !s.take('[') {
		return errSyntax
	}
	if s.take(']') {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return errSyntax
		}
	}
}

func (s *scanner) word(word string) error {
	if len(s.text)-s.at < len(word) || string(s.text[s.at:s.at+len(word)]) != word {
		return errSyntax
	}
	s.at += len(word)
	return nil
}

// number reads a number.
func (s *scanner) number() error {
	s.skip('-')
	if !s.skip('0') && !s.digits() || s.skip('.') && !s.digits() {
		return errSyntax
	}
	if s.skip('e') || s.skip('E') {
		if !s.skip('+') {
			s.skip('-')
		}
		if !s.digits() {
			return errSyntax
		}
	}
	return nil
}

func (s *scanner) skip(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}
