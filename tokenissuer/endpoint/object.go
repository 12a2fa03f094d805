package endpoint

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object that is written by hand, member by member, because every answer with a token is paid for here.
// Names are ours and need no quoting.
type object struct {
	b      []byte
	failed error
}

// newObject returns an empty object with room for so many bytes.
func newObject(room int) object { return object{b: make([]byte, 0, room)} }

func (o *object) name(name string) {
	o.b = append(append(append(o.b, `,"`...), name...), `":`...)
}

// text adds a string. The whole answer fails when it is not UTF-8.
func (o *object) text(name, value string) {
	o.name(name)
	o.quote(value)
}

func (o *object) quote(value string) {
	if o.failed == nil {
		o.b, o.failed = jsontext.AppendQuote(o.b, value)
	}
}

// plain adds a string of which every character stands for itself, as those of our own tokens do.
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

// list adds strings: one alone, or an array, as aud has it (RFC 7519 §4.1.3).
func (o *object) list(name string, values []string) {
	o.name(name)
	if len(values) == 1 {
		o.quote(values[0])
		return
	}
	o.elements(values)
}

// array adds strings, in an array whatever their number.
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

// writeObject answers with an object that has at least one member.
func writeObject(w http.ResponseWriter, status int, contentType []string, o object) {
	if o.failed != nil {
		writeUnencodable(w)
		return
	}
	o.b[0] = '{' // in place of the first comma
	writeEncoded(w, status, contentType, append(o.b, '}'))
}
