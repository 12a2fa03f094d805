package mcp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// maxBodyBytes bounds the body of a request whose tools have rules.
const maxBodyBytes = 256 << 10

// The headers that say again what the body says, for those who do not read it.
const (
	methodHeader = "Mcp-Method"
	nameHeader   = "Mcp-Name"
)

// Call is the call of a tool.
type Call struct {
	// ID is the JSON text of the call's id; nil: it has none, or was not read.
	ID []byte
	// Tool is the name of the tool.
	Tool string
}

// Request is what a request asks of an MCP server.
type Request struct {
	// ID is the id of its only message; nil: it has none, or there are several.
	ID []byte
	// Calls are the calls of tools.
	Calls []Call
}

// maxToolsBytes bounds what a log has of the names of tools.
const maxToolsBytes = 200

// Tools returns the names of the called tools for a log: at most 200 bytes of printable ASCII.
func (q *Request) Tools() string {
	if len(q.Calls) == 1 && len(q.Calls[0].Tool) <= maxToolsBytes && !strings.ContainsFunc(q.Calls[0].Tool, isUnprintable) {
		return q.Calls[0].Tool
	}
	var text []byte
	for i := range q.Calls {
		if i > 0 {
			text = append(text, ' ')
		}
		name := strconv.AppendQuoteToASCII(nil, q.Calls[i].Tool[:min(len(q.Calls[i].Tool), maxToolsBytes)])
		if text = append(text, name[1:len(name)-1]...); len(text) > maxToolsBytes {
			return string(text[:maxToolsBytes]) + "..."
		}
	}
	return string(text)
}

func isUnprintable(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }

// Read reads which tools a request calls. The headers Mcp-Method and Mcp-Name count where there is no body; with a body, they have to
// agree with it, because it is unknown which of them the upstream uses. The request keeps its body.
func Read(r *http.Request) (asked Request, err error) {
	said, err := headersOf(r)
	if err != nil {
		return asked, err
	}
	text, err := readBody(r)
	switch {
	case err != nil:
		return asked, err
	case len(text) == 0:
		return said.request(), nil
	}
	count := 0
	err = readMessages(text, func(m message) error {
		if count++; count == 1 {
			asked.ID = m.id
		}
		if string(m.method) == methodCallTool {
			asked.Calls = append(asked.Calls, Call{m.id, string(m.name)})
		}
		return said.check(m)
	})
	if count > 1 {
		asked.ID = nil
	}
	if refused := (*oauth.Error)(nil); err != nil && !errors.As(err, &refused) {
		err = refusal(reasonMalformed, "The body is no JSON-RPC message that can be read in one way.").WithCause(err)
	}
	return asked, err
}

// ReadHeaders reads which tool a request calls from its headers alone, as a hint. It does not read the body.
func ReadHeaders(r *http.Request) Request {
	said, err := headersOf(r)
	if err != nil {
		return Request{}
	}
	return said.request()
}

// headers are what the headers of a request say.
type headers struct {
	method, name       string
	hasMethod, hasName bool
}

func headersOf(r *http.Request) (said headers, err error) {
	methods, names := r.Header[methodHeader], r.Header[nameHeader]
	if len(methods) > 1 || len(names) > 1 {
		return said, mismatch("A header is there twice.")
	}
	if said.hasMethod = len(methods) == 1; said.hasMethod {
		said.method = methods[0]
	}
	if said.hasName = len(names) == 1; said.hasName {
		said.name, err = decodeHeader(names[0])
	}
	if err == nil && (hasControl([]byte(said.method)) || hasControl([]byte(said.name))) {
		err = mismatch("A header has a control character.")
	}
	return said, err
}

// decodeHeader decodes a value that was not plain ASCII: =?base64?…?=.
func decodeHeader(value string) (string, error) {
	encoded, begins := strings.CutPrefix(value, "=?base64?")
	encoded, ends := strings.CutSuffix(encoded, "?=")
	if !begins || !ends {
		return value, nil
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", mismatch("The header Mcp-Name is not valid base64.")
	}
	return string(decoded), nil
}

// request is what a request without a body asks.
func (said *headers) request() (asked Request) {
	if said.method == methodCallTool && said.name != "" {
		asked.Calls = []Call{{Tool: said.name}}
	}
	return asked
}

// check refuses a message that contradicts the headers.
func (said *headers) check(m message) error {
	if said.hasMethod && said.method != string(m.method) {
		return mismatch("The header Mcp-Method contradicts the body.")
	}
	if subject, ok := m.subject(); ok && said.hasName && said.name != string(subject) {
		return mismatch("The header Mcp-Name contradicts the body.")
	}
	return nil
}

// readBody reads the body of a request, and replaces it by a copy. It returns nothing for a request without one.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil, nil
	}
	if err := checkEncoding(r.Header); err != nil {
		return nil, err
	}
	if r.ContentLength > maxBodyBytes {
		return nil, tooLarge()
	}
	text, err := readAll(r)
	switch tooLong := (*http.MaxBytesError)(nil); {
	case len(text) > maxBodyBytes, errors.As(err, &tooLong):
		return nil, tooLarge()
	case err != nil:
		return nil, refusal(reasonIncomplete, "The body did not come to its end.").WithCause(err)
	}
	again := &body{Closer: r.Body}
	again.Reset(text)
	r.Body = again
	return text, nil
}

// readAll reads a body, or slightly more than the limit. It allocates for the bytes that arrive, not for the length that is
// announced.
func readAll(r *http.Request) ([]byte, error) {
	const announced = 16 << 10 // up to here there is room for what is announced
	if 0 < r.ContentLength && r.ContentLength <= announced {
		text := make([]byte, r.ContentLength)
		n, err := io.ReadFull(r.Body, text)
		return text[:n], err
	}
	text := bytes.NewBuffer(make([]byte, 0, announced))
	_, err := text.ReadFrom(io.LimitReader(r.Body, maxBodyBytes+1))
	return text.Bytes(), err
}

// body is a body that was read, for another reader.
type body struct {
	bytes.Reader
	io.Closer
}

// checkEncoding refuses a body that the upstream would decode before it reads it.
func checkEncoding(h http.Header) error {
	for _, coding := range h["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return requests.Error{Status: http.StatusUnsupportedMediaType, Err: refusal(reasonEncoding, "Send the body without a content encoding.")}
		}
	}
	types := h["Content-Type"]
	if len(types) == 0 || len(types) == 1 && types[0] == "application/json" {
		return nil
	}
	_, parameters, err := mime.ParseMediaType(types[0])
	if charset, ok := parameters["charset"]; len(types) > 1 || err != nil || ok && !strings.EqualFold(charset, "utf-8") {
		return requests.Error{Status: http.StatusUnsupportedMediaType, Err: refusal(reasonEncoding, "Send the body as application/json in UTF-8.")}
	}
	return nil
}

func tooLarge() error {
	return requests.Error{Status: http.StatusRequestEntityTooLarge, Err: refusal(reasonTooLarge, "The body is larger than 256 KiB.")}
}
