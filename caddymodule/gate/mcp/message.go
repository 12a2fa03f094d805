package mcp

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// methodCallTool is the method by which a tool is called.
const methodCallTool = "tools/call"

// maxBatch bounds how many messages a batch has. Since 2025-06-18 the protocol has no batches.
const maxBatch = 100

// maxIDBytes bounds the ids that are repeated in a refusal.
const maxIDBytes = 128

// maxDepth bounds how deep arrays and objects may be nested.
const maxDepth = 64

// message is a JSON-RPC message, as far as it is read. Its slices point into the text, where nothing was escaped.
type message struct {
	// id is the text of its id; nil: it has none that can be repeated.
	id     []byte
	method []byte // nil: it is a response
	// name and uri are those of its params; nil: it has none.
	name, uri []byte
}

var (
	errCase    = errors.New("a member's name is in another case")
	errBatch   = errors.New("there are more than 100 messages")
	errMessage = errors.New("this is no JSON-RPC message")
	errText    = errors.New("a control character, or a member __proto__")
	errDeep    = errors.New("arrays and objects are nested too deeply")
	errBehind  = errors.New("something follows the message")
)

// reader reads messages. Its decoder refuses duplicate members, text that is not UTF-8 and lone surrogates.
type reader struct {
	jsontext.Decoder
	buffer bytes.Buffer
	text   []byte
}

// readers saves 39 allocations and two thirds of the time that a body of 4 KiB takes.
var readers = sync.Pool{New: func() any { return new(reader) }}

// readMessages reads a message or a batch in one pass, and calls each with every message. It refuses what two readers of JSON
// could take in two ways: duplicate members, a deciding member in another case, text that is not UTF-8, and anything after the
// message.
func readMessages(text []byte, each func(message) error) error {
	r := readers.Get().(*reader) // New makes no other
	defer func() {
		r.reset(nil) // so that the pool does not keep the text
		readers.Put(r)
	}()
	r.reset(text)
	if err := r.messages(each); err != nil {
		return err
	}
	if _, err := r.ReadToken(); !errors.Is(err, io.EOF) {
		return cmp.Or(err, errBehind)
	}
	return nil
}

func (r *reader) reset(text []byte) {
	r.text, r.buffer = text, *bytes.NewBuffer(text)
	r.Reset(&r.buffer)
}

func (r *reader) messages(each func(message) error) error {
	if r.PeekKind() != '[' {
		m, err := r.message()
		if err != nil {
			return err
		}
		return each(m)
	}
	if _, err := r.ReadToken(); err != nil {
		return err
	}
	count := 0
	for ; r.PeekKind() != ']'; count++ {
		if count == maxBatch {
			return errBatch
		}
		m, err := r.message()
		if err == nil {
			err = each(m)
		}
		if err != nil {
			return err
		}
	}
	if count == 0 {
		return errMessage
	}
	_, err := r.ReadToken()
	return err
}

// message reads one message.
func (r *reader) message() (m message, err error) {
	err = r.object(func(name []byte) (err error) {
		switch {
		case string(name) == "id":
			m.id, err = r.id()
		case string(name) == "method":
			m.method, err = r.string()
		case string(name) == "params" && r.PeekKind() == '{':
			err = r.params(&m)
		default:
			err = r.skip(name, "id", "method", "params", "jsonrpc")
		}
		return err
	})
	if err != nil {
		return m, err
	}
	return m, m.check()
}

// params reads the params of a message. Name and uri count only if they are strings.
func (r *reader) params(m *message) error {
	return r.object(func(name []byte) (err error) {
		switch isText := r.PeekKind() == '"'; {
		case isText && string(name) == "name":
			m.name, err = r.string()
		case isText && string(name) == "uri":
			m.uri, err = r.string()
		default:
			err = r.skip(name, "name", "uri")
		}
		return err
	})
}

// object reads an object. It calls member with each name; that has to read the value.
func (r *reader) object(member func(name []byte) error) error {
	if r.PeekKind() != '{' {
		return errMessage
	}
	if _, err := r.ReadToken(); err != nil {
		return err
	}
	for r.PeekKind() != '}' {
		name, err := r.name()
		if err == nil {
			err = member(name)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.ReadToken()
	return err
}

// name reads the name of a member.
func (r *reader) name() ([]byte, error) {
	quoted, err := r.ReadValue()
	if err != nil {
		return nil, err
	}
	return checkedName(quoted)
}

// checkedName returns what the name of a member says. It refuses control characters, and __proto__, which gives an object other members
// where a reader copies it.
func checkedName(quoted []byte) ([]byte, error) {
	name, err := unquoted(quoted)
	if err == nil && (string(name) == "__proto__" || hasControl(name)) {
		err = errText
	}
	return name, err
}

// string reads a value that has to be a string.
func (r *reader) string() ([]byte, error) {
	if r.PeekKind() != '"' {
		return nil, errMessage
	}
	quoted, err := r.ReadValue()
	if err != nil {
		return nil, err
	}
	return unquoted(quoted)
}

// unquoted returns what a string says.
func unquoted(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	return jsontext.AppendUnquote(nil, quoted)
}

// id reads the id of a message.
func (r *reader) id() ([]byte, error) {
	if kind := r.PeekKind(); kind != '"' && kind != '0' {
		return nil, r.skip(nil)
	}
	text, err := r.ReadValue()
	if err != nil || len(text) > maxIDBytes {
		return nil, err
	}
	return text, nil
}

// skip reads a value that decides nothing. Its name must not be one of others in another case: some readers ignore the case.
func (r *reader) skip(name []byte, others ...string) error {
	for _, other := range others {
		if string(name) != other && bytes.EqualFold(name, []byte(other)) {
			return errCase
		}
	}
	for depth := r.StackDepth(); ; {
		before := r.InputOffset()
		if _, err := r.ReadToken(); err != nil {
			return err
		}
		now := r.StackDepth()
		if now == depth {
			return nil
		}
		if now > maxDepth {
			return errDeep
		}
		if kind, n := r.StackIndex(now); kind == '{' && n%2 == 1 { // that was a name
			token := r.text[before:r.InputOffset()]
			if _, err := checkedName(token[bytes.IndexByte(token, '"'):]); err != nil {
				return err
			}
		}
	}
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
func hasControl(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c >= 0x7f { // most texts are ASCII
			return bytes.ContainsFunc(text, unicode.IsControl)
		}
	}
	return false
}

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
