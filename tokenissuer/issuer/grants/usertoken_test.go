package grants_test

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestM28TheTargetChangesBeforeTheTokenIsMade: the target changes after it was looked up.
func TestM28TheTargetChangesBeforeTheTokenIsMade(t *testing.T) {
	f := newFlow(t)
	admin, token := f.admin("ada", "trusted")
	f.store.meanwhile("AddFamily", func() { f.must(f.registry.People.SetRole(t.Context(), "u-grace", store.RoleMember)) })
	tokens, err := f.IssueForUser(t.Context(), admin, token, "u-grace", nil)
	wantReason(t, err, oauth.UserInactive, "user_changed")
	if !tokens.AccessToken.IsEmpty() {
		t.Error("a token comes with the error")
	}
}

// TestMAnOutageCreatesNothing: a failed look-up is an outage, never a refusal.
func TestMAnOutageCreatesNothing(t *testing.T) {
	for _, step := range []string{"User", "Client", "AddFamily"} {
		f := newFlow(t)
		admin, token := f.admin("ada", "trusted")
		f.store.fail(step, false)
		tokens, err := f.IssueForUser(t.Context(), admin, token, "u-grace", nil)
		if oauth.AsError(err).Code != oauth.TemporarilyUnavailable || !tokens.AccessToken.IsEmpty() {
			t.Errorf("%s: %v", step, err)
		}
	}
	f := newFlow(t)
	admin, token := f.admin("ada", "trusted")
	f.must(f.registry.Clients.DisableClient(t.Context(), "conf"))
	_, err := f.IssueForUser(t.Context(), admin, token, "u-grace", nil)
	tokentest.WantCode(t, err, oauth.InvalidToken)
}

// TestT132NothingIsCreatedAfterTheEnd: a token that an admin creates while all of the admin's access ends is not issued. It would otherwise
// outlive the end by months.
func TestT132NothingIsCreatedAfterTheEnd(t *testing.T) {
	f := newFlow(t)
	for name, end := range map[string]func(admin *store.User) error{
		"signed out everywhere": func(admin *store.User) error { return f.EndPerson(t.Context(), admin.ID) },
		"revoked":               func(admin *store.User) error { return f.registry.People.RevokeUser(t.Context(), admin.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			f.wait(2 * time.Second) // later than the earlier revocations
			admin, token := f.admin("ada", "trusted public")
			f.store.meanwhile("AddFamily", func() { f.must(end(admin)) })
			_, err := f.IssueForUser(t.Context(), admin, token, "u-grace", nil)
			wantReason(t, err, oauth.InvalidToken, "token_revoked")
		})
	}
}
