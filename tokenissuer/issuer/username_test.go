package issuer

import (
	"context"
	"errors"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// oneUser is a directory with at most one user. It can fail.
type oneUser struct {
	store.Directory
	user  *store.User
	fault error
}

func (d *oneUser) User(_ context.Context, id string) (*store.User, error) {
	switch {
	case d.fault != nil:
		return nil, d.fault
	case d.user == nil || d.user.ID != id:
		return nil, store.ErrNotFound
	}
	return d.user, nil
}

// TestAUsernameIsAskedForOnce: a username is cached for a minute. A failed look-up is not.
func TestAUsernameIsAskedForOnce(t *testing.T) {
	clock, directory := tokentest.NewClock(), new(oneUser)
	it := &IssuedTokens{
		Families:  &families.Families{Opened: families.Opened{Directory: directory}, Now: clock.Now},
		Usernames: token.NewUsernameCache(),
	}
	want := func(id, name string) {
		t.Helper()
		if got, err := it.username(t.Context(), id); err != nil || got != name {
			t.Errorf("%s is called %q, %v", id, got, err)
		}
	}
	want("ada", "")
	directory.user = &store.User{ID: "ada", Email: "ada@acme.example"}
	want("ada", "ada@acme.example")
	directory.fault = store.Unavailable(errors.New("the store is gone"))
	want("ada", "ada@acme.example")
	clock.Add(token.UsernameCacheTTL)
	_, err := it.username(t.Context(), "ada")
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}
