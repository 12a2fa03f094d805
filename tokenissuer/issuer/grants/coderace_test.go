package grants_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const racers = 64

// TestT51WhoComesTooLateIsAReplay: a request that loses the race is a replay, although the code was unused when the request was checked.
func TestT51WhoComesTooLateIsAReplay(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters("refresh_token"))
	var winner issuer.Tokens
	f.store.meanwhile("RedeemCode", func() {
		var err error
		winner, err = f.redeem("conf", code)
		f.must(err)
	})
	_, err := f.redeem("conf", code)
	wantReason(t, err, oauth.InvalidGrant, oauth.ErrCodeReplayed.Reason)
	f.dead(winner)
	_, err = f.refresh("conf", winner.RefreshToken)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
}

// TestT51TheCodeEndsMeanwhile: a code that ended without being used is not a replay.
func TestT51TheCodeEndsMeanwhile(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters(""))
	f.store.meanwhile("RedeemCode", func() {
		f.ended(people.Accounts{Sessions: f.Server.Sessions}.RevokeApplication(t.Context(), f.user("ada"), "conf"))
	})
	_, err := f.redeem("conf", code)
	wantReason(t, err, oauth.InvalidGrant, "code_expired")
}

// TestT51RedemptionRacesTheRightAndAWrongClient: the right client and wrong ones race for a code → the right one alone gets tokens, and
// they live. The wrong one neither wins nor spoils it.
func TestT51RedemptionRacesTheRightAndAWrongClient(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters(""))
	tokens := make([]issuer.Tokens, racers)
	errs := tokentest.Together(racers, func(i int) (err error) {
		client := "other"
		if i == 0 {
			client = "conf"
		}
		tokens[i], err = f.redeem(client, code)
		return err
	})
	if wins(t, errs, oauth.InvalidGrant) != 1 || errs[0] != nil {
		t.Fatalf("%v", errs[0])
	}
	f.alive(tokens[0])
}

// TestT64AFaultOfTheStoreSpendsNothing: the store fails at any step of a grant → 503, no token, and the code is still good.
func TestT64AFaultOfTheStoreSpendsNothing(t *testing.T) {
	for _, step := range []string{"Family", "User", "RedeemCode"} {
		t.Run(step, func(t *testing.T) {
			f := newFlow(t)
			code := f.code("conf", parameters("refresh_token"))
			if step != "RedeemCode" {
				f.Remembered = token.NewFamilyCache() // otherwise the store is not read
			}
			f.store.fail(step, false)
			tokens, err := f.redeem("conf", code)
			tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
			if !tokens.AccessToken.IsEmpty() || !tokens.RefreshToken.IsEmpty() {
				t.Error("tokens come with the error")
			}
			f.store.fail("", false)
			tokens, err = f.redeem("conf", code)
			f.must(err)
			f.alive(tokens)
		})
	}
}

// TestT64NoKeySpendsNothing: a code used up while no key can sign could not be presented again.
func TestT64NoKeySpendsNothing(t *testing.T) {
	f := newFlow(t)
	first := f.tokens("conf", "refresh_token")
	code := f.code("conf", parameters(""))
	f.must(f.Minter.Keys.Replace(nil, oauth.EdDSA))
	_, err := f.redeem("conf", code)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	_, err = f.refresh("conf", first.RefreshToken)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	f.must(f.Minter.Keys.Replace([]*keys.SigningKey{flowKey()}, oauth.EdDSA))
	_, err = f.redeem("conf", code)
	f.must(err)
	again, err := f.refresh("conf", first.RefreshToken)
	f.must(err)
	if again.Repeated {
		t.Error("the refresh token had been used up")
	}
}

// TestT64AReplayThatCannotBeRecordedIsNoSuccess: the family may still be alive, so the client must retry.
func TestT64AReplayThatCannotBeRecordedIsNoSuccess(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters(""))
	tokens, err := f.redeem("conf", code)
	f.must(err)
	f.store.fail("EndFamilies", false)
	_, err = f.redeem("conf", code)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	f.alive(tokens)
	f.store.fail("", false)
	_, err = f.redeem("conf", code)
	wantReason(t, err, oauth.InvalidGrant, oauth.ErrCodeReplayed.Reason)
	f.dead(tokens)
	f.store.fail("CountCodeFailure", false)
	r := f.redemption("conf", f.code("conf", parameters("")))
	r.Code.Verifier = oauth.NewSecret(strings.Repeat("a", 43))
	_, err = f.exchange(r)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

