package caddymodule

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// What a token says, once its signature is good.

func TestG35ClaimsThatAreNoObject(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	good := f.claims(nil)
	inside := func(text string) string { return f.token(f.header(nil), strings.Replace(good, "{", "{"+text+",", 1)) }
	g.refuseAll(t, f, map[string]string{
		"no JSON":       f.token(f.header(nil), "claims"),
		"empty":         f.token(f.header(nil), ""),
		"array":         f.token(f.header(nil), "["+good+"]"),
		"null":          f.token(f.header(nil), "null"),
		"depth":         inside(`"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000)),
		"sub twice":     inside(`"sub":"admin"`),
		"scope twice":   inside(`"scope":"trusted"`),
		"exp twice":     inside(`"exp":9999999999`),
		"escaped twice": inside(`"\u0073ub":"admin"`),
		"EXP":           inside(`"EXP":9999999999`),
		"Sub":           inside(`"Sub":"admin"`),
		"long s":        inside(`"ſub":"admin"`),
		"SCOPE":         inside(`"SCOPE":"trusted"`),
		"mark":          f.token(f.header(nil), "\ufeff"+good),
		"invalid utf-8": f.token(f.header(nil), strings.Replace(good, "conf", "con\xff", 1)),
		"tail":          f.token(f.header(nil), good+"{}"),
		"lone half":     inside(`"x":"\ud800"`),
	})
}

// TestG36Expiry: exp absent, a string, negative, huge, or passed beyond the leeway → 401.
func TestG36Expiry(t *testing.T) {
	setClock(t)
	g := startBoth(t, site)
	f := g.forger()
	// The exact edge is the verifier's test.
	g.passed(t, g.request("GET", "/any/x", bearer(f.claiming(map[string]any{"exp": node.Clock().Unix() - 3}))))
	g.refuseAll(t, f, map[string]string{
		"6 s ago":  f.claiming(map[string]any{"exp": node.Clock().Unix() - 6}),
		"absent":   f.claiming(map[string]any{"exp": nil}),
		"string":   f.claiming(map[string]any{"exp": "9999999999"}),
		"float":    f.claiming(map[string]any{"exp": json.RawMessage("1.5e9")}),
		"fraction": f.claiming(map[string]any{"exp": float64(node.Clock().Unix()) + 100.5}),
		"negative": f.claiming(map[string]any{"exp": -1}),
		"1e999":    f.claiming(map[string]any{"exp": json.RawMessage("1e999")}),
		"2^63":     f.claiming(map[string]any{"exp": json.RawMessage("9223372036854775808")}),
		"2^64":     f.claiming(map[string]any{"exp": json.RawMessage("18446744073709551616")}),
		"null":     f.token(f.header(nil), strings.Replace(f.claims(map[string]any{"exp": 0}), `"exp":0`, `"exp":null`, 1)),
		"bool":     f.claiming(map[string]any{"exp": true}),
		"array":    f.claiming(map[string]any{"exp": []int64{node.Clock().Unix() + 100}}),
	})
	header, _ := g.refused(t, g.request("GET", "/any/x", bearer(f.claiming(map[string]any{"exp": node.Clock().Unix() - 60}))), 401)
	if got := parameters(t, header)["error_description"]; got != "The access token expired" {
		t.Errorf("description %q", got)
	}
}

// TestG37To40Claims: nbf or iat in the future, a life over five weeks, another iss or aud, sub, client_id or jti empty, numeric or with
// NUL → 401.
func TestG37To40Claims(t *testing.T) {
	setClock(t)
	g := startBoth(t, site)
	f := g.forger()
	now := node.Clock().Unix()
	tokens := map[string]string{
		// G37
		"nbf ahead":      f.claiming(map[string]any{"nbf": now + 60}),
		"nbf string":     f.claiming(map[string]any{"nbf": "0"}),
		"iat ahead":      f.claiming(map[string]any{"iat": now + 120, "exp": now + 600}),
		"iat absent":     f.claiming(map[string]any{"iat": nil}),
		"five weeks up":  f.claiming(map[string]any{"exp": now + 36*24*3600}),
		"born long ago":  f.claiming(map[string]any{"iat": now - 36*24*3600}),
		"lives for ages": f.claiming(map[string]any{"iat": 0, "exp": 253402300799}),
		// G38
		"iss other":    f.claiming(map[string]any{"iss": "https://evil.test"}),
		"iss slash":    f.claiming(map[string]any{"iss": f.issuer + "/"}),
		"iss case":     f.claiming(map[string]any{"iss": strings.Replace(f.issuer, "http", "HTTP", 1)}),
		"iss array":    f.claiming(map[string]any{"iss": []string{f.issuer}}),
		"iss absent":   f.claiming(map[string]any{"iss": nil}),
		"iss with NUL": f.claiming(map[string]any{"iss": f.issuer + "\x00"}),
		// G39
		"aud other":       f.claiming(map[string]any{"aud": "https://other.test"}),
		"aud absent":      f.claiming(map[string]any{"aud": nil}),
		"aud empty":       f.claiming(map[string]any{"aud": ""}),
		"aud no elements": f.claiming(map[string]any{"aud": []string{}}),
		"aud mixed":       f.claiming(map[string]any{"aud": []any{f.issuer, 1}}),
		"aud prefix":      f.claiming(map[string]any{"aud": f.issuer + "/x"}),
		"aud object":      f.claiming(map[string]any{"aud": map[string]any{f.issuer: true}}),
		"aud has empty":   f.claiming(map[string]any{"aud": []string{"", f.issuer}}),
	}
	for _, claim := range []string{"sub", "client_id", "jti"} { // G40
		tokens[claim+" absent"] = f.claiming(map[string]any{claim: nil})
		tokens[claim+" empty"] = f.claiming(map[string]any{claim: ""})
		tokens[claim+" number"] = f.claiming(map[string]any{claim: 1})
		tokens[claim+" NUL"] = f.claiming(map[string]any{claim: "conf\x00admin"})
		tokens[claim+" array"] = f.claiming(map[string]any{claim: []string{"conf"}})
	}
	g.refuseAll(t, f, tokens)
	g.passed(t, g.request("GET", "/any/x", bearer(f.claiming(map[string]any{"aud": []string{"https://other.test", f.issuer}}))))
	g.passed(t, g.request("GET", "/any/x", bearer(f.claiming(map[string]any{"nbf": now}))))
}

// TestG39AudienceOfARoute: aud of another route, absent, empty or of other types → 401; an array with ours → accepted.
func TestG39AudienceOfARoute(t *testing.T) {
	g := startBoth(t, siteWith("", gated("/own/*", "audience https://orders.test https://stock.test")+gated("/any/*")+
		`	handle {
		respond 404
	}`))
	f := g.forger()
	ours, theirs := f.good(), f.claiming(map[string]any{"aud": "https://stock.test"})
	g.passed(t, g.request("GET", "/any/x", bearer(ours)))
	g.refused(t, g.request("GET", "/own/x", bearer(ours)), 401) // although it is cached by now
	g.passed(t, g.request("GET", "/own/x", bearer(theirs)))
	g.refused(t, g.request("GET", "/any/x", bearer(theirs)), 401)
}

// TestG41ScopeOfARoute: scope public, a prefix, another case, an array or none where `trusted` is needed → 403.
func TestG41ScopeOfARoute(t *testing.T) {
	g := startBoth(t, site)
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
	g.passed(t, g.request("GET", "/mixed/acme/1", bearer(g.user("u-1", "acme", "", "public"))))
	for _, organisation := range []string{"", "Acme", "acme2", "acme ", "other"} {
		g.refused(t, g.request("GET", "/mixed/acme/1", bearer(g.user("u-1", organisation, "", "public"))), 403)
	}
}

// TestG42ServerTokenOnAUserRoute: a server token on a user route → 403.
func TestG42ServerTokenOnAUserRoute(t *testing.T) {
	g := startBoth(t, site)
	g.refused(t, g.request("GET", "/api/x", bearer(g.watched(g.token()))), 403)
	g.passed(t, g.request("GET", "/api/x", bearer(g.user("u-1", "acme", "member", "trusted"))))
}

func TestG43RevokedByAnyName(t *testing.T) {
	now := setClock(t)
	g := startBoth(t, site)
	names := []store.RevocationKind{
		store.RevokeToken, store.RevokeFamily, store.RevokeUser, store.RevokeClient, store.RevokeOrganisation,
	}
	n := 0
	try := func(kinds ...store.RevocationKind) {
		n++
		id := itoa(n)
		issue := func() string {
			return g.watched(g.issue(issuer.Grant{
				Type: oauth.AuthorizationCode, Client: &store.Client{ID: "client-" + id},
				User: &store.User{ID: "user-" + id, Organisation: "org-" + id}, Family: &store.TokenFamily{ID: "family-" + id}, Scopes: oauth.Scopes{"public"},
			}))
		}
		tok := issue()
		g.passed(t, g.request("GET", "/any/x", bearer(tok)))
		claims := g.claims(t, tok)
		for _, kind := range kinds {
			g.revoke(t, claims, kind)
		}
		header, _ := g.refused(t, g.request("GET", "/any/x", bearer(tok)), 401)
		if got := parameters(t, header)["error_description"]; got != "The access token was revoked" {
			t.Errorf("%v: %q", kinds, got)
		}
	}
	for i, first := range names {
		try(first)
		for _, second := range names[i+1:] {
			try(first, second)
			try(second, first)
		}
	}
	// What is revoked up to now leaves the tokens of tomorrow alone.
	old := g.user("u-9", "acme", "", "public")
	g.revoke(t, g.claims(t, old), store.RevokeUser)
	now.advance(2 * time.Second)
	g.refused(t, g.request("GET", "/any/x", bearer(old)), 401)
	g.passed(t, g.request("GET", "/any/x", bearer(g.user("u-9", "acme", "", "public"))))
	// A revoked user is no revoked client, though the names be equal.
	server := g.server("public")
	g.revoke(t, &token.AccessToken{Subject: "conf"}, store.RevokeUser)
	g.passed(t, g.request("GET", "/any/x", bearer(server)))
	g.revoke(t, g.claims(t, server), store.RevokeKey)
	g.refused(t, g.request("GET", "/any/x", bearer(server)), 401)
}

// TestG44CacheOutlivesNothing: a cached token that expires, is revoked or loses its key → refused at once.
func TestG44CacheOutlivesNothing(t *testing.T) {
	now := setClock(t)
	g := startBoth(t, site)
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
	// Revoked over the wire.
	status, _, body := g.do("POST", "/oauth/revoke", "token="+long+"&client_id=conf&client_secret="+confSecret, "Content-Type", "application/x-www-form-urlencoded")
	if status != 200 {
		t.Fatalf("revoke: %d %s", status, body)
	}
	g.refused(t, g.request("GET", "/any/x", bearer(long)), 401)
	// Revoked elsewhere: the store tells us within a second.
	elsewhere := g.server("public")
	g.passed(t, g.request("GET", "/any/x", bearer(elsewhere)))
	claims := g.claims(t, elsewhere)
	check(t, g.app().node.Store().Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: claims.ID, ExpiresAt: claims.ExpiresAt}))
	g.eventually("a revocation from elsewhere has arrived", func() bool {
		status, _, _ := g.raw(g.request("GET", "/any/x", bearer(elsewhere)))
		return status == 401
	})
	g.upstream.seen()
	// The key is gone.
	keyless := g.server("public")
	g.passed(t, g.request("GET", "/any/x", bearer(keyless)))
	check(t, g.app().node.Keys.Replace(nil, oauth.ES256))
	g.refused(t, g.request("GET", "/any/x", bearer(keyless)), 401)
}

// TestG45VerifiedOnceDecidedEveryTime: a token cached on a public route, then used on a trusted one → 403.
func TestG45VerifiedOnceDecidedEveryTime(t *testing.T) {
	g := startBoth(t, site)
	public, f := g.server("public"), g.forger()
	forged := g.watched(f.good()) // never seen before, where one that we issued is cached from birth
	for _, token := range []string{public, forged} {
		g.passed(t, g.request("GET", "/any/x", bearer(token)))
		g.refused(t, g.request("GET", "/api/x", bearer(token)), 403)
		g.refused(t, g.request("GET", "/mixed/orders/1", bearer(token)), 403)
		g.passed(t, g.request("GET", "/any/x", bearer(token)))
		g.passed(t, g.request("GET", "/mixed/pub/x", bearer(token)))
		g.refused(t, g.request("GET", "/api/x", bearer(token)), 403)
	}
}

// TestG46NoCollisionInTheCache: tokens equal in their first 4 KiB, or but for the signature → never confused.
func TestG46NoCollisionInTheCache(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	pad := strings.Repeat("p", 3600)
	first := f.token(f.header(nil), `{"aa":"`+pad+`",`+f.claims(map[string]any{"sub": "u-1"})[1:])
	second := f.token(f.header(nil), `{"aa":"`+pad+`",`+f.claims(map[string]any{"sub": "u-2"})[1:])
	if first[:4096] != second[:4096] {
		t.Fatal("the tokens differ too early")
	}
	for range 2 {
		g.passed(t, g.request("GET", "/any/x", bearer(first))).has(t, "X-Auth-Subject", "u-1")
		g.passed(t, g.request("GET", "/any/x", bearer(second))).has(t, "X-Auth-Subject", "u-2")
	}
	wrong := first[:len(first)-10] + "AAAAAAAAAA"
	g.refused(t, g.request("GET", "/any/x", bearer(wrong)), 401)
	g.passed(t, g.request("GET", "/any/x", bearer(first)))
}
