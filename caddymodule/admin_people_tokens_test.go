package caddymodule

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestK7NoHashIsShown checks that no answer, log or file of Caddy's holds a password or its hash. A hash that is written out in the
// configuration occurs only there. One that is referred to does not even occur there.
func TestK7NoHashIsShown(t *testing.T) {
	t.Setenv("GATEHOUSE_TEST_HASH", adaHash)
	for name, test := range map[string]struct {
		caddyfile string
		inConfig  bool
	}{
		"written out": {durableStaffed, true},
		"referred to": {strings.Replace(durableStaffed, adaHash, "{env.GATEHOUSE_TEST_HASH}", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGatehouse(t, test.caddyfile)
			const second = "$2a$04$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
			shown := g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-bob","email":"bob@acme.example","organisation":"acme","password":"bobs-first-password"}`)
			shown += g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-carol","email":"carol@acme.example","organisation":"acme","password_hash":"`+second+`"}`)
			access, refresh := g.staffTokens("ada@acme.example", adaPassword)
			g.staffSignIn("bob@acme.example", "bobs-wrong-password")
			g.must(http.StatusNoContent, "POST", "/oauth/users/u-bob/password", `{"password":"bobs-second-password"}`)
			minted := g.must(http.StatusCreated, "POST", "/oauth/tokens", `{"client":"conf","user":"u-ada"}`)
			bob, err := g.app().node.Store().Users.User(t.Context(), "u-bob")
			check(t, err)
			for _, path := range []string{"/oauth/users", "/oauth/users/u-ada", "/oauth/users/u-bob", "/oauth/users/u-carol", "/oauth/organisations", "/oauth/clients", "/oauth/keys"} {
				shown += g.must(http.StatusOK, "GET", path, ``)
			}
			config := g.must(http.StatusOK, "GET", "/config/", ``)
			saved, err := os.ReadFile(caddy.ConfigAutosavePath)
			check(t, err)
			for _, secret := range []string{
				adaPassword, "bobs-first-password", "bobs-second-password", "bobs-wrong-password", second, bob.PasswordHash.Reveal(),
				access, refresh, member(t, minted, "access_token"),
			} {
				for where, text := range map[string]string{"an answer": shown, "the log": g.logs(), "the configuration": config, "the saved configuration": string(saved)} {
					if strings.Contains(text, secret) {
						t.Errorf("%s shows %s", where, secret)
					}
				}
			}
			if strings.Contains(shown+g.logs(), adaHash) {
				t.Error("the declared hash is shown")
			}
			if strings.Contains(config, adaHash) != test.inConfig || strings.Contains(string(saved), adaHash) != test.inConfig {
				t.Errorf("the configuration has the declared hash: %t", !test.inConfig)
			}
			if dump := storeDump(t, g); strings.Contains(dump, "bobs-") || strings.Contains(dump, refresh) || strings.Contains(dump, adaPassword) {
				t.Error("the store holds a credential")
			}
		})
	}
}

// storeDump returns every byte of the store's files.
func storeDump(t *testing.T, g *gatehouse) string {
	t.Helper()
	files, err := filepath.Glob(g.vars.Replace("DIR/state/*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the store has %d files, %v", len(files), err)
	}
	var dump strings.Builder
	for _, path := range files {
		content, err := os.ReadFile(path)
		check(t, err)
		dump.Write(content)
	}
	return dump.String()
}

// TestT68OneIDForAClientOrAUser: a client id equal to a user id, whichever comes first → the second is refused, also by the next
// configuration. Package grants has the declared, the removed and the issuer's own.
func TestT68OneIDForAClientOrAUser(t *testing.T) {
	g := startGatehouse(t, staffed)
	client := func(id string) string { return fmt.Sprintf(`{"id":%q,"name":"x"}`, id) }
	user := func(id string) string { return fmt.Sprintf(`{"id":%q,"email":"%s@acme.example"}`, id, id) }
	g.must(http.StatusCreated, "POST", "/oauth/clients", client("admin"))
	g.must(http.StatusCreated, "POST", "/oauth/users", user("member"))
	for _, id := range []string{"admin", "conf", "gatehouse"} {
		g.must(http.StatusConflict, "POST", "/oauth/users", user(id))
	}
	for _, id := range []string{"member", "u-ada", "gatehouse"} {
		g.must(http.StatusConflict, "POST", "/oauth/clients", client(id))
	}
	app := g.app()
	for declared, want := range map[string]string{
		strings.Replace(staffed, "user u-ada", "user admin", 1):     `user "admin": a client in the store has this id`,
		strings.Replace(staffed, "client conf", "client member", 1): `client "member": a user in the store has this id`,
	} {
		if err := g.tryReload(declared); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("declaring a taken id: %v, want %s", err, want)
		}
	}
	if g.app() != app {
		t.Error("another app is the running one")
	}
}

