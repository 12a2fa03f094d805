package requests

import (
	"errors"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// textMembers are the members of an OAuth request in JSON. Each must be a string.
var textMembers = []string{
	"grant_type", "client_id", "client_secret", "scope", "code", "redirect_uri", "code_verifier", "refresh_token",
	"client_assertion", "client_assertion_type", "assertion", "email", "username", "password", "token", "token_type_hint", resource,
	"subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type",
}

// parseJSON parses a JSON object. Known members must be strings; resource and audience may also be arrays of strings. null counts as
// absent. Unknown members may have any type, and count as absent unless they are strings. The decoder's errors quote the body, so they are
// not kept as a cause.
func parseJSON(body []byte) (f Form, err error) {
	var members map[string]jsontext.Value
	err = strictjson.Object(body, &members)
	at, _ := errors.AsType[*jsontext.SyntacticError](err)
	if errors.Is(err, jsontext.ErrDuplicateName) && at != nil && at.JSONPointer.Parent() == "" { // and not within a member
		return Form{}, Invalid("parameter_duplicate")
	}
	if err != nil {
		return Form{}, Invalid("json_malformed")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		values, err := textsOf(name, members[name])
		if err != nil {
			return Form{}, err
		}
		for _, value := range values {
			if err := f.add(name, value); err != nil {
				return Form{}, err
			}
		}
	}
	return f, nil
}

// textsOf returns the texts of a member. An empty result counts as absent.
func textsOf(name string, member jsontext.Value) (values strictjson.Texts, err error) {
	kind := member.Kind()
	if kind != '"' && (kind != '[' || !isRepeatable(name)) {
		if kind != 'n' && slices.Contains(textMembers, name) {
			return nil, noString(name)
		}
		return strictjson.Texts{""}, nil
	}
	if strictjson.Unmarshal(member, &values) != nil {
		return nil, noString(name)
	}
	return values, nil
}

// noString returns the error for a member that is not a string.
func noString(name string) error {
	e := Invalid("json_member_no_string")
	return e.WithDescription(e.Description + " The member " + name + " must be a string.")
}
