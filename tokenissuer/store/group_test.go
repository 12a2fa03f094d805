package store

import (
	"fmt"
	"strings"
	"testing"
)

// TestG132GroupsOutOfBounds: 101 groups, 65 bytes, commas, invisible characters → refused wherever they are given, since each place asks here.
func TestG132GroupsOutOfBounds(t *testing.T) {
	numbered := func(n int, format string) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf(format, i))
		}
		return names
	}
	for name, test := range map[string]struct {
		groups []string
		want   string
	}{
		"101":                     {numbered(101, "g%03d"), "101 groups: a user can be in 100"},
		"a long name":             {[]string{strings.Repeat("x", 65)}, "use 1 to 64 bytes of printable text without commas"},
		"no name":                 {[]string{"a", ""}, "use 1 to 64 bytes"},
		"a comma":                 {[]string{"a,b"}, "use 1 to 64 bytes"},
		"a line break":            {[]string{"a\nX-Auth-Role: admin"}, "use 1 to 64 bytes"},
		"NUL":                     {[]string{"a\x00"}, "use 1 to 64 bytes"},
		"a space around it":       {[]string{"ops "}, "use 1 to 64 bytes"},
		"invisible":               {[]string{"ops\u200b"}, "use 1 to 64 bytes"},
		"one twice":               {[]string{"a", "b", "a"}, `group "a" is there twice`},
		"more than fits a token":  {numbered(40, "%02d"+strings.Repeat("x", 52)), "the groups take more than fits a token: use fewer, or shorter names"},
		"more than fits a header": {numbered(25, "%02d"+strings.Repeat("ж", 28)), "the groups take more than fits a token: use fewer, or shorter names"},
	} {
		if err := ValidateGroups(test.groups); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