// TestG99MintForAUser: an operator mints a token for a user → it acts for that user; for an unknown, inactive or empty user → 400.
func TestG99MintForAUser(t *testing.T) {
	g := startGatehouse(t, staffed)
	minted := g.must(http.StatusCreated, "POST", "/oauth/tokens", `{"client":"conf","user":"u-ada","scope":"public trusted","lifetime":"15m"}`)
	if g.gate(member(t, minted, "access_token")) != http.StatusOK {
		t.Fatalf("the gate refuses %s", minted)
	}
	seen := g.upstream.one(t)
	for name, want := range map[string]string{"X-Auth-Subject": "u-ada", "X-Auth-Client": "conf", "X-Auth-Role": "admin", "X-Auth-Organisation": "acme"} {
		if got := seen.Header[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
	g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-bob","email":"bob@acme.example","organisation":"acme"}`)
	for body, want := range map[string]string{
		`{"client":"conf","user":""}`:                            `there is no user ""`,
		`{"client":"conf","user":"nobody"}`:                      `there is no user "nobody"`,
		`{"client":"conf","user":"u-bob"}`:                       "the user is not active, or has neither a password nor an account at a provider",
		`{"client":"conf","user":"u-ada","scope":"orders"}`:      "invalid, unknown, or malformed",
		`{"client":"conf","user":"u-ada","lifetime":"36d"}`:      "a token can live from 1s to 35d",
		`{"client":"conf","user":"u-ada","organisation":"acme"}`: "organisation",
	} {
		if answer := g.must(http.StatusBadRequest, "POST", "/oauth/tokens", body); !strings.Contains(member(t, answer, "error"), want) {
			t.Errorf("%s: %s, want %s", body, answer, want)
		}
	}
}

// TestG99AuditOfPeople checks that every change writes an audit line with its subject and its actor.
func TestG99AuditOfPeople(t *testing.T) {
	g := startGatehouse(t, staffed)
	g.must(http.StatusCreated, "POST", "/oauth/organisations", `{"id":"globex"}`)
	g.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-bob","email":"bob@globex.example","organisation":"globex","role":"member","password":"bobs-password"}`)
	g.must(http.StatusCreated, "POST", "/oauth/tokens", `{"client":"conf","user":"u-bob"}`)
	for _, change := range [][2]string{{"password", `{"password":"another-password"}`}, {"role", `{"role":"admin"}`}, {"disable", `{}`}, {"lock", `{}`}, {"enable", `{}`}} {
		g.must(http.StatusNoContent, "POST", "/oauth/users/u-bob/"+change[0], change[1])
	}
	g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"u-bob"}`)
	g.must(http.StatusNoContent, "DELETE", "/oauth/users/u-bob", ``)
	g.must(http.StatusNoContent, "DELETE", "/oauth/organisations/globex", ``)
	logs := g.logs()
	for _, want := range []string{
		`"msg":"organisation added","organisation":"globex","by":"operator"`,
		`"msg":"user added","subject":"u-bob","organisation":"globex","role":"member","by":"operator"`,
		`"msg":"token minted","client_id":"conf","subject":"u-bob","scope":"public","jti":"`,
		`"msg":"user password set","subject":"u-bob","by":"operator"`,
		`"msg":"user role set","subject":"u-bob","role":"admin","by":"operator"`,
		`"msg":"user disabled","subject":"u-bob","by":"operator"`,
		`"msg":"user locked","subject":"u-bob","by":"operator"`,
		`"msg":"user enabled","subject":"u-bob","by":"operator"`,
		`"msg":"tokens revoked","kind":"user","id":"u-bob","subject":"u-bob","by":"operator"`,
		`"msg":"user removed","subject":"u-bob","by":"operator"`,
		`"msg":"organisation removed","organisation":"globex","by":"operator"`,
	} {
		if strings.Count(logs, `"logger":"oauth.audit",`+want) != 1 {
			t.Errorf("there is not one line with %s", want)
		}
	}
}
