package console

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests ask for an operator of one organisation without a store. What is let through, or may be once it is known whom it is about, ends
// with errStore.

// owner returns the operator u-owen of acme, whose role manages members.
func owner() *operator {
	target := &admin.Target{OwnIssuer: &admin.OwnIssuer{
		Node: &node.Node{Life: new(node.Lifetime)}, IsServing: func(context.Context) bool { return false }, Issuer: new(issuer.Parts),
	}}
	target.Issuer.Roles = store.NewRoleCatalogue(
		store.RoleDeclaration{Name: "operator"}, store.RoleDeclaration{Name: "owner", Manages: []store.Role{"member"}}, store.RoleDeclaration{Name: "member"},
	)
	target.Registry = &people.Registry{Links: &people.Links{Users: &people.Users{Post: new(mail.Post)}}}
	return &operator{
		Operator: admin.Operator{Target: target, UserID: "u-owen"},
		user:     &store.User{ID: "u-owen", Email: "owen@acme.example", Organisation: "acme", Role: "owner"},
	}
}

// allRoutes returns the routes of the API.
func allRoutes(t *testing.T) (routes []admin.Route) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../admin/route.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is && len(spec.Values) == 1 {
			if kind, is := spec.Type.(*ast.Ident); is && kind.Name == "Route" {
				routes = append(routes, admin.Route(literal(spec.Values[0])))
			}
		}
		return true
	})
	return routes
}

// outcome says in a word how an operator's request ended.
func outcome(err error) string {
	var refused *admin.Refusal
	switch {
	case errors.Is(err, errForbidden):
		return "forbidden"
	case errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable:
		return "asked"
	}
	return "error"
}

// TestO62AnOperatorOfAnOrganisationAsksOnlyWhatIsAllowed: every route of the admin API, asked by an operator of one organisation → refused,
// unless this table has it. A new route is refused until it is added here.
func TestO62AnOperatorOfAnOrganisationAsksOnlyWhatIsAllowed(t *testing.T) {
	allowed := []admin.Route{
		admin.ListUsers, admin.ShowUser, admin.AddUser, admin.UpdateUser, admin.RemoveUser, admin.UserSessions, admin.DisableUser, admin.LockUser,
		admin.EnableUser, admin.InviteUser, admin.RecoverUser, admin.ListSessions, admin.EndSession, admin.EndSessions, admin.ListFactors,
		admin.RemoveFactors, admin.RemoveFactor, admin.ListAudit, admin.ShowAudit, admin.ExportAudit,
	}
	routes := allRoutes(t)
	if len(routes) < 50 {
		t.Fatalf("only %d routes", len(routes))
	}
	for _, route := range routes {
		ask := admin.Ask{Route: route, IDs: []string{"u-ada", "f"}, Query: url.Values{"user": {"u-ada"}}, Body: store.Patch{"role": []byte(`"member"`)}}
		o := owner()
		switch route {
		case admin.InviteUser:
			ask.Body = store.Patch{"user": []byte(`"ada@acme.example"`)}
		case admin.RecoverUser:
			ask.Body = map[string]bool{"mail": true}
		case admin.AddUser:
			o.Target.Registry.Links = nil
		}
		want := "forbidden"
		if slices.Contains(allowed, route) {
			want = "asked"
		}
		if _, err := o.ask(t.Context(), ask); outcome(err) != want {
			t.Errorf("%s: %v, want %s", route, err, want)
		}
	}
}

