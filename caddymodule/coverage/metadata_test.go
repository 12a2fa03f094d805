package coverage

import "testing"

// TestCommonPath: what path patterns have in common, part by part.
func TestCommonPath(t *testing.T) {
	for _, test := range []struct {
		want     string
		patterns []string
	}{
		{"", nil}, {"", []string{"*"}}, {"", []string{"/*"}}, {"/orders", []string{"/orders/*"}}, {"", []string{"/orders*"}}, {"/orders", []string{"/orders"}},
		{"/a", []string{"/a/b*"}}, {"/a/b", []string{"/a/b/*", "/a/b"}}, {"/a", []string{"/a/b/*", "/a/c/*"}}, {"", []string{"/a/*", "/b/*"}},
		{"/a", []string{"/a/*/c"}}, {"", []string{"*.php"}}, {"/a", []string{"/a/{http.x}/*"}}, {"/a%20b", []string{"/a b/*"}}, {"/a", []string{"/a/?"}},
	} {
		if got := commonPath(test.patterns, false); got != test.want {
			t.Errorf("%q: %q, want %q", test.patterns, got, test.want)
		}
	}
	for _, test := range []struct {
		want     string
		patterns []string
	}{{"/mcp", []string{"/mcp*"}}, {"/mcp", []string{"/mcp", "/mcp/*"}}, {"", []string{"/*"}}, {"/a", []string{"/a/?*"}}} {
		if got := commonPath(test.patterns, true); got != test.want {
			t.Errorf("%q: %q, want %q", test.patterns, got, test.want)
		}
	}
}
