package endpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Limits of a request body. They are far above what any client of ours sends, and far below what could hurt.
const (
	maxBody       = 64 << 10
	maxParameters = 32
	bodyTimeout   = 10 * time.Second
)

// httpError is a refusal which HTTP answers before OAuth has a word for it (405, 413, 415, 425). The writer takes
// the status from here, and code and description from the error within.
type httpError struct {
	status int
	err    *oauth.Error
	allow  string // the methods of a 405
}

// Error returns the text of the error within: for logs, never for clients.
func (e httpError) Error() string { return e.err.Error() }

// Unwrap returns the error within.
func (e httpError) Unwrap() error { return e.err }

// form is what a request's parameters say, each name at most once. net/http's own forms would not do: FormValue
// reads the query too, and ParseForm leaves a usable map behind after an error.
type form struct{ parameters []parameter }

type parameter struct{ name, value string }

// get returns the value of a parameter, or "" when it is absent or empty: RFC 6749 §3.1 makes no difference.
func (f form) get(name string) string {
	for _, p := range f.parameters {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// secret returns the value of a parameter that is a credential.
func (f form) secret(name string) oauth.Secret { return oauth.NewSecret(f.get(name)) }

// Format writes "[form]" whatever the verb, because the values hold credentials.
func (form) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[form]") }

// add takes one decoded parameter, or says why the whole request is refused. RFC 6749 §3.2: a parameter must not be
// sent twice, which holds for unknown ones and for equal values too.
func (f *form) add(name, value string) error {
	if len(f.parameters) == maxParameters {
		return invalidRequest("parameters_too_many")
	}
	if !validName(name) {
		return invalidRequest("parameter_name_invalid")
	}
	for _, p := range f.parameters {
		if p.name == name {
			return invalidRequest("parameter_duplicate")
		}
	}
	if !validValue(name, value) {
		return invalidRequest("parameter_value_invalid")
	}
	f.parameters = append(f.parameters, parameter{name, value})
	return nil
}

// validName holds names to letters, digits, "_", "." and "-" (RFC 6749 §8.2). Whatever looks like an array or an
// operator of some framework (`scope[]`, `grant_type[$ne]`) is refused with it.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return name != ""
}

// validValue refuses controls and bytes that are not UTF-8. Two kinds of parameter are let through, because their
// own readers know the better answer: client_id and client_secret as they are, since a wrong credential is 401 and
// not 400, and the controls but NUL in scope, since a malformed scope is invalid_scope. What nobody reads is ignored
// (RFC 6749 §3.2), and so are the controls in it.
func validValue(name, value string) bool {
	switch name {
	case "client_id", "client_secret":
		return true
	case "scope":
		return storable(value)
	}
	if !slices.Contains(textMembers, name) && !slices.Contains(pageTexts, name) {
		return utf8.ValidString(value)
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] == 0x7f {
			return false
		}
	}
	return utf8.ValidString(value)
}

// pageTexts are the parameters of our own pages, beside those of an OAuth request, whose values are looked up. The others are
// compared with what we have made.
var pageTexts = []string{"application", "session"}

// storable reports whether text can equal anything in a directory: a database column holds neither NUL nor bytes that
// are not UTF-8, and asking for them would be an error there instead of a miss.
func storable(text string) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text)
}

// parseForm reads the parameters in the body of r: urlencoded, multipart/form-data or a JSON object. It is the
// only reader of the body, reads it once and never looks at the query. One fault refuses the whole request. After a
// refusal that leaves bytes of the body unread the connection is closed.
func parseForm(w http.ResponseWriter, r *http.Request) (form, error) {
	if r.ContentLength > maxBody {
		return form{}, tooLarge(w)
	}
	for _, encoding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(encoding, "identity") {
			w.Header().Set("Connection", "close")
			err := invalidRequest("content_encoding_unsupported")
			return form{}, httpError{status: http.StatusUnsupportedMediaType, err: err}
		}
	}
	media, err := mediaType(r.Header["Content-Type"])
	if err != nil {
		return form{}, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return form{}, err
	}
	_ = setBodyDeadline(w, time.Time{}) // see boundBody
	if err := media.check(body); err != nil {
		return form{}, err
	}

	switch media.name {
	case mediaMultipart:
		return parseMultipart(string(body), media.boundary)
	case mediaJSON:
		return parseJSON(body)
	default:
		return parseURLEncoded(string(body))
	}
}