// TestO63WhatAnOrganisationsOperatorNamesIsBound: a list of sessions or events of everybody, an end of an application's sessions, and any
// member of a user that decides more than a name → refused; a list of users and a new user → in her organisation.
func TestO63WhatAnOrganisationsOperatorNamesIsBound(t *testing.T) {
	for _, test := range []struct {
		name string
		ask  admin.Ask
		want string
	}{
		{"sessions of all", admin.Ask{Route: admin.ListSessions}, "forbidden"},
		{"sessions of an application", admin.Ask{Route: admin.ListSessions, Query: url.Values{"client": {"house"}}}, "forbidden"},
		{"sessions of all, a user twice", admin.Ask{Route: admin.ListSessions, Query: url.Values{"user": {"", "u-ada"}}}, "forbidden"},
		{"events of all", admin.Ask{Route: admin.ListAudit}, "forbidden"},
		{"events of an application", admin.Ask{Route: admin.ExportAudit, Query: url.Values{"client": {"house"}}}, "forbidden"},
		{"end of an application's sessions", admin.Ask{Route: admin.EndSessions, Query: url.Values{"user": {"u-ada"}, "client": {"house"}}}, "forbidden"},
		{"no patch", admin.Ask{Route: admin.UpdateUser, IDs: []string{"u-ada"}, Body: map[string]string{"name": "x"}}, "forbidden"},
		{"a role of hers", admin.Ask{Route: admin.UpdateUser, IDs: []string{"u-ada"}, Body: store.Patch{"role": []byte(`"member"`)}}, "asked"},
		{"her own role for another", admin.Ask{Route: admin.UpdateUser, IDs: []string{"u-ada"}, Body: store.Patch{"role": []byte(`"owner"`)}}, "forbidden"},
		{"a higher role", admin.Ask{Route: admin.UpdateUser, IDs: []string{"u-ada"}, Body: store.Patch{"role": []byte(`"operator"`)}}, "forbidden"},
		{"an undeclared role", admin.Ask{Route: admin.UpdateUser, IDs: []string{"u-ada"}, Body: store.Patch{"role": []byte(`"x"`)}}, "forbidden"},
		{"the default role", admin.Ask{Route: admin.UpdateUser, IDs: []string{"u-ada"}, Body: store.Patch{"role": []byte(`null`)}}, "forbidden"},
		{"no text as a role", admin.Ask{Route: admin.UpdateUser, IDs: []string{"u-ada"}, Body: store.Patch{"role": []byte(`["member"]`)}}, "forbidden"},
		{"an address", admin.Ask{Route: admin.UpdateUser, IDs: []string{"u-ada"}, Body: store.Patch{"email": []byte(`"x@corp.example"`)}}, "forbidden"},
		{"new where people are invited", admin.Ask{Route: admin.AddUser, Body: store.Patch{"role": []byte(`"member"`), "email": []byte(`"x@corp.example"`)}}, "forbidden"},
		{"recovery by a link to hand over", admin.Ask{Route: admin.RecoverUser, IDs: []string{"u-ada"}, Body: map[string]bool{"mail": false}}, "forbidden"},
		{"new without a role", admin.Ask{Route: admin.AddUser, Body: store.Patch{"email": []byte(`"x@acme.example"`)}}, "forbidden"},
		{"new elsewhere", admin.Ask{Route: admin.AddUser, Body: store.Patch{"role": []byte(`"member"`), "organisation": []byte(`"other"`)}}, "forbidden"},
		{"new service account", admin.Ask{Route: admin.AddUser, Body: store.Patch{"role": []byte(`"member"`), "service": []byte(`true`)}}, "forbidden"},
		{"invited without a name", admin.Ask{Route: admin.InviteUser, Body: store.Patch{"role": []byte(`"member"`)}}, "forbidden"},
		{"invited by a number", admin.Ask{Route: admin.InviteUser, Body: store.Patch{"user": []byte(`1`)}}, "forbidden"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := owner().ask(t.Context(), test.ask); outcome(err) != test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	decides := []string{"id", "organisation", "groups", "preferred_username", "email_verified", "phone_number_verified", "status", "password", "password_hash", "service", "identities"}
	for _, m := range store.MembersOf(reflect.TypeFor[store.User]()) {
		if !slices.Contains(ownMembers, m.Name) {
			decides = append(decides, m.Name)
		}
	}
	for _, member := range decides {
		if _, err := owner().ask(t.Context(), admin.Ask{Route: admin.UpdateUser, IDs: []string{"u-ada"}, Body: store.Patch{member: []byte(`"x"`)}}); outcome(err) != "forbidden" {
			t.Errorf("%s: %v", member, err)
		}
	}
	users := admin.Ask{Route: admin.ListUsers, Query: url.Values{"organisation": {"other", "acme"}, "search": {"b"}}}
	if err := owner().bind(t.Context(), &users); err != nil || users.Query.Encode() != "organisation=acme&search=b" {
		t.Errorf("users: %v, %v", users.Query, err)
	}
	added, external := admin.Ask{Route: admin.AddUser, Body: store.Patch{"role": []byte(`"member"`), "email": []byte(`"x@acme.example"`)}}, owner()
	external.Target.Registry.Links = nil
	if err := external.bind(t.Context(), &added); err != nil || string(added.Body.(store.Patch)["organisation"]) != `"acme"` {
		t.Errorf("new user: %v, %v", added.Body, err)
	}
}

// TestO64TheGateLeadsBackToTheConsoleOnly: an address to go back to after a fresh sign-in that is not a page of the console → the first page.
func TestO64TheGateLeadsBackToTheConsoleOnly(t *testing.T) {
	for address, want := range map[string]string{
		"/oauth/admin/people?id=u-ada": "/oauth/admin/people?id=u-ada", "/oauth/admin": "/oauth/admin", "": Base, "/": Base, "/oauth/sign_out": Base, "/oauth/administration": Base,
		"https://evil.example/oauth/admin": Base, "//evil.example/oauth/admin": Base, `/\evil.example/oauth/admin/`: Base, `/oauth/admin/\..\..`: Base,
		"/oauth/admin/../sign_out": Base, "/oauth/admin/%2e%2e/sign_out": Base, "/oauth/admin/./x": Base, "javascript:alert(1)//oauth/admin/": Base,
		"/oauth/admin/x\r\nSet-Cookie: a=b": Base, "\t/oauth/admin": Base, "/oauth/admin/again?to=/oauth/admin/again": Base,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, Base+againPath+"?"+url.Values{"to": {address}}.Encode(), nil)
		if err := again(&visit{w: w, r: r}); err != nil || w.Header().Get("Location") != want || strings.ContainsAny(w.Header().Get("Location"), "\r\n") {
			t.Errorf("%q leads to %q, want %q (%v)", address, w.Header().Get("Location"), want, err)
		}
	}
}

// TestO69AValueThatCannotBeChosenStays: a person whose role or organisation is not declared any more, in a form → chosen as it is, so that
// saving the form changes nothing.
func TestO69AValueThatCannotBeChosenStays(t *testing.T) {
	declared := []pages.Choice{{Value: "operator"}, {Value: "member"}}
	for _, test := range []struct{ present, chosen string }{{"admin", "admin"}, {"", ""}} {
		choices := withPresent(declared, test.present)
		if len(choices) != 3 || !choices[0].Chosen || choices[0].Value != test.chosen {
			t.Errorf("%q: %v", test.present, choices)
		}
	}
	declared[1].Chosen = true
	if choices := withPresent(declared, "member"); len(choices) != 2 {
		t.Errorf("%v", choices)
	}
}

// TestO74RecoveryWithoutPasswordsOfOurs: an issuer whose people have no passwords of its own, and the address of the page that recovers one → no
// offer to mail a link, and no panic.
func TestO74RecoveryWithoutPasswordsOfOurs(t *testing.T) {
	o := owner()
	o.everywhere, o.Target.Registry.Links = true, nil
	if fields, err := personActions["recover"].fields(&visit{operator: *o}); len(fields) != 0 || err != nil {
		t.Errorf("%v, %v", fields, err)
	}
}
