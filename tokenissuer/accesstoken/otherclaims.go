package accesstoken

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

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

// readExtra parses the claims that payload has no field for. It omits nulls, and arrays with other elements than strings,
// numbers and booleans, and numbers beyond maxExponent: rules cannot require them, and they cannot be forwarded. It fails for a name that differs from a
// registered one only in case, because other readers would confuse the two.
func (t *AccessToken) readExtra(raw jsontext.Value) error {
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
				t.nested = append(t.nested, claimMember{name: name, members: inner})
			}
		} else if v := claimValueOf(value); v.texts != nil {
			if t.extra == nil {
				t.extra = make(map[string]claimValue, len(members))
			}
			t.extra[name] = v
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
