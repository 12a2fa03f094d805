package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestO1AnOperatorSeesAndChangesAPerson: an operator with two factors → the pages of the console, and a change of a person that the audit
// log has with the operator's name; an organisation can be removed there if the Caddyfile does not declare it.
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
		if path == "/organisations" && (strings.Contains(p.body, "Never") || strings.Contains(p.body, "remove_organisation")) { // the Caddyfile declares all
			t.Errorf("%s: %s", path, p.body)
		}
	}
	s.must(http.StatusCreated, http.MethodPost, "/oauth/organisations", `{"id":"stored","name":"Stored"}`)
	if p, _ := v.walk(s.at("admin", "/oauth/admin/organisations"), ""); strings.Count(p.body, "remove_organisation") != 1 || !strings.Contains(p.body, "do=remove_organisation&amp;id=stored") {
		t.Errorf("what can be removed: %s", p.body)
	}
}
