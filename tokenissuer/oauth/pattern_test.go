package oauth

import "testing"

// TestMatchHost: a * in a pattern of a host → one whole label in any case, with digits, hyphens and underscores; no label, several, or other
// characters → not. Without a *, the host in any case.
func TestMatchHost(t *testing.T) {
	for pattern, hosts := range map[string]map[string]bool{
		"":                {"": true, "a.example": true},
		"a.example":       {"A.Example": true, "b.example": false, "a.example.": false},
		"*.a.example":     {"az09AZ-_.a.example": true, "x.y.a.example": false, "a.example": false, ".a.example": false, "é.a.example": false, "{.a.example": false, "@.a.example": false, "*.a.example": false},
		"*.a.*.example":   {"x.A.y.example": true, "x.b.y.example": false},
		"*":               {"localhost": true, "a.example": false},
		"*.example.*.com": {"a.example.b": false, "a.example.b.com.c": false},
	} {
		for host, want := range hosts {
			if MatchHost(pattern, host) != want {
				t.Errorf("%q and %q: %t", pattern, host, !want)
			}
		}
	}
}
