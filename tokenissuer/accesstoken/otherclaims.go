package accesstoken

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// claimMembers are the members of a claim that is an object, unordered.
type claimMembers []claimMember

// claimMember has either texts or nested members.
type claimMember struct {
	name    string
	texts   []string
	members claimMembers
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
func (m claimMembers) find(path string) []string {
	for end := strings.LastIndexByte(path, '.'); end > 0; end = strings.LastIndexByte(path[:end], '.') {
		inner, rest := m.member(path[:end]).members, path[end+1:]
		if inner == nil {
			continue
		}
		if texts := inner.member(rest).texts; texts != nil {
			return texts
		}
		return inner.find(rest)
	}
	return nil
}

// size estimates the memory used, in bytes.
func (m claimMembers) size() int {
	const header = 16
	n := 0
	for i := range m {
		n += 4*header + len(m[i].name) + m[i].members.size()
		for _, text := range m[i].texts {
			n += header + len(text)
		}
	}
	return n
}

// readExtra parses the claims that payload has no field for. It omits nulls, and arrays with other elements than strings,
// numbers and booleans: rules cannot require them, and they cannot be forwarded. It fails for a name that differs from a
// registered one only in case, because other readers would confuse the two.
func (t *AccessToken) readExtra(raw jsontext.Value) error {
	if len(raw) == 0 {
		return nil
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for name, value := range members {
		if slices.ContainsFunc(registeredClaims, func(r string) bool { return strings.EqualFold(r, name) }) {
			return fmt.Errorf("claim %q is spelled in another case", name)
		}
		if object, ok := value.(map[string]any); ok {
			if inner := membersOf(object); inner != nil {
				t.nested = append(t.nested, claimMember{name: name, members: inner})
			}
		} else if texts := claimTexts(value); texts != nil {
			if t.extra == nil {
				t.extra = make(map[string][]string, len(members))
			}
			t.extra[name] = texts
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
			m.texts = claimTexts(value)
		}
		if m.texts != nil || m.members != nil {
			list = append(list, m)
		}
	}
	return slices.Clip(list)
}

func claimTexts(value any) []string {
	switch v := value.(type) {
	case string:
		return text(v)
	case bool:
		return []string{strconv.FormatBool(v)}
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}
	case []any:
		var texts []string
		for _, element := range v {
			one := claimTexts(element)
			if len(one) != 1 {
				return nil
			}
			texts = append(texts, one[0])
		}
		return texts
	}
	return nil
}
