package admin

import (
	"cmp"
	"encoding"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// object is an object of the document.
type object = map[string]any

// Document returns the OpenAPI 3.1 document of the API: what the routes take and answer, derived from the types that they decode and encode.
func Document() []byte {
	s := schemas{object{"Error": object{
		"type": "object", "properties": object{"error": object{"type": "string", "description": "A sentence for the operator"}}, "required": []string{"error"},
	}}}
	paths := make(map[string]object)
	for route, op := range operations() {
		method, path := route.split()
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(method)] = s.operation(route, op)
	}
	text, err := json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Gatehouse admin API", "version": "0.1.0",
			"description": "Operations below /oauth/ of Caddy's admin endpoint. It has no password: restrict it.",
		},
		"servers":    []object{{"url": "http://localhost:2019"}},
		"paths":      paths,
		"components": object{"schemas": s.named},
	}, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		panic(err) // it consists of strings
	}
	return append(text, '\n')
}

func serveDocument(w http.ResponseWriter, _ *http.Request) {
	writeAnswer(w, http.StatusOK, jsontext.Value(Document()))
}

// schemas are the JSON Schemas of types by name.
type schemas struct{ named object }

// operation describes an operation.
func (s schemas) operation(route Route, op operation) object {
	answer := object{"description": http.StatusText(op.status)}
	if op.answer != nil {
		answer["content"] = object{cmp.Or(op.media, "application/json"): object{"schema": s.of(op.answer)}}
	}
	if op.query != nil && slices.ContainsFunc(properties(op.query), func(p property) bool { return p.name == "after" }) {
		answer["headers"] = object{"Link": object{"description": `The next page, with rel="next"; without it this is the last`, "schema": object{"type": "string"}}}
	}
	failure := object{"description": "What was wrong, in a sentence", "content": content(reference("Error"))}
	answers := object{strconv.Itoa(op.status): answer, "default": failure}
	if route == ShowReady {
		answers[strconv.Itoa(http.StatusServiceUnavailable)] = object{"description": "It cannot serve", "content": answer["content"]}
	}
	method, path := route.split()
	tag, _, _ := strings.Cut(strings.TrimPrefix(path, "/oauth/"), "/")
	described := object{"operationId": operationID(method, path), "summary": op.summary, "tags": []string{tag}, "responses": answers}
	var parameters []object
	for _, name := range route.wildcards() {
		parameters = append(parameters, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	if op.query != nil {
		for _, p := range properties(op.query) {
			parameters = append(parameters, object{"name": p.name, "in": "query", "schema": s.member(p)})
		}
	}
	if parameters != nil {
		described["parameters"] = parameters
	}
	if op.body != nil {
		described["requestBody"] = object{"required": true, "content": content(s.request(op.body))}
	}
	return described
}

// operationID names an operation after its route, as in getUsersIdSessions.
func operationID(method, path string) string {
	id := strings.ToLower(method)
	for _, part := range strings.FieldsFunc(strings.TrimPrefix(path, "/oauth/"), func(r rune) bool { return strings.ContainsRune("/{}_-.", r) }) {
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

func content(schema object) object { return object{"application/json": object{"schema": schema}} }

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// request describes a request's content. It may leave members out, and has no others.
func (s schemas) request(t reflect.Type) object {
	members := object{}
	for _, p := range properties(t) {
		schema := s.member(p)
		if p.resets { // in a merge patch
			schema = orNull(schema)
		}
		members[p.name] = schema
	}
	return object{"type": "object", "properties": members, "additionalProperties": false}
}

// of describes what the type encodes.
func (s schemas) of(t reflect.Type) object {
	if schema := ofForeign(t); schema != nil {
		return schema
	}
	if t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		panic("no schema for " + t.String())
	}
	switch t.Kind() {
	case reflect.Pointer:
		return orNull(s.of(t.Elem()))
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		return s.ofStruct(t)
	}
	panic("no schema for " + t.String())
}

// ofForeign describes types with an encoding of their own or a list of values; nil: the type is neither.
func ofForeign(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[jsontext.Value]():
		return object{}
	case reflect.TypeFor[store.KeySet]():
		return object{"type": []string{"object", "string"}, "description": "JSON Web Key Set (RFC 7517)"}
	case reflect.TypeFor[store.Lifetimes]():
		members := object{"refresh_grace_same_address": object{"type": "boolean"}}
		for _, name := range store.LifetimeNames() {
			members[name] = object{"type": []string{"string", "integer", "null"}, "description": "A duration, such as 15m"}
		}
		return object{"type": "object", "properties": members, "additionalProperties": false}
	}
	if values, ok := valuesOf[t]; ok {
		return object{"type": "string", "enum": values}
	}
	return nil
}

// valuesOf are the values of types that have few.
var valuesOf = map[reflect.Type][]string{
	reflect.TypeFor[store.UserStatus](): {string(store.UserActive), string(store.UserDisabled), string(store.UserLocked)},
	reflect.TypeFor[store.UserState]():  store.UserStates(),
	reflect.TypeFor[store.ClientType](): {string(store.ConfidentialClient), string(store.PublicClient), string(store.NativeClient)},
	reflect.TypeFor[store.FactorKind](): {string(store.TOTP), string(store.RecoveryCodes), string(store.Passkey)},
	reflect.TypeFor[Outcome]():          {string(Added), string(Updated), string(Unchanged), string(Differs), string(Refused)},
	reflect.TypeFor[SessionKind]():      {string(AtBrowser), string(IdleBrowser), string(AtHost), string(OfApplication)},
	reflect.TypeFor[signin.Result]():    {string(signin.Passed), string(signin.Failed), string(signin.Advice)},
	reflect.TypeFor[keys.State]():       {string(keys.StatePublished), string(keys.StateSigning), string(keys.StateSuperseded), string(keys.StateRevoked), string(keys.StateRefused)},
}

// ofStruct names the schema of a struct and refers to it.
func (s schemas) ofStruct(t reflect.Type) object {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if s.named[name] != nil {
		return reference(name)
	}
	members, required := object{}, []string{}
	s.named[name] = object{"type": "object", "properties": members}
	for _, p := range properties(t) {
		members[p.name] = s.member(p)
		if !p.optional {
			required = append(required, p.name)
		}
	}
	if len(required) > 0 {
		s.named[name].(object)["required"] = required
	}
	if hasAnyMembers(t) {
		s.named[name].(object)["additionalProperties"] = true
	}
	return reference(name)
}

// property is a member of the JSON form of a struct.
type property struct {
	name, help string
	kind       reflect.Type
	// optional: it may be missing. resets: null resets it.
	optional, resets bool
}

// member describes the values of a property.
func (s schemas) member(p property) object {
	schema := s.of(p.kind)
	if p.help != "" {
		schema["description"] = p.help
	}
	return schema
}

// orNull is a schema that null satisfies as well.
func orNull(schema object) object {
	if kind, ok := schema["type"].(string); ok && schema["enum"] == nil {
		schema["type"] = []string{kind, "null"}
		return schema
	}
	return object{"anyOf": []object{schema, {"type": "null"}}}
}

// hasAnyMembers reports whether a struct embeds the members of an object in JSON.
func hasAnyMembers(t reflect.Type) bool {
	for i := range t.NumField() {
		if field := t.Field(i); field.Type == reflect.TypeFor[jsontext.Value]() && field.Tag.Get("json") == ",embed" {
			return true
		}
	}
	return false
}

// properties lists the members of a struct's JSON form, with those of embedded structs. An outer one hides an inner one of the same name.
func properties(t reflect.Type) (list []property) {
	at := make(map[string]int)
	add := func(p property) {
		if i, twice := at[p.name]; twice {
			list[i] = p
			return
		}
		at[p.name] = len(list)
		list = append(list, p)
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case name == "" && (field.Anonymous || strings.Contains(options, "embed") || strings.Contains(options, "inline")):
			inner, pointer := field.Type, field.Type.Kind() == reflect.Pointer
			if pointer {
				inner = inner.Elem()
			}
			if inner.Kind() != reflect.Struct { // hasAnyMembers
				continue
			}
			for _, p := range properties(inner) {
				p.optional = p.optional || pointer
				add(p)
			}
		default:
			help, isMember := field.Tag.Lookup("help")
			add(property{name: cmp.Or(name, field.Name), help: help, kind: field.Type, optional: strings.Contains(options, "omit"), resets: isMember})
		}
	}
	return list
}
