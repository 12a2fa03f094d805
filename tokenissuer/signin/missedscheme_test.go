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
