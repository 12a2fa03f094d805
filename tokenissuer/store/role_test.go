package store

import (
	"slices"
	"strings"
	"testing"
)

func TestRolesOfTheDefaultSet(t *testing.T) {
	var c RoleCatalogue
	if names := c.Names(); !slices.Equal(names, []Role{"admin", "group_manager", "business_manager", "member"}) || c.Default() != "member" {
		t.Errorf("%q, by default %q", names, c.Default())
	}
	for _, by := range append(c.Names(), "", "Admin", "boss") {
		for _, other := range append(c.Names(), "", "Admin", "boss") {
			want := by == RoleAdmin && (other == RoleGroupManager || other == RoleBusinessManager)
			if got := c.Manages(by, other); got != want {
				t.Errorf("%q manages %q: %t", by, other, got)
			}
		}
		if got := c.ManagesAny(by); got != (by == RoleAdmin) {
			t.Errorf("%q manages somebody: %t", by, got)
		}
	}
	if err := c.Check("boss"); err == nil || err.Error() != `unknown role "boss": use admin, group_manager, business_manager or member` {
		t.Error(err)
	}
}

func TestDeclaredRolesTakeThePlaceOfTheDefaultSet(t *testing.T) {
	c := NewRoleCatalogue(RoleDeclaration{Name: "boss", Words: "The boss", Manages: []Role{"clerk"}}, RoleDeclaration{Name: "clerk"})
	if c.Default() != "" || c.Has("") || c.Has(RoleMember) || c.ManagesAny(RoleAdmin) || !c.Manages("boss", "clerk") || c.Words("boss") != "The boss" {
		t.Errorf("%+v", c)
	}
	if err := c.Check(RoleMember); err == nil || err.Error() != `unknown role "member": use boss or clerk` {
		t.Error(err)
	}
}

func TestRolesThatCannotBeDeclared(t *testing.T) {
	for name, r := range map[string]RoleDeclaration{
		"no name": {}, "long": {Name: Role(strings.Repeat("x", 65))}, "comma": {Name: "a,b"}, "line": {Name: "a\nb"}, "NUL": {Name: "a\x00"},
		"no UTF-8": {Name: "a\xff"}, "space before": {Name: " a"}, "space behind": {Name: "a "}, "invisible": {Name: "a\u200b"},
		"no-break space": {Name: "a\u00a0b"}, "turned round": {Name: "\u202ea"}, "words": {Name: "a", Words: "a\nb"},
		"manages nobody known": {Name: "a", Manages: []Role{"b"}},
	} {
		if err := NewRoleCatalogue(r).Validate(r); err == nil {
			t.Errorf("%s: %q was declared", name, r.Name)
		}
	}
	for _, good := range []Role{"a", "night-owl", "Sales & Service", "Geschäftsleitung", "{x}", Role(strings.Repeat("x", 64))} {
		r := RoleDeclaration{Name: good, Manages: []Role{good}}
		if err := NewRoleCatalogue(r).Validate(r); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}
