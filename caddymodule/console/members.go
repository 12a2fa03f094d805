package console

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// memberFields returns a field for each of the named members of a thing, with the values that it has.
func (v *visit) memberFields(thing any, names ...string) (fields []pages.ConsoleField) {
	for _, m := range membersOf(thing, names) {
		field := pages.ConsoleField{Name: m.Name, Label: pages.Say("console.member." + m.Name), Kind: "text"}
		if help := field.Label.Key + ".help"; v.has(help) {
			field.Help = pages.Say(help)
		}
		value := m.Value(thing)
		switch m.Type.Kind() {
		case reflect.Slice:
			field.Kind = "lines"
			var lines []string
			for i := range value.Len() {
				lines = append(lines, fmt.Sprint(value.Index(i)))
			}
			field.Value = strings.Join(lines, "\n")
		case reflect.Bool:
			field.Kind, field.Value, field.Checked = "check", "yes", value.IsValid() && value.Bool()
		default:
			if value.IsValid() {
				field.Value = value.String()
			}
		}
		fields = append(fields, field)
	}
	return fields
}

// membersOf returns the named members of a thing, in the order of the names.
func membersOf(thing any, names []string) (members []store.Member) {
	all := store.MembersOf(reflect.TypeOf(thing).Elem())
	for _, name := range names {
		if i := slices.IndexFunc(all, func(m store.Member) bool { return m.Name == name }); i >= 0 {
			members = append(members, all[i])
		}
	}
	return members
}

// patchOf returns the changes of a thing that the values of its fields make. An empty value resets a member.
func patchOf(thing any, values url.Values, names ...string) store.Patch {
	p := make(store.Patch)
	for _, m := range membersOf(thing, names) {
		var typed any
		switch value := m.Value(thing); m.Type.Kind() {
		case reflect.Slice:
			lines := linesOf(values.Get(m.Name))
			var now []string
			for i := range value.Len() {
				now = append(now, fmt.Sprint(value.Index(i)))
			}
			if slices.Equal(lines, now) {
				continue
			}
			if len(lines) > 0 {
				typed = lines
			}
		case reflect.Bool:
			is := values.Get(m.Name) != ""
			if is == (value.IsValid() && value.Bool()) {
				continue
			}
			typed = is
		default:
			t := strings.TrimSpace(values.Get(m.Name))
			if value.IsValid() && t == value.String() || !value.IsValid() && t == "" {
				continue
			}
			if t != "" {
				typed = t
			}
		}
		p[m.Name], _ = json.Marshal(typed, jsontext.AllowInvalidUTF8(true)) // the reader refuses it
	}
	return p
}

// linesOf returns the lines of a text that say something.
func linesOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// has reports whether there is a text of a key.
func (v *visit) has(key string) bool {
	_, texts := v.parts.Pages.In(words.Default)
	_, is := texts[key]
	return is
}

// roleChoices returns the roles that the operator may give, and the present one.
func (v *visit) roleChoices(present store.Role) (choices []pages.Choice) {
	for _, role := range v.operator.Target.Issuer.Roles.Names() {
		if v.operator.manages(role) || role == present {
			choices = append(choices, pages.Choice{Value: string(role), Phrase: v.role(role), Chosen: role == present})
		}
	}
	return withPresent(choices, string(present))
}

// withPresent adds the value that a thing has to what can be chosen, if it is not there: a browser would send another one in its place.
func withPresent(choices []pages.Choice, present string) []pages.Choice {
	if slices.ContainsFunc(choices, func(c pages.Choice) bool { return c.Chosen }) {
		return choices
	}
	now := pages.Choice{Value: present, Phrase: pages.Phrase{Text: present}, Chosen: true}
	if present == "" {
		now.Phrase = pages.Say("console.none")
	}
	return append([]pages.Choice{now}, choices...)
}

// role returns a role in words.
func (v *visit) role(role store.Role) pages.Phrase {
	if key := "role." + string(role); v.has(key) {
		return pages.Say(key)
	}
	if declared := v.operator.Target.Issuer.Roles.Words(role); declared != "" {
		return pages.Phrase{Text: declared}
	}
	return pages.Phrase{Text: string(role)}
}
