package grants_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// skewed returns another node whose own clock is ahead of the shared one, or behind if ahead is negative.
func (f *flow) skewed(ahead time.Duration) node {
	f.tb.Helper()
	is := f.node()
	verifier := token.NewVerifier(tokentest.Issuer, is.Minter.Keys, is.Revocations, 5*time.Minute, func() time.Time { return f.clock().Add(ahead) })
	is.NodeNow, is.Minter.Verifier, is.IssuedTokens.Verifier = verifier.Now, verifier, verifier
	return node{registryOf(is, f.store.Store), is}
}

// TestF17RevokingReachesTheTokensOfANodeWithAnotherClock: revoking everything issued so far also revokes the tokens of a node whose clock
// is ahead.
func TestF17RevokingReachesTheTokensOfANodeWithAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{-90 * time.Second, -4 * time.Second, 0, 4 * time.Second, 90 * time.Second, time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			f := newFlow(t)
			other := f.skewed(ahead)
			server, err := other.MintServerToken(t.Context(), "conf", "public", 0)
			f.must(err)
			s, _, err := other.server.OpenSession(t.Context(), signin.SignedIn{User: f.user("ada"), AuthTime: other.server.Now()}, "a browser", "")
			f.must(err)
			user, err := sessionToken(other.server, s)
			f.must(err)
			f.alive(server)
			f.alive(user)
			f.must(f.Revoke(t.Context(), f.RevocationOf(store.RevokeClient, "conf"), f.RevocationOf(store.RevokeOrganisation, "acme")))
			f.dead(server)
			f.dead(user)
			if got := server.Claims; got.ExpiresAt.Sub(got.IssuedAt) != server.ExpiresIn || got.IssuedAt.After(tokentest.Start) {
				t.Errorf("issued at %s, until %s", got.IssuedAt, got.ExpiresAt)
			}
		})
	}
}

// TestG79G89AKeyThatAStaleNodeHasNotHeardOf: a node that has not read the store recently cannot say that a key does not exist, because
// another node may sign with it. A node that has refuses the token without reading the store.
func TestG79G89AKeyThatAStaleNodeHasNotHeardOf(t *testing.T) {
	f := newFlow(t)
	other := f.skewed(0)
	fresh, err := keys.NewSigningKey(oauth.EdDSA, f.clock())
	f.must(err)
	f.must(other.server.Minter.Keys.Replace([]*keys.SigningKey{fresh}, oauth.EdDSA))
	unheard, err := other.MintServerToken(t.Context(), "conf", "public", 0)
	f.must(err)
	known, err := f.minted().MintServerToken(t.Context(), "conf", "public", 0)
	f.must(err)
	verify := func(tokens issuer.Tokens) error {
		_, err := f.Minter.Verifier.Verify(tokens.AccessToken.Reveal(), f.Audience)
		return err
	}
	pass := f.time.Add // and the node learns nothing meanwhile
	f.store.asked()
	for _, d := range []time.Duration{0, 5 * time.Second} {
		pass(d)
		wantReason(t, verify(unheard), oauth.InvalidToken, "key_unknown")
	}
	pass(time.Second)
	wantReason(t, verify(unheard), oauth.TemporarilyUnavailable, "keys_stale")
	f.must(verify(known))
	if _, err := f.Minter.Verifier.Verify("garbage", f.Audience); oauth.AsError(err).Code != oauth.InvalidToken {
		t.Errorf("what is no token: %v", err)
	}
	f.wait(0)
	wantReason(t, verify(unheard), oauth.InvalidToken, "key_unknown")
	if steps := f.store.asked(); len(steps) > 0 {
		t.Errorf("the store was asked: %v", steps)
	}
	// A key withdrawn here is known to be invalid.
	f.must(f.Minter.Keys.Replace([]*keys.SigningKey{fresh}, oauth.EdDSA))
	pass(6 * time.Second)
	wantReason(t, verify(known), oauth.InvalidToken, "key_unknown")
	f.must(verify(unheard))
}
