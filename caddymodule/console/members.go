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

// The types whose fields are not what their kinds would make them.
var (
	lifetimesType = reflect.TypeFor[store.Lifetimes]()
	exchangeType  = reflect.TypeFor[[]store.ExchangeRule]()
	keySetType    = reflect.TypeFor[store.KeySet]()
)

// memberFields returns a field for each of the named members of a thing, with the values that it has.
func (v *visit) memberFields(thing any, names ...string) (fields []pages.ConsoleField) {
	for _, m := range membersOf(thing, names) {
		field := pages.ConsoleField{Name: m.Name, Label: pages.Say("console.member." + m.Name), Kind: "text"}
		if help := field.Label.Key + ".help"; v.has(help) {
			field.Help = pages.Say(help)
		}
		switch value := m.Value(thing); {
		case m.Type == lifetimesType, m.Type.Kind() == reflect.Slice:
			field.Kind, field.Value = "lines", strings.Join(linesIn(value), "\n")
		case m.Type.Kind() == reflect.Bool:
			field.Kind, field.Value, field.Checked = "check", "yes", value.IsValid() && value.Bool()
		case value.IsValid():
			field.Value = value.String()
		}
		if m.Type == keySetType {
			field.Kind = "lines"
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

// linesIn returns the values of a member that has several, a line each.
func linesIn(value reflect.Value) (lines []string) {
	switch {
	case !value.IsValid():
		return nil
	case value.Type() == lifetimesType:
		return value.Interface().(store.Lifetimes).Lines()
	}
	for i := range value.Len() {
		lines = append(lines, fmt.Sprint(value.Index(i)))
	}
	return lines
}

// patchOf returns the changes of a thing that the values of its fields make. An empty value resets a member.
func patchOf(thing any, values url.Values, names ...string) (store.Patch, error) {
	p := make(store.Patch)
	for _, m := range membersOf(thing, names) {
		change, changed, err := changeOf(m, m.Value(thing), values.Get(m.Name))
		switch {
		case err != nil:
			return nil, &fieldFault{m.Name, pages.Phrase{Text: err.Error()}}
		case changed:
			p[m.Name], _ = json.Marshal(change, jsontext.AllowInvalidUTF8(true)) // the reader refuses it
		}
	}
	return p, nil
}

// changeOf returns what the text of a member's field changes its value to; nil resets it.
func changeOf(m store.Member, value reflect.Value, text string) (change any, changed bool, err error) {
	switch {
	case m.Type == lifetimesType, m.Type.Kind() == reflect.Slice:
		lines, now := linesOf(text), linesIn(value)
		switch {
		case slices.Equal(lines, now):
			return nil, false, nil
		case len(lines) == 0:
			return nil, true, nil
		case m.Type == exchangeType:
			return store.ParseExchangeRules(lines), true, nil
		case m.Type == lifetimesType:
			change, err = store.LifetimesPatch(append(emptied(now), lines...))
			return change, true, err
		}
		return lines, true, nil
	case m.Type.Kind() == reflect.Bool:
		is := text != ""
		return is, is != (value.IsValid() && value.Bool()), nil
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	now := ""
	if value.IsValid() {
		now = strings.TrimSpace(value.String())
	}
	changed = text != now
	switch {
	case text == "":
		return nil, changed, nil
	case m.Type == keySetType && jsontext.Value(text).IsValid():
		return jsontext.Value(text), changed, nil
	}
	return text, changed, nil
}

// emptied returns lines of NAME=VALUE without their values, which reset what the lines that follow do not set again.
func emptied(lines []string) (names []string) {
	for _, line := range lines {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name+"=")
	}
	return names
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
