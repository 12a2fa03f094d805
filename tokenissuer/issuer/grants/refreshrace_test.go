package grants_test

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestT87WhoComesSecondGetsTheSameSuccessor: the second of two requests gets the same successor, although the token was the newest when it
// was checked. It is refused if the successor was used meanwhile or the family ended.
func TestT87WhoComesSecondGetsTheSameSuccessor(t *testing.T) {
	f := newFlow(t)
	ahead := func(token oauth.Secret) (next issuer.Tokens) {
		next, err := f.refresh("conf", token)
		f.must(err)
		return next
	}
	first := f.tokens("conf", "refresh_token")
	var winner issuer.Tokens
	f.store.meanwhile("RotateRefreshToken", func() { winner = ahead(first.RefreshToken) })
	if second := ahead(first.RefreshToken); second.RefreshToken.Reveal() != winner.RefreshToken.Reveal() {
		t.Error("two successors of one token")
	}
	f.store.meanwhile("RotateRefreshToken", func() { ahead(ahead(winner.RefreshToken).RefreshToken) })
	_, err := f.refresh("conf", winner.RefreshToken)
	wantReason(t, err, oauth.InvalidGrant, oauth.ErrRefreshReused.Reason)
	f.dead(winner)

	first = f.tokens("conf", "refresh_token")
	f.store.meanwhile("RotateRefreshToken", func() { f.must(f.EndFamilies(t.Context(), store.FamilyFilter{ID: first.Claims.FamilyID})) })
	_, err = f.refresh("conf", first.RefreshToken)
	wantReason(t, err, oauth.InvalidGrant, "refresh_token_revoked")
}

func TestT89RevocationRacesRedemption(t *testing.T) {
	f := newFlow(t)
	for range 100 {
		code := f.code("conf", parameters("refresh_token"))
		var tokens issuer.Tokens
		errs := tokentest.Together(2, func(i int) (err error) {
			if i == 0 {
				_, err = people.Accounts{Sessions: f.Server.Sessions}.RevokeApplication(t.Context(), f.user("ada"), "conf")
				return err
			}
			tokens, err = f.redeem("conf", code)
			return err
		})
		f.must(errs[0])
		if errs[1] == nil {
			f.dead(tokens)
			_, err := f.refresh("conf", tokens.RefreshToken)
			tokentest.WantCode(t, err, oauth.InvalidGrant)
		}
	}
}

func TestAFaultOfTheStoreUsesNoRefreshTokenUp(t *testing.T) {
	for _, step := range []string{"Family", "User", "RotateRefreshToken"} {
		t.Run(step, func(t *testing.T) {
			f := newFlow(t)
			first := f.tokens("conf", "refresh_token")
			if step != "RotateRefreshToken" {
				f.Remembered = token.NewFamilyCache() // otherwise the store is not read
			}
			f.store.fail(step, false)
			tokens, err := f.refresh("conf", first.RefreshToken)
			tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
			if !tokens.AccessToken.IsEmpty() || !tokens.RefreshToken.IsEmpty() {
				t.Error("tokens come with the error")
			}
			f.store.fail("", false)
			f.wait(time.Hour)
			next, err := f.refresh("conf", first.RefreshToken)
			if f.must(err); next.Repeated {
				t.Error("it had been used up")
			}
		})
	}
	t.Run("EndFamilies", func(t *testing.T) {
		f := newFlow(t)
		first := f.tokens("conf", "refresh_token")
		_, err := f.refresh("conf", first.RefreshToken)
		f.must(err)
		f.wait(time.Minute)
		f.store.fail("EndFamilies", false)
		_, err = f.refresh("conf", first.RefreshToken)
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
		f.store.fail("", false)
		_, err = f.refresh("conf", first.RefreshToken)
		wantReason(t, err, oauth.InvalidGrant, oauth.ErrRefreshReused.Reason)
	})
}

// TestT131WhoComesSecondFromElsewhere: a second use from another address is detected, although the token was the newest when it was
// checked.
func TestT131WhoComesSecondFromElsewhere(t *testing.T) {
	for name, sameAddress := range map[string]bool{"warned of": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			f.Families.Lifetimes.SameAddress = sameAddress
			use := func(token oauth.Secret, address string) (issuer.Tokens, error) {
				r := Request{GrantType: oauth.RefreshTokenGrant, Client: f.credentials("conf"), Refresh: RefreshParameters{Token: token, UserAgent: "okhttp/4.1"}}
				r.Client.Address = address
				return f.exchange(r)
			}
			first := f.tokens("conf", "refresh_token")
			var winner issuer.Tokens
			f.store.meanwhile("RotateRefreshToken", func() {
				var err error
				winner, err = use(first.RefreshToken, "192.0.2.1")
				f.must(err)
			})
			second, err := use(first.RefreshToken, "192.0.2.2")
			if winner.Repeated || winner.RepeatedFrom != "" {
				t.Errorf("the first: %t, from %q", winner.Repeated, winner.RepeatedFrom)
			}
			if sameAddress {
				wantReason(t, err, oauth.InvalidGrant, oauth.ErrRepeatedElsewhere.Reason)
				f.dead(winner)
				return
			}
			if f.must(err); !second.Repeated || second.RepeatedFrom != "another address" {
				t.Errorf("the second: %t, from %q", second.Repeated, second.RepeatedFrom)
			}
		})
	}
}
