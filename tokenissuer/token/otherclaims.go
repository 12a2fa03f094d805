package token

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// extraClaims are the claims that AccessToken has no field for.
type extraClaims struct {
	values  map[string]claimValue // by name
	objects claimMembers
	person  *Person // only on the token of a session, in place of the others
}

// isProof reports whether there are no claims other than those of a proof, as WithProof sets them.
func (e *extraClaims) isProof() bool {
	for name, value := range e.values {
		if name != claimAMR && (name != claimACR || len(value.texts) != 1) || value.numbers || slices.Contains(value.texts, "") {
			return false
		}
	}
	return e.objects == nil && e.person == nil
}

// find resolves the name of a claim, or a path into objects.
func (e *extraClaims) find(name string) claimValue {
	if e.person != nil {
		return claimValue{texts: e.person.claim(name), numbers: isTime(name)}
	}
	if value := e.values[name]; value.texts != nil {
		return value
	}
	return e.objects.find(name)
}

func (e *extraClaims) texts(name string) []string { return e.values[name].texts }

// one returns the text of a claim that has exactly one, or "".
func (e *extraClaims) one(name string) string {
	if texts := e.texts(name); len(texts) == 1 {
		return texts[0]
	}
	return ""
}

func (e *extraClaims) set(name string, value claimValue) {
	if e.values == nil {
		e.values = make(map[string]claimValue, 1)
	}
	e.values[name] = value
}

// add sets a claim unless it is empty.
func (e *extraClaims) add(name string, texts ...string) {
	if len(texts) > 0 && texts[0] != "" {
		e.set(name, claimValue{texts: texts, numbers: name == OriginIssuedAt})
	}
}

// single returns the value of a claim that has one. It sets a claim that has several.
func (e *extraClaims) single(name string, values []string) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	}
	e.set(name, claimValue{texts: values})
	return ""
}

// size estimates the memory used, in bytes.
func (e *extraClaims) size() int {
	const header = 16
	n := e.objects.size()
	for name, value := range e.values {
		n += 4*header + len(name) + value.size()
	}
	if e.person != nil {
		n += e.person.size()
	}
	return n
}

// claimMembers are the members of a claim that is an object, unordered.
type claimMembers []claimMember

// claimMember has either a value or nested members.
type claimMember struct {
	name    string
	value   claimValue
	members claimMembers
}

// claimValue has one text for a string, number or boolean, and one for each element of an array; no texts: the claim is absent. The texts
// of numbers are those of canonicalNumber.
type claimValue struct {
	texts   []string
	numbers bool // all texts are of numbers
}

// size estimates the memory used, in bytes.
func (v claimValue) size() int {
	const header = 16
	n := 0
	for _, text := range v.texts {
		n += header + len(text)
	}
	return n
}

// isOne reports whether one of the texts is one of the values. A number equals every spelling of its value; a string equals only the
// same characters.
func (v claimValue) isOne(values []string) bool {
	for _, held := range v.texts {
		for _, value := range values {
			if held == value {
				return true
			}
			if !v.numbers {
				continue
			}
			if canonical, ok := canonicalNumber(value); ok && held == canonical {
				return true
			}
		}
	}
	return false
}

func (m claimMembers) member(name string) claimMember {
	for i := range m {
		if m[i].name == name {
			return m[i]
		}
	}
	return claimMember{}
}

// find resolves a path. At each step the longest prefix that names an object wins, so every path has one meaning even if
// names contain dots.
func (m claimMembers) find(path string) claimValue {
	for end := strings.LastIndexByte(path, '.'); end > 0; end = strings.LastIndexByte(path[:end], '.') {
		inner, rest := m.member(path[:end]).members, path[end+1:]
		if inner == nil {
			continue
		}
		if value := inner.member(rest).value; value.texts != nil {
			return value
		}
		return inner.find(rest)
	}
	return claimValue{}
}

// size estimates the memory used, in bytes.
func (m claimMembers) size() int {
	const header = 16
	n := 0
	for i := range m {
		n += 4*header + len(m[i].name) + m[i].members.size() + m[i].value.size()
	}
	return n
}

// read parses the claims that payload has no field for. It omits nulls, and arrays with other elements than strings,
// numbers and booleans, and numbers beyond maxExponent: rules cannot require them, and they cannot be forwarded. It fails for a name that differs from a
// registered one only in case, because other readers would confuse the two.
func (e *extraClaims) read(raw jsontext.Value) error {
	if len(raw) == 0 {
		return nil
	}
	members, err := strictjson.Members(raw)
	if err != nil {
		return err
	}
	for name, value := range members {
		if strictjson.FoldsTo(name, registeredClaims...) {
			return fmt.Errorf("claim %q is spelled in another case", name)
		}
		if object, ok := value.(map[string]any); ok {
			if inner := membersOf(object); inner != nil {
				e.objects = append(e.objects, claimMember{name: name, members: inner})
			}
		} else if v := claimValueOf(value); v.texts != nil {
			if e.values == nil {
				e.values = make(map[string]claimValue, len(members))
			}
			e.values[name] = v
		}
	}
	return nil
}

func membersOf(object map[string]any) (list claimMembers) {
	for name, value := range object {
		m := claimMember{name: name}
		if inner, ok := value.(map[string]any); ok {
			m.members = membersOf(inner)
		} else {
			m.value = claimValueOf(value)
		}
		if m.value.texts != nil || m.members != nil {
			list = append(list, m)
		}
	}
	return slices.Clip(list)
}

func claimValueOf(value any) claimValue {
	switch v := value.(type) {
	case string:
		return claimValue{texts: text(v)}
	case bool:
		return claimValue{texts: []string{strconv.FormatBool(v)}}
	case strictjson.Number:
		if canonical, ok := canonicalNumber(string(v)); ok {
			return claimValue{texts: []string{canonical}, numbers: true}
		}
	case []any:
		all := claimValue{numbers: true}
		for _, element := range v {
			one := claimValueOf(element)
			if len(one.texts) != 1 {
				return claimValue{}
			}
			all.texts = append(all.texts, one.texts[0])
			all.numbers = all.numbers && one.numbers
		}
		return all
	}
	return claimValue{}
}
