package store

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A field with a help tag is a member. Its json tag is its name, word is its name in a Caddyfile and flag its name for a command, where
// these are not derived from the name. The Caddyfile block, the JSON configuration, the admin API, the commands and the store all go by these
// fields, so a new member is a new field.

// Member is something that can be set.
type Member struct {
	// Name is the name in JSON, Word the one in a Caddyfile, and Flag that of a command's flag.
	Name, Word, Flag string
	// Help is a sentence for the person who sets it.
	Help string
	// Type is the type of the value.
	Type  reflect.Type
	index []int
}

// MembersOf lists the members of a struct in the order of their declaration, those of embedded structs among them.
func MembersOf(t reflect.Type) []Member {
	var list []Member
	for i := range t.NumField() {
		field := t.Field(i)
		help, isMember := field.Tag.Lookup("help")
		switch {
		case isMember:
			list = append(list, newMember(field, help))
		case field.Anonymous:
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			for _, m := range MembersOf(embedded) {
				m.index = append([]int{i}, m.index...)
				list = append(list, m)
			}
		}
	}
	return list
}

func newMember(field reflect.StructField, help string) Member {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	word := cmp.Or(field.Tag.Get("word"), name)
	flag := strings.ReplaceAll(word, "_", "-")
	if field.Type.Kind() == reflect.Slice { // it is repeated, one value a flag
		flag = strings.TrimSuffix(flag, "s")
	}
	return Member{Name: name, Word: word, Flag: cmp.Or(field.Tag.Get("flag"), flag), Help: help, Type: field.Type, index: field.Index}
}

// Value returns the member of a thing, a struct or a pointer to one; the zero Value if an embedded pointer on the way is nil.
func (m Member) Value(thing any) reflect.Value {
	value, err := reflect.Indirect(reflect.ValueOf(thing)).FieldByIndexErr(m.index)
	if err != nil {
		return reflect.Value{}
	}
	return value
}

// Field returns the member of the thing that a pointer points to, for writing. Embedded pointers on the way are replaced by copies,
// because a copy of the thing may share them.
func (m Member) Field(thing any) reflect.Value {
	value := reflect.ValueOf(thing).Elem()
	for _, i := range m.index {
		if value.Kind() == reflect.Pointer {
			own := reflect.New(value.Type().Elem())
			if !value.IsNil() {
				own.Elem().Set(value.Elem())
			}
			value.Set(own)
			value = own.Elem()
		}
		value = value.Field(i)
	}
	return value
}

// Patch is a JSON merge patch (RFC 7396): the members that it has change, and null resets one.
type Patch map[string]jsontext.Value

// Take removes a member from the patch and decodes it, unless the patch does not have it.
func (p Patch) Take(name string, into any) error {
	value, ok := p[name]
	if !ok {
		return nil
	}
	delete(p, name)
	return decode(name, value, into)
}

// Has reports whether the patch changes a member.
func (p Patch) Has(name string) bool {
	_, ok := p[name]
	return ok
}

// Resets reports whether the patch has a null, for one of the names if there are some.
func (p Patch) Resets(names ...string) bool {
	for name, value := range p {
		if value.Kind() == 'n' && (len(names) == 0 || slices.Contains(names, name)) {
			return true
		}
	}
	return false
}

// Names lists what the patch changes, in the order of a thing's members.
func (p Patch) Names(thing any) []string {
	var names []string
	for _, m := range of(thing) {
		if p.Has(m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// Apply makes the changes to the thing that a pointer points to, and to nothing that a copy of it shares. It fails for an unknown
// name, and for a value that the member cannot have.
func (p Patch) Apply(thing any) error {
	known := of(thing)
	for name := range p {
		if !slices.ContainsFunc(known, func(m Member) bool { return m.Name == name }) {
			return fmt.Errorf("unknown member %q", name)
		}
	}
	for _, m := range known {
		value, ok := p[m.Name]
		if !ok {
			continue
		}
		field := m.Field(thing)
		if m.Type.Kind() != reflect.Struct || value.Kind() == 'n' { // an object is merged, anything else replaced
			field.SetZero()
		}
		if err := decode(m.Name, value, field.Addr().Interface()); err != nil {
			return err
		}
	}
	return nil
}

func of(thing any) []Member { return MembersOf(reflect.TypeOf(thing).Elem()) }

func decode(name string, value jsontext.Value, into any) error {
	if err := json.Unmarshal(value, into, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
