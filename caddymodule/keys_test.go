package caddymodule

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// kidOf returns the kid of a token.
func kidOf(t *testing.T, token string) string {
	t.Helper()
	header, err := base64.RawURLEncoding.DecodeString(strings.SplitN(token, ".", 2)[0])
	check(t, err)
	return member(t, string(header), "kid")
}

// issuedAt returns the iat of a token.
func issuedAt(t *testing.T, token string) time.Time {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.SplitN(token, ".", 3)[1])
	check(t, err)
	var claims struct{ IAT int64 }
	check(t, json.Unmarshal(payload, &claims))
	return time.Unix(claims.IAT, 0)
}

// keyViews returns the output of `caddy oauth keys list`, by kid.
func (g *gatehouse) keyViews() map[string]keyView {
	g.t.Helper()
	views := make(map[string]keyView)
	for _, k := range decoded[[]keyView](g.t, g.ok("keys", "list", "--json")) {
		views[k.ID] = k
	}
	return views
}

// TestK1TenRotationsUnderLoad: ten rotations under load → no verification fails; a key is published before it signs
// and kept for as long as its tokens live. Every new key is in the key set for ten minutes before it signs its first
// token, and every old one stays there.
func TestK1TenRotationsUnderLoad(t *testing.T) {
	clock := setClock(t)
	g := startGatehouse(t, strings.Replace(durableSite, "issuer http", "revocation {\n\t\t\tmax_staleness 3h\n\t\t}\n\t\tissuer http", 1))
	published := map[string]time.Time{kidOf(t, g.token()): {}}
	var mu sync.Mutex
	var tokens []string
	var callers sync.WaitGroup
	load, stop := context.WithCancel(t.Context())
	end := func() { stop(); callers.Wait() }
	defer end()
	for i := range 4 {
		callers.Go(func() {
			for round := i; load.Err() == nil; round++ {
				fresh := g.token()
				mu.Lock()
				tokens = append(tokens, fresh)
				older := tokens[(round*7919)%len(tokens)]
				mu.Unlock()
				if first, second := g.gate(fresh), g.gate(older); first != http.StatusOK || second != http.StatusOK {
					t.Errorf("the gate answers %d and %d", first, second)
				}
			}
		})
	}
	for range 10 {
		key := decoded[keyView](t, g.ok("keys", "rotate", "--json"))
		at := key.CreatedAt
		if key.State != keys.StatePublished || key.ActiveFrom.Sub(at) != keys.Lead || !strings.Contains(g.kids(), key.ID) {
			t.Fatalf("the new key %+v, published are %s", key, g.kids())
		}
		published[key.ID] = at
		clock.advance(keys.Lead - 30*time.Second)
		if kid := kidOf(t, g.token()); kid == key.ID {
			t.Fatalf("%s signs early", kid)
		}
		clock.advance(31 * time.Second)
		if kid := kidOf(t, g.token()); kid != key.ID {
			t.Fatalf("%s signs, and it is the turn of %s", kid, key.ID)
		}
		g.eventually("a caller has met the key", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.ContainsFunc(tokens, func(token string) bool { return kidOf(t, token) == key.ID })
		})
	}
	end()
	for _, token := range tokens {
		kid := kidOf(t, token)
		if since, known := published[kid]; !known || issuedAt(t, token).Add(time.Second).Before(since.Add(keys.Lead)) && !since.IsZero() {
			t.Fatalf("a token of %s is signed by %s, which is published since %s", issuedAt(t, token), kid, since)
		}
	}
	for kid := range published {
		if !strings.Contains(g.kids(), kid) {
			t.Errorf("%s is not published any more", kid)
		}
	}
}

