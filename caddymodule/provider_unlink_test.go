package caddymodule

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// twoAccounts is a Gatehouse where grace has an account at each of two providers, and the browsers in which she signed in with them.
func twoAccounts(t *testing.T) (g *gatehouse, corp *lyingProvider, byCorp, byOther *browser) {
	t.Helper()
	corp, other := newLyingProvider(t), newLyingProvider(t)
	g = startProviders(t, atProvider("corp", corp, "create")+atProvider("other", other, "link verified_email"))
	grace := map[string]any{"sub": "7", "email": "new@acme.example", "email_verified": true, "name": "New"}
	corp.says(grace)
	other.says(grace)
	byCorp, byOther = g.browser(), g.browser()
	byCorp.signsInAt(t, "corp", corp)
	byOther.signsInAt(t, "other", other)
	return g, corp, byCorp, byOther
}

// TestP111UnlinkingEndsApplications that were allowed in sign-ins at that provider, their codes too, and those of other sign-ins go on.
func TestP111UnlinkingEndsApplications(t *testing.T) {
	g, _, byCorp, byOther := twoAccounts(t)
	first := requestOf("first")
	first.scope += " refresh_token"
	ended, lives := g.obtain(first.exchange(byCorp.codeToClient(t, byCorp.open(first.path()), first))), g.obtain(first.exchange(byOther.codeToClient(t, byOther.open(first.path()), first)))
	code := byCorp.codeToClient(t, byCorp.open(first.path()), first)
	if status, _, body := g.get("/api/x", ended.AccessToken); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	holdChanged(t, byOther.change("identity", "corp 7"), "/oauth/account?done=identity")
	if status, _, _ := g.get("/api/x", ended.AccessToken); status != http.StatusUnauthorized {
		t.Errorf("the application's access token: %d", status)
	}
	g.refused(first.refresh(ended.RefreshToken), http.StatusBadRequest, "invalid_grant")
	g.refused(first.exchange(code), http.StatusBadRequest, "invalid_grant")
	if p := byCorp.open("/oauth/account"); p.status != http.StatusSeeOther {
		t.Errorf("the sign-in lives: %d", p.status)
	}
	g.obtain(first.refresh(lives.RefreshToken))
	byOther.holdSignedInAs(t, "new@acme.example")
}

// TestP110ASignInBesideTheUnlink: the account was found to be the user's, and nothing has come of that yet.
func TestP110ASignInBesideTheUnlink(t *testing.T) {
	g, _, _, byOther := twoAccounts(t)
	identity, err := g.app().node.Store().UserByIdentity(t.Context(), "corp", "7")
	if err != nil {
		t.Fatal(err)
	}
	who := tokenissuer.SignedIn{User: mustUser(t, g, identity.UserID), Provider: "corp", Subject: "7"}
	holdChanged(t, byOther.change("identity", "corp 7"), "/oauth/account?done=identity")
	if _, _, err := g.app().issuer.OpenSession(t.Context(), who, "a browser", "a form"); oauth.AsError(err).Code != oauth.InvalidGrant {
		t.Errorf("a session: %v", err)
	}
}

// TestP112TheLastWayInIsLeft, though both are unlinked at the same moment.
func TestP112TheLastWayInIsLeft(t *testing.T) {
	g, _, byCorp, byOther := twoAccounts(t)
	var both sync.WaitGroup
	for b, id := range map[*browser]string{byCorp: "other 7", byOther: "corp 7"} {
		action, fields := formIn(t, b.open("/oauth/account"))
		fields.Set("identity", id)
		both.Go(func() { b.send(action, fields) })
	}
	both.Wait()
	corp, err := g.app().node.Store().UserByIdentity(t.Context(), "corp", "7")
	other, err2 := g.app().node.Store().UserByIdentity(t.Context(), "other", "7")
	if (err == nil) == (err2 == nil) {
		t.Errorf("left are %+v and %+v", corp, other)
	}
}

// TestP114AnotherPersonIsDeclaredByTheID, in one reload: the account leads nowhere, and its sign-in has ended.
func TestP114AnotherPersonIsDeclaredByTheID(t *testing.T) {
	corp := newLyingProvider(t)
	declared := []string{"store memory", "store memory\nsign_in {\n" + atProvider("corp", corp, "link verified_email") + "\n}", "\t\t\tpassword HASH\n", ""}
	g := startPeople(t, declared...)
	dora := g.browser()
	max := map[string]any{"sub": "1", "email": "max@acme.example", "email_verified": true}
	corp.says(max)
	dora.signsInAt(t, "corp", corp)
	dora.holdSignedInAs(t, "max@acme.example")

	g.reload(peopleSite(append(declared, "email max@acme.example", "email maximilian@acme.example")...))
	if p := dora.open("/oauth/account"); p.status != http.StatusSeeOther {
		t.Errorf("the sign-in of the person before lives: %d %.200s", p.status, p.body)
	}
	back := g.browser()
	back.holdBack(t, back.signsInAt(t, "corp", corp), "provider_refused", "")
	if !strings.Contains(g.logs(), `"reason":"user_unknown"`) {
		t.Error("the audit log does not say why")
	}
	corp.says(map[string]any{"sub": "2", "email": "maximilian@acme.example", "email_verified": true})
	next := g.browser()
	next.signsInAt(t, "corp", corp)
	next.holdSignedInAs(t, "maximilian@acme.example")
}
