package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestReloadKeepsSignIns: sessions and refresh tokens depend on the master key and the store → a reload keeps both, also one that makes
// another node on the same store.
func TestReloadKeepsSignIns(t *testing.T) {
	g := startGatehouse(t, durableStaffed)
	access, refresh := g.staffTokens("ada@acme.example", adaPassword)
	session, cookie, err := g.app().issuer.Sessions.OpenSession(t.Context(), signin.SignedIn{User: mustUser(t, g, "u-ada")}, "a browser", "a form")
	check(t, err)
	for _, lines := range []string{"login 100/1m per account", "login off\n\t\t}\n\t\trevocation {\n\t\t\tmax_staleness 4m"} {
		before := g.app()
		g.reload(strings.Replace(durableStaffed, "login off", lines, 1))
		if g.app() == before {
			t.Fatal("the same app runs on")
		}
		if status := g.gate(access); status != http.StatusOK {
			t.Errorf("the access token: %d", status)
		}
		status, body := g.staffRefresh(refresh)
		if status != http.StatusOK {
			t.Errorf("the refresh token: %d %s", status, body)
		}
		refresh = member(t, body, "refresh_token")
		found, err := g.app().issuer.Sessions.Session(t.Context(), cookie)
		if err != nil || found == nil || found.Family.ID != session.Family.ID {
			t.Errorf("the session: %+v, %v", found, err)
		}
	}
}

func mustUser(t *testing.T, g *gatehouse, id string) *store.User {
	t.Helper()
	user, err := g.app().issuer.Families.Directory.User(t.Context(), id)
	check(t, err)
	return user
}
