package caddymodule

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Claims of a token with a valid signature.

// TestG41ScopeOfARoute: scope public, a prefix, another case, an array or none where `trusted` is needed → 403.
func TestG41ScopeOfARoute(t *testing.T) {
	g := startGate(t, site)
	f := g.forger()
	for name, scope := range map[string]any{
		"public": "public", "longer": "trustedX public", "capitals": "TRUSTED", "array": []string{"trusted"}, "absent": nil, "empty": "",
		"comma": "public,trusted", "prefix": "trus", "object": map[string]any{"trusted": true}, "true": true,
	} {
		t.Run(name, func(t *testing.T) {
			token := g.watched(f.claiming(map[string]any{"scope": scope}))
			header, body := g.refused(t, g.request("GET", "/api/x", bearer(token)), 403)
			challenge := parameters(t, header)
			if challenge["error"] != "insufficient_scope" || challenge["scope"] != "trusted" || member(t, body, "error") != "insufficient_scope" {
				t.Errorf("challenge %v, body %s", challenge, body)
			}
			g.passed(t, g.request("GET", "/any/x", bearer(token)))
		})
	}
	g.refused(t, g.request("GET", "/api/x", bearer(f.claiming(map[string]any{"scope": "public\ttrusted"}))), 401)
	seen := g.passed(t, g.request("GET", "/api/x", bearer(f.claiming(map[string]any{"scope": "public trusted"}))))
	seen.has(t, "X-Auth-Scope", "public trusted")

	either := g.user("u-1", "", "", "orders.read")
	g.passed(t, g.request("GET", "/mixed/either/1", bearer(either)))
	g.passed(t, g.request("GET", "/mixed/orders/1", bearer(either)))
	header, _ := g.refused(t, g.request("GET", "/mixed/either/1", bearer(g.server("public"))), 403)
	if got := parameters(t, header)["scope"]; got != "trusted orders.read" {
		t.Errorf("scope=%q", got)
	}
	g.refused(t, g.request("GET", "/api/x", bearer(g.watched(g.token()))), 403) // G42: a server token
	g.passed(t, g.request("GET", "/mixed/acme/1", bearer(g.user("u-1", "acme", "", "public"))))
	for _, organisation := range []string{"", "Acme", "acme2", "acme ", "other"} {
		g.refused(t, g.request("GET", "/mixed/acme/1", bearer(g.user("u-1", organisation, "", "public"))), 403)
	}
}

// TestG43RevokedByAnyName revokes a token by each name through the issuer. Package accesstoken tests every pair.
func TestG43RevokedByAnyName(t *testing.T) {
	now := setClock(t)
	g := startGate(t, site)
	for _, kind := range []store.RevocationKind{store.RevokeToken, store.RevokeFamily, store.RevokeUser, store.RevokeClient, store.RevokeOrganisation} {
		id := string(kind)
		token := g.watched(g.issue(issuer.Grant{
			Type: oauth.AuthorizationCode, Client: &store.Client{ID: "client-" + id}, User: &store.User{ID: "user-" + id, Organisation: "org-" + id},
			Family: &store.TokenFamily{ID: "family-" + id}, Scopes: oauth.Scopes{"public"},
		}))
		g.passed(t, g.request("GET", "/any/x", bearer(token)))
		g.revoke(t, g.claims(t, token), kind)
		g.because(t, g.request("GET", "/any/x", bearer(token)), 401, "token_revoked")
	}
	// A revocation does not affect tokens issued later.
	old := g.user("u-9", "acme", "", "public")
	g.revoke(t, g.claims(t, old), store.RevokeUser)
	now.advance(2 * time.Second)
	g.refused(t, g.request("GET", "/any/x", bearer(old)), 401)
	g.passed(t, g.request("GET", "/any/x", bearer(g.user("u-9", "acme", "", "public"))))
	server := g.server("public")
	g.revoke(t, g.claims(t, server), store.RevokeKey)
	g.refused(t, g.request("GET", "/any/x", bearer(server)), 401)
}

// TestG44CacheOutlivesNothing: a cached token that expires, is revoked or loses its key → refused at once.
func TestG44CacheOutlivesNothing(t *testing.T) {
	now := setClock(t)
	g := startGate(t, site)
	short := g.watched(g.issue(issuer.Grant{Scopes: oauth.Scopes{"public"}, Lifetime: 20 * time.Second}))
	long := g.server("public")
	for _, token := range []string{short, long, short} {
		g.passed(t, g.request("GET", "/any/x", bearer(token)))
	}
	now.advance(27 * time.Second)
	header, _ := g.refused(t, g.request("GET", "/any/x", bearer(short)), 401)
	if got := parameters(t, header)["error_description"]; got != "The access token expired" {
		t.Errorf("%q", got)
	}
	g.passed(t, g.request("GET", "/any/x", bearer(long)))
	// Revocation at the revocation endpoint.
	status, _, body := g.do("POST", "/oauth/revoke", "token="+long+"&client_id=conf&client_secret="+confSecret, "Content-Type", "application/x-www-form-urlencoded")
	if status != 200 {
		t.Fatalf("revoke: %d %s", status, body)
	}
	g.refused(t, g.request("GET", "/any/x", bearer(long)), 401)
	// Revocation on another node. The store delivers it within a second.
	elsewhere := g.server("public")
	g.passed(t, g.request("GET", "/any/x", bearer(elsewhere)))
	claims := g.claims(t, elsewhere)
	check(t, g.app().node.Store().Revocations.Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: claims.ID, ExpiresAt: claims.ExpiresAt}))
	g.eventually("a revocation from elsewhere has arrived", func() bool {
		status, _, _ := g.raw(g.request("GET", "/any/x", bearer(elsewhere)))
		return status == 401
	})
	g.upstream.seen()
	// The key has been removed.
	keyless := g.server("public")
	g.passed(t, g.request("GET", "/any/x", bearer(keyless)))
	check(t, g.app().node.Keys.Replace(nil, oauth.ES256))
	g.refused(t, g.request("GET", "/any/x", bearer(keyless)), 401)
}

// TestG45VerifiedOnceDecidedEveryTime: a token cached on a public route, then used on a trusted one → 403.
func TestG45VerifiedOnceDecidedEveryTime(t *testing.T) {
	g := startGate(t, site)
	public, f := g.server("public"), g.forger()
	forged := g.watched(f.good()) // a forged one: tokens that we issue are cached from the start
	for _, token := range []string{public, forged} {
		g.passed(t, g.request("GET", "/any/x", bearer(token)))
		g.refused(t, g.request("GET", "/api/x", bearer(token)), 403)
		g.refused(t, g.request("GET", "/mixed/orders/1", bearer(token)), 403)
		g.passed(t, g.request("GET", "/any/x", bearer(token)))
		g.passed(t, g.request("GET", "/mixed/pub/x", bearer(token)))
		g.refused(t, g.request("GET", "/api/x", bearer(token)), 403)
	}
}
