package grants_test

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestT140ToT142M32GrantsOfAUserAreBounded: codes, decisions, sign-ins or members' tokens in a loop, each ended at once → so many a minute in
// each way, then rate_limited, and nothing is stored; another user goes on. A refused decision leaves the request undecided.
func TestT140ToT142M32GrantsOfAUserAreBounded(t *testing.T) {
	for name, get := range map[string]func(f *flow, s *signin.Session, user string, n int) error{
		"codes": func(f *flow, s *signin.Session, _ string, _ int) error {
			r := f.pending("first", parameters(""))
			_, err := f.Approve(f.tb.Context(), &r, f.client("first"), s, r.Scopes)
			return err
		},
		"decisions": func(f *flow, s *signin.Session, _ string, n int) error {
			r := f.pending("pub", parameters(""))
			if n%2 == 0 {
				if err := f.Deny(f.tb.Context(), &r, s); oauth.AsError(err).Reason != "denied_by_user" {
					return err
				}
				return nil
			}
			_, err := f.Approve(f.tb.Context(), &r, f.client("pub"), s, r.Scopes)
			if err != nil { // once there is room again, the same request can be decided
				limit := f.Families.Limits.GrantLimit
				f.Families.Limits.GrantLimit = attempts.Limit{}
				_, again := f.Approve(f.tb.Context(), &r, f.client("pub"), s, r.Scopes)
				f.must(again)
				f.Families.Limits.GrantLimit = limit
			}
			return err
		},
		"sessions": func(f *flow, _ *signin.Session, user string, _ int) error {
			_, _, err := f.OpenSession(f.tb.Context(), signin.SignedIn{User: f.user(user), AuthTime: f.clock()}, "a browser", "")
			return err
		},
		"passwords": func(f *flow, _ *signin.Session, user string, _ int) error {
			tokens, err := f.signInFor("conf", user+"@acme.example", userPassword)
			if err == nil {
				_, revoking := f.RevokeFor(f.tb.Context(), f.client("conf"), tokens.AccessToken)
				f.must(revoking)
			}
			return err
		},
		"members' tokens": func(f *flow, _ *signin.Session, user string, n int) error {
			tok := &token.AccessToken{Subject: "u-" + user, ClientID: []string{"conf", "other"}[n%2], Scopes: oauth.Scopes{oauth.ScopeTrusted}}
			for range 3 { // refusals do not count
				_, err := f.IssueForUser(f.tb.Context(), f.user(user), tok, "u-nobody", nil)
				tokentest.WantCode(f.tb, err, oauth.UserNotFound)
			}
			_, err := f.IssueForUser(f.tb.Context(), f.user(user), tok, []string{"u-grace", "u-bob"}[n%2], nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			ada, eve := f.session("ada"), f.session("eve")
			const most = 6
			f.Families.Limits.GrantLimit = attempts.Limit{Failures: most, Window: time.Minute}
			loop := func() {
				t.Helper()
				for n := range most {
					f.must(get(f, ada, "ada", n))
				}
				for n := range 4 {
					wantReason(t, get(f, ada, "ada", n), oauth.RateLimited, "mint_throttled")
				}
			}
			loop()
			f.must(get(f, eve, "eve", 1))
			f.wait(59 * time.Second)
			wantReason(t, get(f, ada, "ada", 1), oauth.RateLimited, "mint_throttled")
			f.wait(2 * time.Second)
			loop()
		})
	}
}

// recorded returns the number of revocations that the store has.
func (f *flow) recorded() int {
	f.tb.Helper()
	list, _, err := f.store.Revocations(f.tb.Context(), store.FeedPosition{})
	f.must(err)
	return len(list)
}

// TestT143EndedServerTokensLeaveABoundedNumberOfRecords: a client gets and revokes server tokens in a loop → always dead at once, with one record
// beyond the limit, which ends its earlier server tokens as well; tokens of others live.
func TestT143EndedServerTokensLeaveABoundedNumberOfRecords(t *testing.T) {
	f := newFlow(t)
	f.Families.Limits.RevocationLimit = attempts.Limit{Failures: 5, Window: time.Minute}
	mint := func(client string) issuer.Tokens {
		t.Helper()
		tokens, err := f.minted().MintServerToken(t.Context(), client, "public", 0)
		f.must(err)
		return tokens
	}
	end := func(n int) {
		t.Helper()
		for range n {
			tokens := mint("conf")
			_, err := f.RevokeFor(t.Context(), f.client("conf"), tokens.AccessToken)
			f.must(err)
			f.dead(tokens)
		}
	}
	other, user := mint("other"), f.tokens("conf", "")
	before, kept := f.recorded(), mint("conf")
	end(5)
	f.alive(kept)
	f.wait(2 * time.Second)
	end(20)
	if n := f.recorded() - before; n != 6 {
		t.Errorf("%d records", n)
	}
	f.dead(kept)
	f.alive(other)
	f.alive(user)
	if _, err := f.node().Minter.Verifier.Verify(kept.AccessToken.Reveal(), f.Audience); err == nil {
		t.Error("a node that starts accepts it")
	}
	f.wait(time.Second)
	f.alive(mint("conf"))
	f.wait(time.Minute)
	kept = mint("conf")
	end(1)
	f.alive(kept)
}

// TestT144EndedTokensOfBeforeARefreshLeaveABoundedNumberOfRecords: a refresh and the revocation of the old access token, in a loop → always
// dead, with at most 60 records of a user's, and one for each family. A refresh does not count as a grant, so a client that revokes after every
// refresh is otherwise unlimited.
func TestT144EndedTokensOfBeforeARefreshLeaveABoundedNumberOfRecords(t *testing.T) {
	f := newFlow(t)
	before := f.recorded()
	held := []issuer.Tokens{f.tokens("conf", "public refresh_token"), f.tokens("conf", "public refresh_token")}
	bystander := f.tokens("conf", "public refresh_token")
	for range 40 {
		for i, old := range held {
			next, err := f.refresh("conf", old.RefreshToken)
			f.must(err)
			_, err = f.RevokeFor(t.Context(), f.client("conf"), old.AccessToken)
			f.must(err)
			f.dead(old)
			f.alive(next)
			held[i] = next
		}
	}
	if n := f.recorded() - before; n != 62 {
		t.Errorf("%d records", n)
	}
	f.alive(bystander)
}
