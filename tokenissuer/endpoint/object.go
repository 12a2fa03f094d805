package endpoint

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// object builds a JSON object by hand, because this code runs for every issued token. Names need no quoting.
type object struct {
	b      []byte
	failed error
}

// newObject returns an empty object with this capacity in bytes.
func newObject(room int) object { return object{b: make([]byte, 0, room)} }

func (o *object) name(name string) {
	o.b = append(append(append(o.b, `,"`...), name...), `":`...)
}

// text adds a string. If it is not UTF-8, writeObject fails.
func (o *object) text(name, value string) {
	o.name(name)
	o.quote(value)
}

func (o *object) quote(value string) {
	if o.failed == nil {
		o.b, o.failed = jsontext.AppendQuote(o.b, value)
	}
}

// plain adds a string that needs no quoting, such as our tokens.
func (o *object) plain(name, value string) {
	o.name(name)
	o.b = append(append(append(o.b, '"'), value...), '"')
}

func (o *object) number(name string, value int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, value, 10)
}

func (o *object) boolean(name string, value bool) {
	o.name(name)
	o.b = strconv.AppendBool(o.b, value)
}

// list adds a string, or an array if there are several values, as for aud (RFC 7519 §4.1.3).
func (o *object) list(name string, values []string) {
	o.name(name)
	if len(values) == 1 {
		o.quote(values[0])
		return
	}
	o.elements(values)
}

// array adds an array of strings.
func (o *object) array(name string, values []string) {
	o.name(name)
	o.elements(values)
}

func (o *object) elements(values []string) {
	o.b = append(o.b, '[')
	for i, value := range values {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.quote(value)
	}
	o.b = append(o.b, ']')
}

// members adds the members of another object.
func (o *object) members(other []byte) {
	if len(other) > len("{}") {
		o.b = append(append(o.b, ','), other[1:len(other)-1]...)
	}
}

// writeObject writes a response of an object with at least one member.
func writeObject(w http.ResponseWriter, status int, contentType []string, o object) {
	if o.failed != nil {
		writeUnencodable(w)
		return
	}
	o.b[0] = '{' // replaces the first comma
	writeEncoded(w, status, contentType, append(o.b, '}'))
}
