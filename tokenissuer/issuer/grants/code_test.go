package grants_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestT62ACodeDoesNotComeBackWithItsClient: a client disabled after the code was issued → 401 invalid_client; enabled again → the code stays invalid.
func TestT62ACodeDoesNotComeBackWithItsClient(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters(""))
	f.must(f.registry.Clients.DisableClient(t.Context(), "conf"))
	_, err := f.redeem("conf", code)
	tokentest.WantCode(t, err, oauth.InvalidClient)
	f.must(f.registry.Clients.EnableClient(t.Context(), "conf"))
	_, err = f.redeem("conf", code)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
}

// TestT103VerifiersThatAreGuessedBesideEachOther: 16 wrong verifiers of one code at once → each counts, and the right one comes too late.
func TestT103VerifiersThatAreGuessedBesideEachOther(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters(""))
	errs := tokentest.Together(16, func(int) error {
		r := f.redemption("conf", code)
		r.Code.Verifier = oauth.NewSecret(strings.Repeat("a", 43))
		_, err := f.exchange(r)
		return err
	})
	if n := wins(t, errs, oauth.InvalidGrant); n != 0 {
		t.Errorf("%d guesses were right", n)
	}
	_, err := f.redeem("conf", code)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
}
