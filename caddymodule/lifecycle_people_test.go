package caddymodule

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// logoFile writes a logo and returns its path.
func (g *gatehouse) logoFile() string {
	g.t.Helper()
	path := filepath.Join(g.t.TempDir(), "logo.svg")
	if err := os.WriteFile(path, []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// TestReloadKeepsSignIns: sessions and refresh tokens hang on the master key and the store, which a reload leaves alone,
// and with a durable store a restart too.
func TestReloadKeepsSignIns(t *testing.T) {
	other := func(caddyfile string) string {
		return strings.Replace(caddyfile, "login off", "login 100/1m per account", 1)
	}
	another := func(caddyfile string) string { // another engine on the same store
		return strings.Replace(caddyfile, "limits {", "revocation {\n\t\t\tmax_staleness 4m\n\t\t}\n\t\tlimits {", 1)
	}
	for name, test := range map[string]struct {
		caddyfile string
		then      func(string) string
	}{
		"memory, other limits":   {staffed, other},
		"sqlite, other limits":   {durableStaffed, other},
		"sqlite, another engine": {durableStaffed, another},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGatehouse(t, test.caddyfile)
			access, refresh := g.staffTokens("ada@acme.example", adaPassword)
			session, cookie, err := g.app().issuer.OpenSession(t.Context(), mustUser(t, g, "u-ada"), "a browser", "a form")
			if err != nil {
				t.Fatal(err)
			}
			before := g.app()
			g.reload(test.then(test.caddyfile))
			if g.app() == before {
				t.Fatal("the same app runs on")
			}
			if status := g.gate(access); status != http.StatusOK {
				t.Errorf("the access token: %d", status)
			}
			if status, body := g.staffRefresh(refresh); status != http.StatusOK {
				t.Errorf("the refresh token: %d %s", status, body)
			}
			found, err := g.app().issuer.Session(t.Context(), cookie)
			if err != nil || found == nil || found.Family.ID != session.Family.ID {
				t.Errorf("the session: %+v, %v", found, err)
			}
		})
	}
}

func mustUser(t *testing.T, g *gatehouse, id string) *store.User {
	t.Helper()
	user, err := g.app().issuer.Directory.User(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// TestMasterKeyThatCannotBeOpened: as with signing keys, a wrong key-encryption key starts nothing and replaces nothing.
func TestMasterKeyThatCannotBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oauth.db")
	open := func(kek string) error {
		sealer, err := keys.NewSealer("https://a.example", oauth.NewSecret(strings.Repeat(kek, 32)))
		if err != nil {
			t.Fatal(err)
		}
		e := newEngine(engineSettings{
			store: storeSQLite, path: path, issuer: "https://a.example", algorithm: oauth.ES256, sealer: sealer.ID, staleness: time.Minute,
		}, sealer)
		err = e.open()
		return errors.Join(err, e.Destruct())
	}
	if err := open("ab"); err != nil {
		t.Fatal(err)
	}
	if err := open("cd"); err == nil || !strings.Contains(err.Error(), "sealed under key-encryption key") {
		t.Errorf("with another key: %v", err)
	}
	if err := open("ab"); err != nil {
		t.Errorf("with the right key again: %v", err)
	}
}

// TestHousekeepingDropsFamilies: a family stays as long as an access token of it may live, and a day more for clocks that
// jump; then it goes, however many there are.
func TestHousekeepingDropsFamilies(t *testing.T) {
	const many = 2500 // more than a batch
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	e := newEngine(engineSettings{store: storeMemory, issuer: "https://a.example", algorithm: oauth.ES256, staleness: time.Minute}, nil)
	e.now = func() time.Time { return now }
	e.time = newSharedClock(e.now)
	t.Cleanup(func() { _ = e.Destruct() })
	if err := e.open(); err != nil {
		t.Fatal(err)
	}
	st := e.store
	expired := now.Add(-store.MaxLifetime - clockMargin)
	add := func(id string, expires time.Time) {
		f := &store.TokenFamily{ID: id, UserID: "u-ada", UserDeclared: true, ClientID: "conf", CreatedAt: expires, ExpiresAt: expires}
		if err := st.AddFamily(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	gone := make([]string, many)
	for i := range gone {
		gone[i] = oauth.NewID()
		add(gone[i], expired.Add(-time.Second))
	}
	add("kept", expired.Add(time.Second))
	e.expire(t.Context())
	if _, err := st.Family(t.Context(), "kept"); err != nil {
		t.Errorf("a family of which a token may live: %v", err)
	}
	for _, id := range gone {
		if _, err := st.Family(t.Context(), id); err == nil {
			t.Fatal("a family is left over")
		}
	}
}
