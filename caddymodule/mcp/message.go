package mcp

import (
	"bytes"
	"errors"
	"unicode"
)

// methodCallTool is the method by which a tool is called.
const methodCallTool = "tools/call"

// maxBatch bounds how many messages a batch has. Since 2025-06-18 the protocol has no batches.
const maxBatch = 100

// maxIDBytes bounds what is said again of a message's id.
const maxIDBytes = 128

// message is a JSON-RPC message, as far as it is read. Its slices point into the text, where nothing was escaped.
type message struct {
	// id is the text of its id; nil: it has none that could be said again.
	id     []byte
	method []byte // nil: it is a response
	// name and uri are those of its params; nil: it has none.
	name, uri []byte
	hasParams bool
}

var (
	errTwice   = errors.New("a member is there twice")
	errCase    = errors.New("a member's name is in another case")
	errBatch   = errors.New("there are more than 100 messages")
	errMessage = errors.New("this is no JSON-RPC message")
	errText    = errors.New("a control character, or a member __proto__")
)

// readMessages reads a message or a batch in one pass, and calls each with every message. What two readers of JSON could take in two
// ways is refused: a member that decides and is there twice or in another case, text that is not UTF-8, and anything behind the
// message.
func readMessages(text []byte, each func(message) error) error {
	s := &scanner{text: text}
	read := func(depth int) error {
		m, err := s.message(depth)
		if err != nil {
			return err
		}
		return each(m)
	}
	var err error
	switch s.peek() {
	case '{':
		err = read(0)
	case '[':
		count := 0
		err = s.array(func() error {
			if count++; count > maxBatch {
				return errBatch
			}
			return read(1)
		})
		if err == nil && count == 0 {
			err = errMessage
		}
	default:
		err = errMessage
	}
	if err != nil {
		return err
	}
	if s.peek(); s.at < len(text) {
		return errSyntax
	}
	return nil
}

// message reads one message.
func (s *scanner) message(depth int) (m message, err error) {
	if s.peek() != '{' {
		return m, errMessage
	}
	var seen [4]bool
	err = s.object(depth, func(name quoted) error {
		i, err := memberOf(name, &seen, messageMembers[:])
		if err != nil {
			return err
		}
		switch i {
		case idMember:
			return s.id(&m, depth+1)
		case methodMember:
			m.method, err = s.stringValue()
			return err
		case paramsMember:
			m.hasParams = s.peek() == '{'
			if m.hasParams {
				return s.params(&m, depth+1)
			}
		}
		_, err = s.value(depth + 1)
		return err
	})
	if err != nil {
		return m, err
	}
	return m, m.check()
}

// The members of a message, and those of its params that name what it is about.
const (
	idMember = iota
	methodMember
	paramsMember
)

const (
	nameMember = iota
	uriMember
)

var (
	messageMembers = [...]string{"id", "method", "params", "jsonrpc"}
	paramsMembers  = [...]string{"name", "uri"}
)

// memberOf returns which of the members a name is; -1: none of them. It refuses one that was seen, and one in another case: some
// readers ignore the case.
func memberOf(name quoted, seen *[4]bool, members []string) (int, error) {
	decoded := name.decoded()
	for i, member := range members {
		switch {
		case string(decoded) == member && seen[i]:
			return -1, errTwice
		case string(decoded) == member:
			seen[i] = true
			return i, nil
		case bytes.EqualFold(decoded, []byte(member)):
			return -1, errCase
		}
	}
	return -1, nil
}

// id reads the id of a message.
func (s *scanner) id(m *message, depth int) error {
	first := s.peek()
	text, err := s.value(depth)
	if err == nil && len(text) <= maxIDBytes && (first == '"' || first == '-' || '0' <= first && first <= '9') {
		m.id = text
	}
	return err
}

// stringValue reads a value that has to be a string.
func (s *scanner) stringValue() ([]byte, error) {
	if s.peek() != '"' {
		return nil, errMessage
	}
	q, err := s.string()
	if err != nil {
		return nil, err
	}
	return q.decoded(), nil
}

// params reads the params of a message. Name and uri are what they say only if they are strings.
func (s *scanner) params(m *message, depth int) error {
	var seen [4]bool
	return s.object(depth, func(name quoted) error {
		i, err := memberOf(name, &seen, paramsMembers[:])
		if err != nil {
			return err
		}
		if i < 0 || s.peek() != '"' {
			_, err = s.value(depth + 1)
			return err
		}
		value, err := s.stringValue()
		if i == nameMember {
			m.name = value
		} else {
			m.uri = value
		}
		return err
	})
}

// check refuses a call that names no tool, a method that only a reader which ignores the case would take for one, and control
// characters, at which some readers cut a text or which they leave out.
func (m *message) check() error {
	if hasControl(m.method) || hasControl(m.name) || hasControl(m.uri) {
		return errText
	}
	isCall := string(m.method) == methodCallTool
	if isCall && len(m.name) == 0 || !isCall && bytes.EqualFold(m.method, []byte(methodCallTool)) {
		return errMessage
	}
	return nil
}

// hasControl reports whether a text has a control character.
func hasControl(text []byte) bool { return bytes.ContainsFunc(text, unicode.IsControl) }

// subject returns what the header Mcp-Name says of such a message. Ok reports whether it says anything.
func (m *message) subject() (subject []byte, ok bool) {
	switch string(m.method) {
	case methodCallTool, "prompts/get":
		return m.name, true
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return m.uri, true
	}
	return nil, false
}
