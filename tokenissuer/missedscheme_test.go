package tokenissuer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT70AMissCostsAHashOfEveryScheme is told by what is asked: the list is read once a minute, and holds what is
// declared and what new hashes are.
func TestT70AMissCostsAHashOfEveryScheme(t *testing.T) {
	a := newAuthority(t)
	a.store.schemes = []string{"$2a$04", "$argon2id$v=19$m=64,t=1,p=1"}
	a.DeclaredSchemes = []string{"$2b$05", "$2a$04"}
	want := []string{"$2a$04", "$2b$05", passwords.CurrentScheme(), "$argon2id$v=19$m=64,t=1,p=1"}
	for range 3 {
		got, err := a.schemes.list(t.Context(), a.Issuer)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if a.store.schemesRead != 1 {
		t.Errorf("read %d times", a.store.schemesRead)
	}
	a.Add(time.Minute)
	a.store.fault = store.Unavailable(errors.New("down"))
	_, err := a.schemes.list(t.Context(), a.Issuer)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}
