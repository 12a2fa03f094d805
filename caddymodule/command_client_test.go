package caddymodule

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT136A143ClientUpdate: `client update` of one member, also one of OpenID Connect → that member alone changes; what registration
// refuses, a declared client, confidential to public → refused, nothing changes; fewer scopes → a refresh leaves them out. Without `openid`
// in the configuration, the stored members for it stay, and new ones are refused.
func TestT136A143ClientUpdate(t *testing.T) {
	g := startGatehouse(t, strings.Replace(durableSite, "store sqlite", "openid\n\t\tstore sqlite", 1))
	out := g.ok("client", "add", "--name", "Portal", "--id", "portal", "--grant", "client_credentials", "--grant", "authorization_code",
		"--scope", "public", "--scope", "openid", "--scope", "orders.read", "--redirect-uri", "https://p.example/cb", "--lifetime", "client_credentials=10m",
		"--id-token-alg", "EdDSA", "--post-logout-redirect-uri", "https://p.example/bye", "--backchannel-logout-uri", "https://p.example/back", "--backchannel-logout-session-required")
	secret := printed(t, out, "client_secret")
	_, token := g.tokenFor("portal", secret)
	show := func() clientView {
		t.Helper()
		shown := decoded[clientView](t, g.ok("client", "show", "portal", "--json"))
		shown.Provider = nil // the answer to a change does not repeat it
		return shown
	}
	want := show()
	if openID := (store.ClientOpenID{
		IDTokenAlgorithm: oauth.EdDSA, PostLogoutRedirectURIs: []string{"https://p.example/bye"}, BackchannelLogoutURI: "https://p.example/back", BackchannelLogoutSessionRequired: true,
	}); want.Tokens["client_credentials"] != "10m0s" || !reflect.DeepEqual(want.ClientOpenID, openID) {
		t.Errorf("added %+v", want)
	}
	if out := g.ok("client", "show", "portal"); !strings.Contains(out, "https://p.example/bye") || !strings.Contains(out, "https://p.example/back") || !strings.Contains(out, "EdDSA") {
		t.Errorf("show prints\n%s", out)
	}
	for _, c := range []struct {
		args   []string
		change func()
	}{
		{[]string{"--name", "New portal"}, func() { want.Name = "New portal" }},
		{[]string{"--id-token-alg", "ES256"}, func() { want.IDTokenAlgorithm = oauth.ES256 }},
		{[]string{"--id-token-alg", ""}, func() { want.IDTokenAlgorithm = "" }},
		{[]string{"--post-logout-redirect-uri", "https://p.example/1", "--post-logout-redirect-uri", "com.example.app:/bye"}, func() {
			want.PostLogoutRedirectURIs = []string{"https://p.example/1", "com.example.app:/bye"}
		}},
		{[]string{"--post-logout-redirect-uri", ""}, func() { want.PostLogoutRedirectURIs = nil }},
		{[]string{"--backchannel-logout-session-required=false"}, func() { want.BackchannelLogoutSessionRequired = false }},
		{[]string{"--backchannel-logout-uri", ""}, func() { want.BackchannelLogoutURI = "" }},
		{[]string{"--redirect-uri", "https://p.example/new", "--redirect-uri", "http://localhost/cb"}, func() {
			want.RedirectURIs = []string{"https://p.example/new", "http://localhost/cb"}
		}},
		{[]string{"--redirect-uri", ""}, func() { want.RedirectURIs = nil }},
		{[]string{"--cors-origin", "https://p.example"}, func() { want.CORSOrigins = []string{"https://p.example"} }},
		{[]string{"--cors-origin", ""}, func() { want.CORSOrigins = nil }},
		{[]string{"--revoke-previous-access-token"}, func() { want.RevokePrevious = true }},
		{[]string{"--revoke-previous-access-token=false"}, func() { want.RevokePrevious = false }},
		{[]string{"--first-party"}, func() { want.FirstParty = true }},
		{[]string{"--first-party=false", "--pkce", "required"}, func() { want.FirstParty, want.PKCE = false, "required" }},
		{[]string{"--pkce", ""}, func() { want.PKCE = "" }},
		{[]string{"--lifetime", "code=30s", "--lifetime", "refresh_grace=0s"}, func() {
			want.Tokens = map[string]string{"client_credentials": "10m0s", "code": "30s", "refresh_grace": "0s"}
		}},
		{[]string{"--lifetime", "code="}, func() { delete(want.Tokens, "code") }},
		{[]string{"--lifetime", ""}, func() { want.Tokens = nil }},
		{[]string{"--scope", "public"}, func() { want.Scopes = []string{"public"} }},
		{[]string{"--grant", "client_credentials"}, func() { want.Grants = []oauth.GrantType{"client_credentials"} }},
	} {
		c.change()
		updated := decoded[clientView](t, g.ok(append([]string{"client", "update", "portal", "--json"}, c.args...)...))
		if got := show(); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(updated, want) {
			t.Errorf("%q: %+v, answered with %+v, want %+v", c.args, got, updated, want)
		}
	}
	if status, answer := g.tokenFor("portal", secret); status != 200 || g.gate(token) != 200 {
		t.Errorf("the client gets %d %s, and its former token %d", status, answer, g.gate(token))
	}
	want.BackchannelLogoutURI = "http://127.0.0.1:9/back"
	if out := g.ok("client", "update", "portal", "--name", "Again", "--pkce", "optional", "--backchannel-logout-uri", want.BackchannelLogoutURI); printed(t, out, "name") != "Again" || show().PKCE != "optional" {
		t.Errorf("update printed\n%s", out)
	}
	if logs := g.logs(); !strings.Contains(logs, `"msg":"client updated","client_id":"portal","changed":["first_party","pkce"],"by":"operator"`) {
		t.Error("no audit line")
	}
	g.ok("client", "add", "--name", "App", "--id", "app", "--type", "public", "--redirect-uri", "https://app.example/cb")
	refused := func(want string, args ...string) {
		t.Helper()
		before := g.ok("client", "list", "--json")
		if _, err := g.run("", append([]string{"client", "update"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("update %q: %v, want %s", args, err, want)
		}
		if g.ok("client", "list", "--json") != before {
			t.Errorf("update %q changed something", args)
		}
	}
	refused("name what is to change", "portal")
	refused("there is no such client", "nobody", "--name", "x")
	refused("it is declared in the configuration: change it there", "conf", "--name", "x")
	refused("a confidential client cannot become a public one: what was issued to it needs its secret; register another client", "portal", "--type", "public")
	refused(`unknown scope "nonsense": declare it first`, "portal", "--scope", "nonsense")
	refused("a client needs at least one grant", "portal", "--grant", "")
	refused("a * stands for nothing", "portal", "--redirect-uri", "https://*.p.example/cb")
	refused("plain http is for loopback hosts only", "portal", "--redirect-uri", "http://p.example/cb")
	refused("token lifetime code 1h0m0s: use 1s to 10m", "portal", "--lifetime", "code=1h")
	refused("coffee", "portal", "--lifetime", "coffee=1h")
	refused("write it as client_credentials=10m", "portal", "--lifetime", "1h")
	refused(`pkce "maybe"`, "portal", "--pkce", "maybe")
	refused(`algorithm "HS256" is not supported`, "portal", "--id-token-alg", "HS256")
	refused("use an absolute URI", "portal", "--post-logout-redirect-uri", "/bye")
	refused("use https, or http on loopback", "portal", "--backchannel-logout-uri", "http://10.0.0.1/back")
	refused("fragments are not allowed", "portal", "--backchannel-logout-uri", "https://p.example/back#x")
	refused("needs a backchannel_logout_uri", "app", "--backchannel-logout-session-required")
	refused("pkce optional is for confidential clients", "app", "--pkce", "optional")
	refused("nobody can sign in", "app", "--redirect-uri", "")

	// A public client with a secret can become confidential. One without a secret cannot.
	refused("a confidential client needs a secret", "app", "--type", "confidential")
	g.ok("client", "update", "app", "--type", "native", "--redirect-uri", "http://localhost/cb")
	if out := g.ok("client", "rotate-secret", "app"); strings.Contains(out, "The old one") {
		t.Errorf("there was no old secret, and rotate-secret printed\n%s", out)
	}
	g.ok("client", "update", "app", "--type", "confidential")
	if got := decoded[clientView](t, g.ok("client", "show", "app", "--json")); got.Type != store.ConfidentialClient || len(got.Secrets) != 1 {
		t.Errorf("%+v", got)
	}
	g.reload(durableSite)
	g.ok("client", "update", "portal", "--name", "Portal again")
	if got := show(); !reflect.DeepEqual(got.ClientOpenID, want.ClientOpenID) {
		t.Errorf("without openid: %+v", got.ClientOpenID)
	}
	refused("backchannel_logout_uri is for OpenID Connect: add `openid` to the oauth block", "app", "--backchannel-logout-uri", "https://app.example/back")
}

// TestT146WhatAnUpdateDoesNotNameIsNotJudged: an update of one member of a client whose other members would be refused today → changes; an
// invalid new member among them → refused.
func TestT146WhatAnUpdateDoesNotNameIsNotJudged(t *testing.T) {
	g := startGatehouse(t, durableSite)
	g.ok("client", "add", "--name", "Old", "--id", "old", "--grant", "authorization_code", "--redirect-uri", "https://p.example/cb")
	g.ok("client", "add", "--name", "App", "--id", "app", "--type", "public", "--redirect-uri", "https://app.example/cb")
	const old = `"http://p.example/cb","https://*.p.example/cb"`
	for _, statement := range []string{
		`UPDATE clients SET members = json_patch(members, '{"redirect_uris":[` + old + `],"scopes":["public","gone"],"cors_origins":["HTTPS://P.example/"]}') WHERE id = 'old'`,
		`UPDATE clients SET members = json_patch(members, '{"redirect_uris":null}') WHERE id = 'app'`,
	} {
		g.edit(statement)
	}
	show := func(id string) clientView {
		t.Helper()
		return decoded[clientView](t, g.ok("client", "show", id, "--json"))
	}
	want := show("old")
	if len(want.RedirectURIs) != 2 || len(want.Scopes) != 2 {
		t.Fatalf("stored is %+v", want)
	}
	g.ok("client", "update", "old", "--name", "New")
	want.Name = "New"
	if got := show("old"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	g.ok("client", "update", "app", "--name", "New app")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a new URI beside old ones":    {[]string{"old", "--redirect-uri", "http://p.example/cb", "--redirect-uri", "http://q.example/cb"}, "http://q.example/cb"},
		"an old URI changed":           {[]string{"old", "--redirect-uri", "https://*.p.example/cb2"}, "a * stands for nothing"},
		"a new scope beside old ones":  {[]string{"old", "--scope", "gone", "--scope", "other"}, `unknown scope "other"`},
		"a new origin beside old ones": {[]string{"old", "--cors-origin", "HTTPS://P.example/", "--cors-origin", "*"}, "cors_origins"},
		"an empty name":                {[]string{"old", "--name", ""}, "a client needs a name"},
		"a name of spaces":             {[]string{"old", "--name", "  "}, "a client needs a name"},
		"no URI left":                  {[]string{"old", "--type", "public", "--redirect-uri", ""}, "cannot become a public one"},
	} {
		if _, err := g.run("", append([]string{"client", "update"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if got := show("old"); !reflect.DeepEqual(got, want) {
		t.Errorf("a refused update changed %+v to %+v", want, got)
	}
	g.ok("client", "update", "old", "--redirect-uri", "http://p.example/cb", "--redirect-uri", "https://p.example/new", "--scope", "gone")
	if got := show("old"); !reflect.DeepEqual(got.RedirectURIs, []string{"http://p.example/cb", "https://p.example/new"}) {
		t.Errorf("%+v", got)
	}
}

// TestT135RemovedIDs: the id of a removed client or user is added again before the last token can have expired → refused with the time;
// afterwards → accepted, and consent is asked for again.
func TestT135RemovedIDs(t *testing.T) {
	moved := setClock(t)
	g := startGatehouse(t, durableStaffed)
	addClient := []string{"client", "add", "--name", "App", "--id", "app"}
	addUser := []string{"user", "add", "--id", "u-x", "--email", "x@acme.example", "--org", "acme"}
	g.ok(addClient...)
	g.ok(addUser...)
	g.ok("client", "remove", "app")
	g.ok("user", "remove", "u-x")
	until := node.Clock().Add(35 * 24 * time.Hour)
	for _, add := range [][]string{addClient, addUser} {
		_, err := g.run("", add...)
		if err == nil || !strings.Contains(err.Error(), "who was removed, and whose tokens may still be valid: it is taken until "+until.UTC().Format("2006-01-02T")) {
			t.Errorf("%q: %v", add, err)
		}
	}
	moved.advance(35*24*time.Hour + time.Hour)
	for _, add := range [][]string{addClient, addUser} {
		g.ok(add...)
	}
	for _, add := range [][]string{addClient, addUser} {
		if _, err := g.run("", add...); err == nil || strings.Contains(err.Error(), "removed") || !strings.Contains(err.Error(), "taken") {
			t.Errorf("%q again: %v", add, err)
		}
	}
}

// TestO23ClientListFindsClients: `client list` with each filter → the clients that all filters select, of the configuration too, however many
// pages the admin API makes of them; a filter that is unknown or empty is refused.
func TestO23ClientListFindsClients(t *testing.T) {
	g := startGatehouse(t, site)
	g.ok("client", "add", "--id", "wiki", "--name", "Acme Wiki")
	g.ok("client", "add", "--id", "acme.notes", "--name", "Notes")
	g.ok("client", "disable", "wiki")
	for filters, want := range map[string]string{
		"--search ACME": "wiki acme.notes", "--search acme --state enabled": "acme.notes", "--state disabled": "wiki", "--search conf": "conf",
		"--search acme --origin registration": "", "--search nobody": "",
	} {
		var ids []string
		for _, c := range decoded[[]clientView](t, g.ok(append([]string{"client", "list", "--json"}, strings.Fields(filters)...)...)) {
			ids = append(ids, c.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %q, want %q", filters, got, want)
		}
	}
	all := decoded[[]clientView](t, g.ok("client", "list", "--json"))
	first := g.must(http.StatusOK, "GET", "/oauth/clients?limit=1", ``)
	if page := decoded[[]clientView](t, first); len(all) != 6 || len(page) != 5 { // those of the configuration are all in the first page
		t.Errorf("%d clients, and %d in the first page", len(all), len(page))
	}
	for _, wrong := range []string{"state=off", "origin=", "kind=web", "search=", "limit=0", "after=x"} {
		g.must(http.StatusBadRequest, "GET", "/oauth/clients?"+wrong, ``)
	}
}
