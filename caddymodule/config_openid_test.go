package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// refusedOpenID is what is refused of `openid`.
var refusedOpenID = refusedBlock{
	adapted: []refusal{
		{"openid\nopenid", `openid is set twice, at Caddyfile:4`},
		{`openid on`, `wrong argument count or unexpected line ending after 'on', at Caddyfile:3`},
		{"openid {\nnonsense\n}", `openid has no option "nonsense", at Caddyfile:4`},
	},
	json: []refusal{
		{`"openid":{"nonsense":1}`, `unknown field "nonsense"`},
	},
}

// TestA142OpenIDIsOffUnlessItIsTurnedOn: without `openid` nobody knows the scopes of OpenID Connect, and the configuration says how
// they come to be known. With it they are, and none of them can be a server's.
func TestA142OpenIDIsOffUnlessItIsTurnedOn(t *testing.T) {
	emptyHome(t)
	for _, name := range []string{"openid", "profile", "email", "phone", "address"} {
		client := []string{"client a s {", "scopes " + name, "}"}
		checkPlace(t, refused(t, inOAuth(client...)), `oauth: client "a": unknown scope "`+name+"\": add `openid` to the oauth block, or declare it first", 5)
		if err := refused(t, inOAuth(append(client, "openid")...)); err != nil {
			t.Errorf("%s with openid: %v", name, err)
		}
		declared := []string{"scope " + name + " {", "server_tokens", "}"}
		if err := refused(t, inOAuth(append(client, declared...)...)); err != nil {
			t.Errorf("%s declared, without openid: %v", name, err)
		}
		checkPlace(t, refused(t, inOAuth(append(declared, "openid")...)), `oauth: scope "`+name+`" acts for a user where openid is on: a server token cannot hold it`, 7)
	}
	checkPlace(t, refused(t, gateOf("openid", trustLines("a", "https://l.example"))), "oauth: openid needs an issuer: add `issuer https://…` to the oauth block", 2)
}

// TestA142WithoutOpenIDNothingOnTheWireKnowsIt: no discovery, no scope.
func TestA142WithoutOpenIDNothingOnTheWireKnowsIt(t *testing.T) {
	g := startGatehouse(t, site)
	if status, _, _ := g.get("/.well-known/openid-configuration", ""); status != http.StatusNotFound {
		t.Errorf("discovery: %d", status)
	}
	if _, _, metadata := g.get("/.well-known/oauth-authorization-server", ""); strings.Contains(metadata, "openid") {
		t.Errorf("the metadata know it: %s", metadata)
	}
}