// readBody reads the whole body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := readAll(r.Body, r.ContentLength)
	if err == nil && len(body) <= maxBody {
		return body, nil
	}
	// A tighter limit may stand before us.
	if _, limited := errors.AsType[*http.MaxBytesError](err); limited || len(body) > maxBody {
		return nil, tooLarge(w)
	}
	w.Header().Set("Connection", "close")
	return nil, invalidRequest("body_incomplete").WithCause(err)
}

// firstRead is the most that is set aside for a body before a byte of it has come. Most bodies are shorter.
const firstRead = 512

// readAll reads a body to its end, or to the first byte beyond maxBody. Memory grows with the bytes that came, never with
// the length that was promised; but a short body gets no more than it says.
func readAll(from io.Reader, promised int64) ([]byte, error) {
	room := int64(firstRead)
	if promised >= 0 {
		room = min(promised+1, room) // with the byte that tells the end
	}
	body := make([]byte, 0, room)
	for {
		n, err := from.Read(body[len(body):min(cap(body), maxBody+1)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil || len(body) > maxBody:
			return body, err
		case len(body) == cap(body):
			body = slices.Grow(body, 1)
		}
	}
}

// parseURLEncoded reads pairs as a form or a query carries them (WHATWG URL §5.1). A semicolon is malformed, because
// some readers split at it, and so is a percent sign without two hex digits.
func parseURLEncoded(text string) (form, error) {
	if strings.Contains(text, ";") {
		return form{}, invalidRequest("form_malformed")
	}
	f := form{parameters: make([]parameter, 0, min(strings.Count(text, "&")+1, maxParameters))}
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(name)
		value, valueErr := url.QueryUnescape(value)
		if nameErr != nil || valueErr != nil {
			return form{}, invalidRequest("form_malformed")
		}
		if err := f.add(name, value); err != nil {
			return form{}, err
		}
	}
	return f, nil
}

// textMembers are the members that an OAuth request in JSON can have. Each of them is a string.
var textMembers = []string{
	"grant_type", "client_id", "client_secret", "scope", "code", "redirect_uri", "code_verifier", "refresh_token",
	"email", "username", "password", "token", "token_type_hint",
}

// parseJSON reads one object. Members that we know are strings, null is absent, and members that we do not know may be
// anything: what is no string there counts as absent. The decoder refuses invalid UTF-8, lone surrogates, duplicate names
// and a depth beyond 10,000 by itself. Its errors quote the body, so none of them becomes a cause.
func parseJSON(body []byte) (form, error) {
	malformed := invalidRequest("json_malformed")
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if d.PeekKind() != '{' {
		return form{}, malformed
	}
	if _, err := d.ReadToken(); err != nil {
		return form{}, malformed
	}
	var f form
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return form{}, invalidRequest("parameter_duplicate")
		}
		if err != nil {
			return form{}, malformed
		}
		name, value := token.String(), ""
		switch d.PeekKind() {
		case '"':
			if token, err = d.ReadToken(); err == nil {
				value = token.String()
			}
		case '{', '[', '0', 't', 'f':
			if slices.Contains(textMembers, name) {
				return form{}, invalidRequest("json_member_no_string").WithDescription(
					malformed.Description + " The member " + name + " must be a string.")
			}
			err = d.SkipValue()
		default:
			err = d.SkipValue()
		}
		if err != nil {
			return form{}, malformed
		}
		if err := f.add(name, value); err != nil {
			return form{}, err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return form{}, malformed
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return form{}, malformed // something follows the object
	}
	return f, nil
}

// invalidRequest is the refusal of a malformed request, with reason as the audit log's word for it.
func invalidRequest(reason string) *oauth.Error {
	return oauth.NewError(oauth.InvalidRequest, reason)
}

// tooLarge is the refusal of a body beyond maxBody. The connection goes with it, rather than the rest being read.
func tooLarge(w http.ResponseWriter) error {
	w.Header().Set("Connection", "close")
	return httpError{status: http.StatusRequestEntityTooLarge, err: invalidRequest("body_too_large")}
}
