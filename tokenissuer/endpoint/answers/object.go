package answers

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Object builds a JSON object. It encodes by hand, because this code runs for every issued token. Names must not need escaping.
type Object struct {
	b      []byte
	failed error
}

// NewObject returns an empty object with a capacity in bytes.
func NewObject(room int) Object { return Object{b: make([]byte, 0, room)} }

func (o *Object) name(name string) {
	o.b = append(append(append(o.b, `,"`...), name...), `":`...)
}

// Text adds a string. If the string is not UTF-8, WriteObject fails.
func (o *Object) Text(name, value string) {
	o.name(name)
	o.quote(value)
}

func (o *Object) quote(value string) {
	if o.failed == nil {
		o.b, o.failed = jsontext.AppendQuote(o.b, value)
	}
}

// Plain adds a string that needs no escaping, such as our tokens.
func (o *Object) Plain(name, value string) {
	o.name(name)
	o.b = append(append(append(o.b, '"'), value...), '"')
}

// Number adds a number.
func (o *Object) Number(name string, value int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, value, 10)
}

// Boolean adds a boolean.
func (o *Object) Boolean(name string, value bool) {
	o.name(name)
	o.b = strconv.AppendBool(o.b, value)
}

// List adds a string, or an array if there are several values, as in aud (RFC 7519 §4.1.3).
func (o *Object) List(name string, values []string) {
	o.name(name)
	if len(values) == 1 {
		o.quote(values[0])
		return
	}
	o.elements(values)
}

// Array adds an array of strings.
func (o *Object) Array(name string, values []string) {
	o.name(name)
	o.elements(values)
}

func (o *Object) elements(values []string) {
	o.b = append(o.b, '[')
	for i, value := range values {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.quote(value)
	}
	o.b = append(o.b, ']')
}

// Members adds the members of another object.
func (o *Object) Members(other []byte) {
	if len(other) > len("{}") {
		o.b = append(append(o.b, ','), other[1:len(other)-1]...)
	}
}

// WriteObject writes a response with an object, which must have at least one member.
func WriteObject(w http.ResponseWriter, status int, contentType []string, o Object) {
	if o.failed != nil {
		writeUnencodable(w)
		return
	}
	o.b[0] = '{' // replaces the first comma
	writeEncoded(w, status, contentType, append(o.b, '}'))
}
