package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestReloadKeepsSignIns: sessions and refresh tokens depend on the master key and the store. A reload keeps both,
// and with a durable store so does a restart.
func TestReloadKeepsSignIns(t *testing.T) {
	other := func(caddyfile string) string {
		return strings.Replace(caddyfile, "login off", "login 100/1m per account", 1)
	}
	another := func(caddyfile string) string { // another node on the same store
		return strings.Replace(caddyfile, "limits {", "revocation {\n\t\t\tmax_staleness 4m\n\t\t}\n\t\tlimits {", 1)
	}
	for name, test := range map[string]struct {
		caddyfile string
		then      func(string) string
	}{
		"memory, other limits": {staffed, other},
		"sqlite, another node": {durableStaffed, another},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGatehouse(t, test.caddyfile)
			access, refresh := g.staffTokens("ada@acme.example", adaPassword)
			session, cookie, err := g.app().issuer.Sessions.OpenSession(t.Context(), signin.SignedIn{User: mustUser(t, g, "u-ada")}, "a browser", "a form")
			check(t, err)
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
			found, err := g.app().issuer.Sessions.Session(t.Context(), cookie)
			if err != nil || found == nil || found.Family.ID != session.Family.ID {
				t.Errorf("the session: %+v, %v", found, err)
			}
		})
	}
}

func mustUser(t *testing.T, g *gatehouse, id string) *store.User {
	t.Helper()
	user, err := g.app().issuer.Families.Directory.User(t.Context(), id)
	check(t, err)
	return user
}
