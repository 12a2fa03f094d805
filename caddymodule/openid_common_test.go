package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The files openid_*_test.go test the OpenID provider through a whole Caddy, one test for each row of the catalogue
// of attacks and faults.

// openIDScopes are the scopes that conf and pub have in these tests in addition to their own.
const openIDScopes = "openid profile email phone address groups"

// turnOn is the line of the oauth block that makes the issuer an OpenID provider.
const turnOn = "openid"

// startOpenID serves people with an OpenID provider, changed by the pairs of old and new text.
func startOpenID(t *testing.T, changes ...string) *gatehouse {
	t.Helper()
	return startGatehouse(t, openIDSite(changes...))
}

// openIDSite is people with an OpenID provider, changed by the pairs of old and new text.
func openIDSite(changes ...string) string {
	return peopleSite(append(changes,
		"password_grant\n", "password_grant\n\t\t"+turnOn+"\n",
		"scopes public trusted refresh_token offline_access orders.read", "scopes public trusted refresh_token offline_access orders.read "+openIDScopes,
		"type public\n\t\t\tscopes public trusted refresh_token", "type public\n\t\t\tscopes public trusted refresh_token "+openIDScopes,
	)...)
}

// openIDRequestOf returns the client's request with these scopes and further parameters: name, value, …
func openIDRequestOf(clientID, scopes string, more ...string) request {
	r := requestOf(clientID)
	r.scope, r.more = scopes, make(url.Values)
	for pair := range slices.Chunk(more, 2) {
		r.more.Set(pair[0], pair[1])
	}
	return r
}

// identity verifies the signature of an ID token with the published keys, and returns header and claims.
func (g *gatehouse) identity(t *testing.T, token string) (header, claims map[string]any) {
	t.Helper()
	payload, err := oidc.NewRemoteKeySet(t.Context(), g.url+"/oauth/jwks").VerifySignature(t.Context(), token)
	if err != nil {
		t.Fatalf("ID token %q: %v", token, err)
	}
	check(t, json.Unmarshal(payload, &claims))
	encoded, _, _ := strings.Cut(token, ".")
	text, err := oauth.DecodeBase64URL(nil, encoded)
	check(t, err)
	check(t, json.Unmarshal(text, &header))
	return header, claims
}

// told returns the userinfo response for a token.
func (g *gatehouse) told(t *testing.T, token string) map[string]any {
	t.Helper()
	status, _, body := g.get("/oauth/userinfo", token)
	var claims map[string]any
	if err := json.Unmarshal([]byte(body), &claims); err != nil || status != http.StatusOK {
		t.Fatalf("userinfo: %d %s", status, body)
	}
	return claims
}

// redeem exchanges the code of an answer.
func (b *browser) redeem(t *testing.T, p page, r request) tokens {
	t.Helper()
	return b.obtain(r.exchange(b.codeToClient(t, p, r)))
}

// addClient stores a client and returns its secret.
func (g *gatehouse) addClient(t *testing.T, c store.Client) string {
	t.Helper()
	_, secret, err := g.app().registry.Clients.AddClient(t.Context(), c)
	check(t, err)
	return secret.Reveal()
}
