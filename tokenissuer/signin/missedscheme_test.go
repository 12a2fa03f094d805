package signin

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// schemeStore is a store that lists password schemes, counts the calls, and can fail.
type schemeStore struct {
	families.Store
	schemes []string
	read    int
	fault   error
}

func (s *schemeStore) PasswordSchemes(context.Context) ([]string, error) {
	s.read++
	return s.schemes, s.fault
}

// TestT70AMissCostsAHashOfEveryScheme checks the list of schemes: it is read once a minute, and includes the declared schemes and that of
// new hashes.
func TestT70AMissCostsAHashOfEveryScheme(t *testing.T) {
	clock, stored := tokentest.NewClock(), &schemeStore{schemes: []string{"$2a$04", "$argon2id$v=19$m=64,t=1,p=1"}}
	si := &SignIns{
		Families:        &families.Families{Opened: families.Opened{Store: stored}, Now: clock.Now},
		DeclaredSchemes: []string{"$2b$05", "$2a$04"},
	}
	want := []string{"$2a$04", "$2b$05", passwords.CurrentScheme(), "$argon2id$v=19$m=64,t=1,p=1"}
	for range 3 {
		got, err := si.schemes.list(t.Context(), si)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if stored.read != 1 {
		t.Errorf("read %d times", stored.read)
	}
	clock.Add(time.Minute)
	stored.fault = store.Unavailable(errors.New("down"))
	_, err := si.schemes.list(t.Context(), si)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

// TestDK25AFailedSignInCostsABoundedNumberOfHashes: people of many imported schemes → a failed sign-in pays for the four dearest and the current one.
func TestDK25AFailedSignInCostsABoundedNumberOfHashes(t *testing.T) {
	dear := []string{"$2a$13", "$devise$2a$14", "$pbkdf2-sha256$i=2000000", "$scrypt$ln=17,r=8,p=1"}
	stored := slices.Concat([]string{"$2a$04", "$2a$05", "$2b$06", "$argon2id$v=19$m=64,t=1,p=1", "$pbkdf2-sha512$i=1000", "$scrypt$ln=10,r=8,p=1"}, dear)
	si := &SignIns{Families: &families.Families{Opened: families.Opened{Store: &schemeStore{schemes: stored}}, Now: tokentest.NewClock().Now}}
	got, err := si.schemes.list(t.Context(), si)
	want := append(dear, passwords.CurrentScheme())
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
