package requests

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Limits of a request body, far above what clients send and far below what could do harm.
const (
	maxBody       = 64 << 10
	MaxParameters = 32
)

// Form holds a request's parameters. Each name occurs at most once, except resource, and audience in a token exchange. Form replaces
// net/http's forms: FormValue also reads the query, and ParseForm leaves a usable map after an error.
type Form struct{ parameters []parameter }

type parameter struct{ name, value string }

// Get returns a parameter. It returns "" if the parameter is absent or empty, which RFC 6749 §3.1 treats alike.
func (f Form) Get(name string) string {
	for _, p := range f.parameters {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// Resources returns the values of resource (RFC 8707 §2).
func (f Form) Resources() []string { return f.all(resource) }

// Audiences returns the values of audience (RFC 8693 §2.1).
func (f Form) Audiences() []string { return f.all(audience) }

func (f Form) all(name string) []string {
	var values []string
	for _, p := range f.parameters {
		if p.name == name && p.value != "" {
			values = append(values, p.value)
		}
	}
	return values
}

// The parameters that may be repeated.
const (
	resource = "resource"
	audience = "audience"
)

func isRepeatable(name string) bool { return name == resource || name == audience }

// checkAudience refuses several audiences, except in a token exchange.
func (f Form) checkAudience() error {
	if oauth.GrantType(f.Get("grant_type")) == oauth.TokenExchange {
		return nil
	}
	named := func(p parameter) bool { return p.name == audience }
	if i := slices.IndexFunc(f.parameters, named); i >= 0 && slices.ContainsFunc(f.parameters[i+1:], named) {
		return Invalid("parameter_duplicate")
	}
	return nil
}

// Secret returns a parameter that is a credential.
func (f Form) Secret(name string) oauth.Secret { return oauth.NewSecret(f.Get(name)) }

// Format writes "[form]" for every verb, because the values include credentials.
func (Form) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[form]") }

// add adds a decoded parameter, or returns why the whole request is refused. A parameter must not be repeated (RFC 6749 §3.2), even if it
// is unknown or the values are equal. Only resource and audience may be.
func (f *Form) add(name, value string) error {
	if len(f.parameters) == MaxParameters {
		return Invalid("parameters_too_many")
	}
	if !validName(name) {
		return Invalid("parameter_name_invalid")
	}
	for _, p := range f.parameters {
		if p.name == name && !isRepeatable(name) {
			return Invalid("parameter_duplicate")
		}
	}
	if !validValue(name, value) {
		return Invalid("parameter_value_invalid")
	}
	f.parameters = append(f.parameters, parameter{name, value})
	return nil
}

// validName reports whether a name consists of letters, digits, "_", "." and "-" (RFC 6749 §8.2). This excludes the array and operator
// syntax of frameworks (`scope[]`, `grant_type[$ne]`).
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

// validValue refuses control characters and invalid UTF-8. client_id and client_secret are checked by their own parsers, because wrong
// credentials are 401 and not 400. In scope only NUL is refused here among control characters, because a malformed scope is invalid_scope. In
// unknown parameters, which are ignored (RFC 6749 §3.2), control characters are allowed.
func validValue(name, value string) bool {
	switch name {
	case "client_id", "client_secret":
		return true
	case "scope":
		return Storable(value)
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

// pageTexts are the parameters of our own pages that are looked up in the store.
var pageTexts = []string{"application", "session", "identity", "personal_token"}

// Storable reports whether the store can hold text. A database column holds neither NUL nor invalid UTF-8, and a query for them would fail
// instead of finding nothing.
func Storable(text string) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text)
}

// ParseForm reads the parameters in the body of r: urlencoded, multipart/form-data or a JSON object. It is the only reader of the body,
// reads it once, and ignores the query. One fault refuses the whole request. If a refusal leaves part of the body unread, the connection is
// closed.
func ParseForm(w http.ResponseWriter, r *http.Request) (Form, error) {
	if r.ContentLength > maxBody {
		return Form{}, TooLarge(w)
	}
	for _, encoding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(encoding, "identity") {
			w.Header().Set("Connection", "close")
			err := Invalid("content_encoding_unsupported")
			return Form{}, Error{Status: http.StatusUnsupportedMediaType, Err: err}
		}
	}
	media, err := ParseMediaType(r.Header["Content-Type"])
	if err != nil {
		return Form{}, err
	}
	body, err := ReadBody(w, r)
	if err != nil {
		return Form{}, err
	}
	_ = setBodyDeadline(w, time.Time{}) // see BoundBody
	if err := media.Check(body); err != nil {
		return Form{}, err
	}

	var f Form
	switch media.Name {
	case mediaMultipart:
		f, err = parseMultipart(string(body), media.boundary)
	case mediaJSON:
		f, err = parseJSON(body)
	default:
		f, err = parseURLEncoded(string(body))
	}
	if err == nil {
		err = f.checkAudience()
	}
	if err != nil {
		return Form{}, err
	}
	return f, nil
}

// ReadBody reads the whole body.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := readAll(r.Body, r.ContentLength)
	if err == nil && len(body) <= maxBody {
		return body, nil
	}
	// A caller may have set a lower limit.
	if _, limited := errors.AsType[*http.MaxBytesError](err); limited || len(body) > maxBody {
		return nil, TooLarge(w)
	}
	w.Header().Set("Connection", "close")
	return nil, Invalid("body_incomplete").WithCause(err)
}

// firstRead is the initial buffer size. Most bodies are shorter.
const firstRead = 512

// readAll reads a body up to its end, or up to the first byte beyond maxBody. It allocates for the bytes received, not for the announced
// length. A shorter announced length limits the first buffer.
func readAll(from io.Reader, promised int64) ([]byte, error) {
	room := int64(firstRead)
	if promised >= 0 {
		room = min(promised+1, room) // one more byte to detect the end
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

// parseURLEncoded parses a form or a query (WHATWG URL §5.1). It refuses semicolons, because some parsers split at them, and a percent sign
// without two hex digits.
func parseURLEncoded(text string) (Form, error) {
	if strings.Contains(text, ";") {
		return Form{}, Invalid("form_malformed")
	}
	f := Form{parameters: make([]parameter, 0, min(strings.Count(text, "&")+1, MaxParameters))}
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(name)
		value, valueErr := url.QueryUnescape(value)
		if nameErr != nil || valueErr != nil {
			return Form{}, Invalid("form_malformed")
		}
		if err := f.add(name, value); err != nil {
			return Form{}, err
		}
	}
	return f, nil
}
