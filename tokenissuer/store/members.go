package store

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Member is a field of a struct that can be set: one with a help tag. Its json tag is its name, its word tag is the name in a Caddyfile,
// and its flag tag the name of the command's flag. A missing word or flag is derived from the name. The Caddyfile block, the JSON
// configuration, the admin API, the commands and the store all use these fields, and a new member is therefore only a new field.
type Member struct {
	// Name is the name in JSON, Word the one in a Caddyfile, and Flag the one of a command's flag.
	Name, Word, Flag string
	// Help is a sentence for the person who sets the member.
	Help string
	// Type is the type of the value.
	Type  reflect.Type
	index []int
}

// MembersOf lists the members of a struct in order of declaration, including those of embedded structs.
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
	if field.Type.Kind() == reflect.Slice { // the flag is repeated, one value each
		flag = strings.TrimSuffix(flag, "s")
	}
	return Member{Name: name, Word: word, Flag: cmp.Or(field.Tag.Get("flag"), flag), Help: help, Type: field.Type, index: field.Index}
}

// Value returns the member's value in thing, a struct or a pointer to one. It returns the zero Value if an embedded pointer on the path
// is nil.
func (m Member) Value(thing any) reflect.Value {
	value, err := reflect.Indirect(reflect.ValueOf(thing)).FieldByIndexErr(m.index)
	if err != nil {
		return reflect.Value{}
	}
	return value
}

// Field returns the settable member of the struct that thing points to. It replaces embedded pointers on the path with copies, because a
// copy of thing may share them.
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

// Patch is a JSON merge patch (RFC 7396): it changes the members that it contains, and null resets one.
type Patch map[string]jsontext.Value

// Take removes a member from the patch and decodes it into into. It does nothing if the patch does not contain the member.
func (p Patch) Take(name string, into any) error {
	value, ok := p[name]
	if !ok {
		return nil
	}
	delete(p, name)
	return decode(name, value, into)
}

// Has reports whether the patch changes the member.
func (p Patch) Has(name string) bool {
	_, ok := p[name]
	return ok
}

// Only returns the part of the patch that changes one member; an empty one if the patch does not.
func (p Patch) Only(name string) Patch {
	if value, ok := p[name]; ok {
		return Patch{name: value}
	}
	return nil
}

// Resets reports whether the patch contains a null, in one of the named members if names are given.
func (p Patch) Resets(names ...string) bool {
	for name, value := range p {
		if value.Kind() == 'n' && (len(names) == 0 || slices.Contains(names, name)) {
			return true
		}
	}
	return false
}

// Names lists the members that the patch changes, in the order of thing's members.
func (p Patch) Names(thing any) []string {
	var names []string
	for _, m := range of(thing) {
		if p.Has(m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// Apply applies the patch to the struct that thing points to, without changing memory that a copy of it shares. It returns an error for
// an unknown name and for an invalid value.
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
		if s, ok := errors.AsType[*json.SemanticError](err); ok && s.Err != nil { // what the member says of itself, without names of Go's
			err = s.Err
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