// TestF12TheAnswerOfTheStoreIsLost: the step succeeded, but its response was lost. The code is used up, and the retry is a replay. A
// refresh token returns the same successor.
func TestF12TheAnswerOfTheStoreIsLost(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters("refresh_token"))
	f.store.fail("RedeemCode", true)
	_, err := f.redeem("conf", code)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	f.store.fail("", false)
	_, err = f.redeem("conf", code)
	wantReason(t, err, oauth.InvalidGrant, oauth.ErrCodeReplayed.Reason)

	first := f.tokens("conf", "refresh_token")
	f.store.fail("RotateRefreshToken", true)
	_, err = f.refresh("conf", first.RefreshToken)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	f.store.fail("", false)
	second, err := f.refresh("conf", first.RefreshToken)
	f.must(err)
	if !second.Repeated {
		t.Error("the repetition is not marked")
	}
	_, err = f.refresh("conf", second.RefreshToken)
	f.must(err)
}

// TestTM5TheMACDecidesWhatIsLookedUp: a code or refresh token with a wrong MAC → no look-up, so no timing. One that was issued, and is
// another client's, costs one question about its family.
func TestTM5TheMACDecidesWhatIsLookedUp(t *testing.T) {
	f := newFlow(t)
	code, tokens := f.code("conf", parameters("")), f.tokens("conf", "refresh_token")
	if _, err := f.refresh("other", tokens.RefreshToken); err == nil { // other is cached now
		t.Fatal("refreshed")
	}
	altered := func(s oauth.Secret) oauth.Secret { return oauth.NewSecret(otherLastDigit(s.Reveal())) }
	unknown := func(s oauth.Secret) oauth.Secret { return oauth.NewSecret("0000000000000000000000" + s.Reveal()[22:]) }
	for kind, c := range map[string]struct {
		use       func(client string, s oauth.Secret) (issuer.Tokens, error)
		own, none oauth.Secret
	}{
		"code":          {f.redeem, code, tokens.RefreshToken},
		"refresh token": {f.refresh, tokens.RefreshToken, code},
	} {
		for name, credential := range map[string]oauth.Secret{
			"of another client": c.own, "altered": altered(c.own), "unknown": unknown(c.own), "of another kind": c.none, "too short": oauth.NewSecret("x"),
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				f.store.asked()
				_, err := c.use("other", credential)
				tokentest.WantCode(t, err, oauth.InvalidGrant)
				if oauth.AsError(err).Description != oauth.NewError(oauth.InvalidGrant, "").Description {
					t.Error(oauth.AsError(err).Description)
				}
				var want []string
				if name == "of another client" {
					want = []string{"Family"}
				}
				if asked := f.store.asked(); !slices.Equal(asked, want) {
					t.Errorf("the store was asked for %v", asked)
				}
			})
		}
	}
	f.store.asked()
	_, err := f.redeem("conf", code)
	f.must(err)
	_, err = f.refresh("conf", tokens.RefreshToken)
	f.must(err)
	if asked := f.store.asked(); !slices.Equal(asked, []string{"RedeemCode", "RotateRefreshToken"}) {
		t.Errorf("for what is good the store was asked for %v", asked)
	}
}

// otherLastDigit returns text with another last digit.
func otherLastDigit(text string) string {
	last := len(text) - 1
	if text[last] == '0' {
		return text[:last] + "1"
	}
	return text[:last] + "0"
}

// TestT46ACallerThatHasGoneLosesNothing: the request is cancelled before the step, and is not done.
func TestT46ACallerThatHasGoneLosesNothing(t *testing.T) {
	f := newFlow(t)
	code := f.code("conf", parameters(""))
	gone := canceled()
	tokens, _, err := f.Exchange(gone, f.redemption("conf", code))
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	if !tokens.AccessToken.IsEmpty() {
		t.Error("tokens come with the error")
	}
	f.wait(time.Second)
	_, err = f.redeem("conf", code)
	f.must(err)
}
