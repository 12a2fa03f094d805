package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestO1AnOperatorSeesAndChangesAPerson: an operator with two factors → the pages of the console, and a change of a person that the audit
// log has with the operator's name.
func TestO1AnOperatorSeesAndChangesAPerson(t *testing.T) {
	s := startConsole(t)
	v := s.operator(t, "olga@acme.example")
	p, _ := v.walk(s.at("admin", "/oauth/admin/people?search=ada"), "")
	if p.status != http.StatusOK || !strings.Contains(p.body, "ada@acme.example") || strings.Contains(p.body, "ben@other.example") {
		t.Fatalf("%d %s", p.status, p.body)
	}
	for _, path := range []string{"/people/person?id=u-ada", "/people/new", "/people/edit?id=u-ada", "/people/act?do=disable&id=u-ada", "/organisations", "/organisations/new", "/organisations/groups", "/sessions", "/sessions?user=u-olga"} {
		p, _ := v.walk(s.at("admin", "/oauth/admin"+path), "")
		if p.status != http.StatusOK {
			t.Errorf("%s: %d %.1500s", path, p.status, p.body)
		}
		if path == "/organisations" && strings.Contains(p.body, "Never") { // one that the Caddyfile declares was never created
			t.Errorf("%s: %s", path, p.body)
		}
	}
}