// TestK26K31OpenIDAddsKeys: the reload that enables OpenID adds keys, and does not change access tokens. Each
// algorithm is rotated and revoked separately, and every report shows it.
func TestK26K31OpenIDAddsKeys(t *testing.T) {
	g := startGatehouse(t, durableSite)
	before := g.token()
	own := kidOf(t, before)
	if kids := g.signingKeys(); len(kids) != 1 || kids["ES256"] != own || len(g.keyViews()) != 1 {
		t.Fatalf("without openid %v sign of %+v", kids, g.keyViews())
	}
	openid := strings.Replace(durableSite, "issuer http", "openid\n\t\tissuer http", 1)
	g.reload(openid)
	kids := g.signingKeys()
	if len(kids) != 3 || kids["ES256"] != own || kidOf(t, g.token()) != own || g.gate(before) != 200 {
		t.Errorf("with openid %v sign, and %s access tokens", kids, kidOf(t, g.token()))
	}
	for algorithm, kid := range kids {
		if !strings.Contains(g.kids(), kid) || g.keyViews()[kid].Algorithm != algorithm || g.measured()[`gatehouse_signing_keys{algorithm="`+string(algorithm)+`"}`] != 1 {
			t.Errorf("the key %s of %s: %+v, published are %s", kid, algorithm, g.keyViews()[kid], g.kids())
		}
	}

	next := decoded[keyView](t, g.ok("keys", "rotate", "--algorithm", "RS256", "--now", "--json"))
	if next.Algorithm != "RS256" || next.State != keys.StateSigning {
		t.Errorf("rotated: %+v", next)
	}
	if out := g.ok("keys", "rotate"); !strings.Contains(out, "ES256") {
		t.Errorf("rotated without an algorithm:\n%s", out)
	}
	g.ok("keys", "revoke", kids["EdDSA"])
	after := g.signingKeys()
	if after["ES256"] != own || after["RS256"] != next.ID || after["EdDSA"] == kids["EdDSA"] || g.gate(before) != 200 {
		t.Errorf("%v, before %v", after, kids)
	}
	if out := g.ok("status"); !strings.Contains(out, "ES256 "+own+", EdDSA "+after["EdDSA"]+", RS256 "+next.ID) {
		t.Errorf("status:\n%s", out)
	}
	if _, err := g.run("", "keys", "rotate", "--algorithm", "PS256"); err == nil || !strings.Contains(err.Error(), "use ES256, RS256, EdDSA") {
		t.Errorf("an algorithm that is not signed with: %v", err)
	}

	g.reload(durableSite)
	if kids := g.signingKeys(); len(kids) != 1 || kids["ES256"] != own || !strings.Contains(g.kids(), next.ID) {
		t.Errorf("turned off again %v sign, published are %s", kids, g.kids())
	}
	if _, err := g.run("", "keys", "rotate", "--algorithm", "RS256"); err == nil || !strings.Contains(err.Error(), "use ES256") {
		t.Errorf("rotating an algorithm that is not signed with: %v", err)
	}
}

// signingKeys returns the signing keys in the output of `caddy oauth status`.
func (g *gatehouse) signingKeys() map[oauth.Algorithm]string {
	g.t.Helper()
	return toldStatus(g.t, g.ok("status", "--json")).Own.Signing
}

// behind changes the database of the running server directly, as another node does.
func (g *gatehouse) behind(statements ...string) {
	g.t.Helper()
	db, err := sql.Open("sqlite", g.database())
	check(g.t, err)
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			if _, err = db.Exec(statement); err == nil {
				break
			}
			if time.Now().After(deadline) { // the server writes at the same time
				g.t.Fatal(err)
			}
		}
	}
}

// TestK9RevokedKey: a signing key is revoked → tokens that it signed are refused at once, and another key signs. Package sqlstore looks for
// its private part in the files.
func TestK9RevokedKey(t *testing.T) {
	g := startGate(t, durableSite)
	old := []string{g.watched(g.token()), g.watched(g.token())}
	kid := kidOf(t, old[0])
	if g.gate(old[0]) != 200 {
		t.Fatal("a good token is refused")
	}
	g.upstream.seen()
	if out := g.ok("keys", "revoke", kid); out != "" {
		t.Errorf("it printed %q", out)
	}
	for _, token := range old { // one of them was verified before and is cached
		g.refused(t, g.request("GET", "/any/x", bearer(token)), http.StatusUnauthorized)
	}
	fresh := g.watched(g.token())
	if kidOf(t, fresh) == kid || g.gate(fresh) != 200 || strings.Contains(g.kids(), kid) {
		t.Errorf("a new token is signed by %s, published are %s", kidOf(t, fresh), g.kids())
	}
	if k := g.keyViews()[kid]; k.State != keys.StateRevoked || k.RevokedAt.IsZero() {
		t.Errorf("the key is %+v", k)
	}
	out := g.ok("keys", "list")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "KID") || !strings.Contains(lines[1], "revoked") || !strings.Contains(lines[2], "signing") {
		t.Errorf("it printed\n%s", out)
	}
	if logs := g.logs(); !strings.Contains(logs, "signing key revoked") || !strings.Contains(logs, kid) {
		t.Error("the audit log does not tell")
	}
	g.must(404, "POST", "/oauth/keys/revoke", `{"kid":"nobody"}`)
	g.must(400, "POST", "/oauth/keys/revoke", `{}`)
	g.must(400, "POST", "/oauth/keys/rotate", `{"later":true}`)
	g.stop()
	g.reload(durableSite)
	if g.gate(old[0]) != 401 || g.gate(fresh) != 200 {
		t.Error("a restart forgets the revocation")
	}
}
