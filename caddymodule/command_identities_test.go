package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestP108OperatorsSeeIdentities: `user show` of a user without password → identities with their last use.
func TestP108OperatorsSeeIdentities(t *testing.T) {
	g := startGatehouse(t, staffed)
	g.ok("user", "add", "--email", "bob@acme.example", "--org", "acme", "--role", "member", "--id", "u-bob")
	used := time.Now().UTC().Truncate(time.Second)
	for _, subject := range []string{"bob", "bob@corp.example"} {
		if err := g.app().node.Store().Identities.LinkIdentity(t.Context(), store.Identity{
			Provider: "corp", Subject: subject, UserID: "u-bob", LinkedAt: used.Add(-time.Hour), LastUsedAt: used,
		}); err != nil {
			t.Fatal(err)
		}
	}
	out := g.ok("user", "show", "u-bob")
	if printed(t, out, "state") != "active" || !strings.Contains(out, "corp as bob, corp as bob@corp.example") {
		t.Errorf("show printed\n%s", out)
	}
	shown := decoded[userView](t, g.ok("user", "show", "bob@acme.example", "--json"))
	if !shown.External || shown.HasPassword || len(shown.Identities) != 2 || shown.Identities[1].Subject != "bob@corp.example" ||
		shown.Identities[0].Provider != "corp" || !shown.Identities[0].LastUsedAt.Equal(used) || !shown.Identities[0].LinkedAt.Equal(used.Add(-time.Hour)) {
		t.Errorf("shown %+v", shown)
	}
	for _, u := range decoded[[]userView](t, g.must(http.StatusOK, "GET", "/oauth/users", "")) {
		if u.External != (u.ID == "u-bob") || len(u.Identities) != 0 {
			t.Errorf("listed %+v", u)
		}
	}
	if out := g.ok("user", "list"); !hasLine(out, []string{"u-bob", "bob@acme.example", "bob@acme.example", "acme", "member", "store", "active"}) {
		t.Errorf("list printed\n%s", out)
	}
}
