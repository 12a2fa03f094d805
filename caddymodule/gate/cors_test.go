package gate

import (
	"strings"
	"testing"
)

// TestOriginsOfJSONAreCheckedToo: a configuration need not come from a Caddyfile.
func TestOriginsOfJSONAreCheckedToo(t *testing.T) {
	for want, p := range map[string]*Protect{
		"cors null": {CORS: []string{"null"}}, "other origins": {CORS: []string{"*", "https://spa.example"}}, "as browsers send it": {CORS: []string{"https://spa.example/"}},
		"token_from cookie": {CORS: []string{"*"}, TokenCookie: "app"}, "forward_to response": {CORS: []string{"https://spa.example"}, ForwardTo: "response"},
	} {
		if _, err := newCORS(p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", p.CORS, err)
		}
	}
}
