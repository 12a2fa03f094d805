package configuration

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// memberOptions are the lines of a block that set the members of the thing that a pointer points to. Check says what is wrong with the
// member that a line has set, and owner whose it is.
func memberOptions(owner string, thing any, check func(member string) error) options {
	lines := make(options)
	for _, m := range store.MembersOf(reflect.TypeOf(thing).Elem()) {
		lines[m.Word] = func(d *caddyfile.Dispenser) error {
			err := parseMember(d, m.Field(thing), owner, func() error { return check(m.Name) })
			if err != nil {
				return err
			}
			if err := check(m.Name); err != nil {
				return d.Errf("%s: %v", owner, err)
			}
			return nil
		}
	}
	return lines
}

// parseMember reads the rest of the line of a member: a text, a number, a list to which several lines add, a flag, or a block. Check
// holds after each line of a block.
func parseMember(d *caddyfile.Dispenser, field reflect.Value, owner string, check func() error) error {
	switch value := field.Addr().Interface().(type) {
	case *store.Lifetimes:
		return parseLifetimes(d, value)
	case *[]store.ExchangeRule:
		return parseExchange(d, value)
	case *store.KeySet:
		return parseKeySet(d, value, owner)
	}
	name := d.Val()
	switch field.Kind() {
	case reflect.Bool:
		return flag(field.Addr().Interface().(*bool))(d)
	case reflect.Slice:
		return parseList(d, field)
	case reflect.Struct:
		if err := setting.Once(d, name, !field.IsZero()); err != nil {
			return err
		}
		return memberOptions(owner, field.Addr().Interface(), func(string) error { return check() }).parseAlone(d, "unknown "+name+" option %q")
	}
	if err := setting.Once(d, name, !field.IsZero()); err != nil {
		return err
	}
	text, err := setting.OneArg(d)
	if err != nil {
		return err
	}
	if err := setting.RefuseRequest(d, text); err != nil {
		return err
	}
	if field.Kind() == reflect.String {
		field.SetString(text)
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return d.Errf("%s: %s: %q is no number", owner, name, text)
	}
	field.Set(reflect.ValueOf(&n))
	return nil
}

func parseList(d *caddyfile.Dispenser, field reflect.Value) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	for _, value := range args {
		field.Set(reflect.Append(field, reflect.ValueOf(value).Convert(field.Type().Elem())))
	}
	return nil
}

// parseExchange reads a rule by which a client may exchange tokens:
//
//	may_exchange <audience>... {
//		from   <audience>...
//		scopes <scope>...
//	}
func parseExchange(d *caddyfile.Dispenser, rules *[]store.ExchangeRule) error {
	var rule store.ExchangeRule
	if err := checkedList(&rule.Audiences, nil)(d); err != nil {
		return err
	}
	err := options{
		"from":   checkedList(&rule.From, nil),
		"scopes": checkedList((*[]string)(&rule.Scopes), nil),
	}.parse(d, "unknown may_exchange option %q")
	*rules = append(*rules, rule)
	return err
}

// parseKeySet reads a JWK Set, or a placeholder for one.
func parseKeySet(d *caddyfile.Dispenser, keys *store.KeySet, owner string) error {
	if err := setting.Once(d, d.Val(), *keys != ""); err != nil {
		return err
	}
	text, err := setting.OneArg(d)
	if err != nil {
		return err
	}
	isPlaceholder := strings.HasPrefix(text, "{env.") || strings.HasPrefix(text, "{file.")
	if set := jsontext.Value(text); !isPlaceholder && (!set.IsValid() || set.Kind() != '{') {
		return d.Errf("%s: jwks: write the JSON Web Key Set in backquotes, or {file./path/to/keys.json}", owner)
	}
	*keys = store.KeySet(text)
	return nil
}
