package command

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The types whose flags are not what their kinds would make them.
var (
	lifetimesType = reflect.TypeFor[store.Lifetimes]()
	exchangeType  = reflect.TypeFor[[]store.ExchangeRule]()
	keySetType    = reflect.TypeFor[store.KeySet]()
)

// addMemberFlags adds a flag for each member of a struct: a list is one that can be repeated, and an object one for each of its members.
func addMemberFlags(cmd *cobra.Command, t reflect.Type, prefix string) {
	flags := cmd.Flags()
	for _, m := range store.MembersOf(t) {
		name := prefix + m.Flag
		switch kind := m.Type.Kind(); {
		case m.Type == lifetimesType, kind == reflect.Slice:
			flags.StringArray(name, nil, m.Help)
		case kind == reflect.Struct:
			addMemberFlags(cmd, m.Type, name+"-")
		case kind == reflect.Bool:
			flags.Bool(name, false, m.Help)
		case kind == reflect.Pointer:
			flags.Int64(name, 0, m.Help)
		default:
			flags.String(name, "", m.Help)
		}
		if values := memberValues[m.Type]; values != nil {
			completes(cmd, name, values)
		}
	}
}

// memberRequest is the request that the flags make which were given: a patch of the struct's members.
func memberRequest(cmd *cobra.Command, t reflect.Type, prefix string) (map[string]any, error) {
	flags, request := cmd.Flags(), make(map[string]any)
	for _, m := range store.MembersOf(t) {
		name, kind := prefix+m.Flag, m.Type.Kind()
		if kind == reflect.Struct && m.Type != lifetimesType {
			object, err := memberRequest(cmd, m.Type, name+"-")
			if err != nil {
				return nil, err
			}
			if len(object) > 0 {
				request[m.Name] = object
			}
			continue
		}
		if !flags.Changed(name) {
			continue
		}
		var err error
		switch {
		case m.Type == lifetimesType:
			if request[m.Name], err = store.LifetimesPatch(listFlag(cmd, name)); err != nil {
				err = fmt.Errorf("--%s %w", name, err)
			}
		case m.Type == exchangeType:
			request[m.Name] = store.ParseExchangeRules(listFlag(cmd, name))
		case m.Type == keySetType:
			file, _ := flags.GetString(name)
			request[m.Name], err = keySet(file)
		case kind == reflect.Slice:
			request[m.Name] = listFlag(cmd, name)
		case kind == reflect.Bool:
			request[m.Name], _ = flags.GetBool(name)
		case kind == reflect.Pointer:
			request[m.Name], _ = flags.GetInt64(name)
		default:
			request[m.Name], _ = flags.GetString(name)
		}
		if err != nil {
			return nil, err
		}
	}
	return request, nil
}

// keySet reads a key set from its file. No file takes the keys away.
func keySet(file string) (any, error) {
	if file == "" {
		return nil, nil
	}
	set, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !jsontext.Value(set).IsValid() {
		return nil, fmt.Errorf("%s is no JSON: write the client's public keys as a JSON Web Key Set", file)
	}
	return jsontext.Value(set), nil
}

// listFlag returns the values of a flag that can be repeated, without empty ones.
func listFlag(cmd *cobra.Command, name string) []string {
	given, _ := cmd.Flags().GetStringArray(name)
	values := []string{}
	for _, text := range given {
		if text != "" {
			values = append(values, text)
		}
	}
	return values
}

// memberRows are the members of a thing as they are shown, each with the word by which a Caddyfile sets it.
func memberRows(thing any) [][]string {
	var rows [][]string
	for _, m := range store.MembersOf(reflect.TypeOf(thing).Elem()) {
		value := m.Value(thing)
		if !value.IsValid() || value.IsZero() {
			continue
		}
		for _, text := range memberTexts(value) {
			rows = append(rows, []string{m.Word, text})
		}
	}
	return rows
}

// memberTexts are a member's value in words, one a row.
func memberTexts(value reflect.Value) (texts []string) {
	switch value.Kind() {
	case reflect.Bool:
		return []string{"yes"}
	case reflect.Pointer:
		return []string{strconv.FormatInt(value.Elem().Int(), 10)}
	case reflect.String:
		return []string{value.String()}
	case reflect.Slice:
		if value.Type() == exchangeType {
			for i := range value.Len() {
				texts = append(texts, value.Index(i).Interface().(store.ExchangeRule).String())
			}
			return texts
		}
		for i := range value.Len() {
			texts = append(texts, value.Index(i).String())
		}
		return []string{strings.Join(texts, " ")}
	}
	var object map[string]any
	text, err := json.Marshal(value.Interface())
	if err != nil || json.Unmarshal(text, &object) != nil {
		return nil
	}
	for _, m := range objectNames(value) {
		if word, ok := object[m]; ok {
			texts = append(texts, fmt.Sprint(m, " ", word))
		}
	}
	return texts
}

// objectNames are the names in an object, in their order.
func objectNames(value reflect.Value) []string {
	if value.Type() == lifetimesType {
		return append(store.LifetimeNames(), "refresh_grace_same_address")
	}
	var names []string
	for _, m := range store.MembersOf(value.Type()) {
		names = append(names, m.Name)
	}
	return names
}
