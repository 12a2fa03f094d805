package tokenissuer

import (
	"errors"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestAUsernameIsAskedForOnce: what a user is called is remembered for a minute, what is not known is not.
func TestAUsernameIsAskedForOnce(t *testing.T) {
	a := newAuthority(t)
	a.Usernames = token.NewUsernameCache()
	want := func(id, name string) {
		t.Helper()
		if got, err := a.username(t.Context(), id); err != nil || got != name {
			t.Errorf("%s is called %q, %v", id, got, err)
		}
	}
	want("ada", "")
	a.directory.users = []*store.User{{ID: "ada", Email: "ada@acme.example"}}
	want("ada", "ada@acme.example")
	a.directory.fault = store.Unavailable(errors.New("the store is gone"))
	want("ada", "ada@acme.example")
	a.wait(token.UsernameCacheTTL)
	_, err := a.username(t.Context(), "ada")
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}
