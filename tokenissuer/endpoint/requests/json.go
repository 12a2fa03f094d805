package requests

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// textMembers are the members of an OAuth request in JSON. Each must be a string.
var textMembers = []string{
	"grant_type", "client_id", "client_secret", "scope", "code", "redirect_uri", "code_verifier", "refresh_token",
	"client_assertion", "client_assertion_type", "assertion", "email", "username", "password", "token", "token_type_hint", resource,
	"subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type",
}

// parseJSON parses a JSON object. Known members must be strings, and resource and audience may be an array of them; null counts as absent.
// Unknown members may have any type, and count as absent unless they are strings. The decoder refuses invalid UTF-8, lone surrogates, duplicate names
// and nesting beyond 10,000. Its errors quote the body, so they are not kept as a cause.
func parseJSON(body []byte) (Form, error) {
	malformed := Invalid("json_malformed")
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if d.PeekKind() != '{' {
		return Form{}, malformed
	}
	if _, err := d.ReadToken(); err != nil {
		return Form{}, malformed
	}
	var f Form
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return Form{}, Invalid("parameter_duplicate")
		}
		if err != nil {
			return Form{}, malformed
		}
		name, value := token.String(), ""
		if isRepeatable(name) && d.PeekKind() == '[' {
			if err := f.addAll(name, d); err != nil {
				return Form{}, err
			}
			continue
		}
		switch d.PeekKind() {
		case '"':
			if token, err = d.ReadToken(); err == nil {
				value = token.String()
			}
		case '{', '[', '0', 't', 'f':
			if slices.Contains(textMembers, name) {
				return Form{}, noString(name)
			}
			err = d.SkipValue()
		default:
			err = d.SkipValue()
		}
		if err != nil {
			return Form{}, malformed
		}
		if err := f.add(name, value); err != nil {
			return Form{}, err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return Form{}, malformed
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return Form{}, malformed // something follows the object
	}
	return f, nil
}

// addAll adds the strings of an array.
func (f *Form) addAll(name string, d *jsontext.Decoder) error {
	malformed := Invalid("json_malformed")
	if _, err := d.ReadToken(); err != nil {
		return malformed
	}
	for d.PeekKind() == '"' {
		value, err := d.ReadToken()
		if err != nil {
			return malformed
		}
		if err := f.add(name, value.String()); err != nil {
			return err
		}
	}
	if d.PeekKind() != ']' {
		return noString(name)
	}
	if _, err := d.ReadToken(); err != nil {
		return malformed
	}
	return nil
}

// noString is the refusal of a member that is no string.
func noString(name string) error {
	e := Invalid("json_member_no_string")
	return e.WithDescription(e.Description + " The member " + name + " must be a string.")
}
