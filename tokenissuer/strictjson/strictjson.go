// Package strictjson decodes JSON that another party wrote: tokens, metadata, key sets, answers of providers and bodies of requests. Two
// readers of such a text must not see two things in it, so it has to be one value in valid UTF-8 without lone surrogates, no object may
// have a member twice, and arrays and objects nest at most MaxDepth deep. Names are matched in their own case; FoldsTo finds a member
// that a reader which ignores the case would take for another. The types are those of claims that have several forms on the wire.
package strictjson

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth bounds how deep arrays and objects nest. A decoder pays for every level that a hostile text opens.
const MaxDepth = 32

var (
	errDeep     = errors.New("arrays and objects are nested too deeply")
	errNoObject = errors.New("it is no JSON object")
)

// Unmarshal decodes a text into a value.
func Unmarshal(text []byte, into any, options ...json.Options) error {
	if tooDeep(text) {
		return errDeep
	}
	return json.Unmarshal(text, into, options...)
}

// Object decodes a text that has to be an object. An error may quote the text.
func Object(text []byte, into any, options ...json.Options) error {
	if jsontext.Value(text).Kind() != '{' {
		return errNoObject
	}
	return Unmarshal(text, into, options...)
}

// tooDeep reports whether JSON nests deeper than MaxDepth.
func tooDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// Number is the literal of a JSON number. A float64 would round those above 2^53.
type Number string

var exactNumbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, value *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	literal, err := d.ReadValue()
	*value = Number(literal)
	return err
}))

// Members decodes an object into strings, booleans, nil, Numbers, []any and map[string]any.
func Members(text []byte) (members map[string]any, err error) {
	err = Object(text, &members, exactNumbers)
	return members, err
}

// FoldsTo reports whether a name differs only in case from one of others: a reader that ignores the case would take it for that one.
func FoldsTo(name string, others ...string) bool {
	return slices.ContainsFunc(others, func(other string) bool { return other != name && strings.EqualFold(other, name) })
}

// Texts is a string or an array of strings on the wire, like aud (RFC 7519 §4.1.3).
type Texts []string

// UnmarshalJSONFrom reads either. A null in an array is no string.
func (t *Texts) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '"':
		*t = make(Texts, 1)
		return json.UnmarshalDecode(d, &(*t)[0])
	case '[':
	default:
		return json.UnmarshalDecode(d, (*[]string)(t))
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	*t = make(Texts, 0, 1)
	for d.PeekKind() == '"' {
		var text string
		if err := json.UnmarshalDecode(d, &text); err != nil {
			return err
		}
		*t = append(*t, text)
	}
	end, err := d.ReadToken()
	if err == nil && end.Kind() != ']' {
		return errors.New("an array has a member that is no string")
	}
	return err
}

// NumericDate is a time in seconds since 1970 on the wire (RFC 7519 §2). A fraction of a second is cut off.
type NumericDate struct{ time.Time }

// maxNumericDate is the end of the year 9999; later times cannot be computed with.
const maxNumericDate = 253402300799

// UnmarshalJSONFrom reads a number.
func (n *NumericDate) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(string(value), 64)
	if value.Kind() != '0' || err != nil || seconds < 0 || seconds > maxNumericDate {
		return errors.New("a time is no number of seconds, or out of range")
	}
	n.Time = time.Unix(int64(seconds), 0)
	return nil
}
