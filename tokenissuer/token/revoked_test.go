package token

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestG43EveryKindOfRevocationAndEveryPair: a revocation by jti, family, user, client, organisation, key or time, alone and in pairs →
// 401, the strictest counts.
func TestG43EveryKindOfRevocationAndEveryPair(t *testing.T) {
	future := tokentest.Start.Add(24 * time.Hour)
	key := testkeys.Shared()[oauth.ES256]
	hits := map[string]store.Revocation{
		"jti": {Kind: store.RevokeToken, ID: "token-1"}, "family": {Kind: store.RevokeFamily, ID: "family-1"}, "user": {Kind: store.RevokeUser, ID: "user-1"},
		"client": {Kind: store.RevokeClient, ID: "client-1"}, "organisation": {Kind: store.RevokeOrganisation, ID: "org-1"}, "key": {Kind: store.RevokeKey, ID: key.ID},
		"user, issued until then":    {Kind: store.RevokeUser, ID: "user-1", IssuedUntil: tokentest.Start},
		"client, issued until later": {Kind: store.RevokeClient, ID: "client-1", IssuedUntil: tokentest.Start.Add(time.Second)},
	}
	misses := map[string]store.Revocation{
		"other jti": {Kind: store.RevokeToken, ID: "token-2"}, "kinds do not mix": {Kind: store.RevokeFamily, ID: "token-1"}, "user by client id": {Kind: store.RevokeUser, ID: "client-1"},
		"client by user id": {Kind: store.RevokeClient, ID: "user-1"}, "case": {Kind: store.RevokeUser, ID: "USER-1"}, "prefix": {Kind: store.RevokeToken, ID: "token-"}, "empty": {Kind: store.RevokeOrganisation},
		"user, issued before": {Kind: store.RevokeUser, ID: "user-1", IssuedUntil: tokentest.Start.Add(-time.Second)},
		"other key":           {Kind: store.RevokeKey, ID: testkeys.Shared()[oauth.EdDSA].ID},
	}
	check := func(name string, revoked bool, list ...store.Revocation) {
		t.Run(name, func(t *testing.T) {
			for _, before := range []bool{true, false} { // cached before it is revoked, or never seen
				g := newGate(t)
				token := g.good()
				if before {
					g.accepts(t, token)
				}
				for i := range list {
					list[i].ExpiresAt = future
					g.revocations.Add(list[i])
				}
				if revoked {
					g.refuses(t, token, "token_revoked")
					_, err := g.verifier.Verify(token, g.audiences)
					if oauth.AsError(err).Description != "The access token was revoked" {
						t.Errorf("the client reads %q", oauth.AsError(err).Description)
					}
				} else {
					g.accepts(t, token)
				}
			}
		})
	}
	for name, hit := range hits {
		check(name, true, hit)
		for other, second := range hits {
			check(name+" and "+other, true, hit, second)
		}
		for other, miss := range misses {
			check(name+" and not "+other, true, hit, miss)
			check("not "+other+" and "+name, true, miss, hit)
		}
	}
	for name, miss := range misses {
		check("not "+name, false, miss)
		for other, second := range misses {
			check("not "+name+", not "+other, false, miss, second)
		}
	}
	// Of two revocations for one name the wider one wins, whatever the order.
	narrow := store.Revocation{Kind: store.RevokeUser, ID: "user-1", IssuedUntil: tokentest.Start.Add(-time.Hour)}
	for other, wide := range map[string]store.Revocation{
		"a later second": {Kind: store.RevokeUser, ID: "user-1", IssuedUntil: tokentest.Start},
		"absolute":       {Kind: store.RevokeUser, ID: "user-1"},
	} {
		check("narrow, then "+other, true, narrow, wide)
		check(other+", then narrow", true, wide, narrow)
	}
}

func TestRevocationsOutliveTheTokensTheyHit(t *testing.T) {
	g := newGate(t)
	token := g.good()
	r := store.Revocation{Kind: store.RevokeToken, ID: "token-1", ExpiresAt: tokentest.Start.Add(time.Hour + store.RevocationMargin)}
	g.revocations.Add(r)
	for _, d := range []time.Duration{time.Hour, time.Hour + store.Leeway} {
		if left := g.revocations.Expire(tokentest.Start.Add(d)); left != 1 {
			t.Fatalf("%s after issue %d revocations are left while the token can be accepted", d, left)
		}
	}
	g.refuses(t, token, "token_revoked")
	if left := g.revocations.Expire(r.ExpiresAt.Add(2 * time.Second)); left != 0 {
		t.Errorf("%d revocations are left", left)
	}
}

func TestG79StaleRevocationsAnswerNothing(t *testing.T) {
	g := newGate(t)
	token := g.good()
	g.accepts(t, token)
	g.Set(tokentest.Start.Add(5 * time.Minute))
	g.accepts(t, token)
	g.Set(tokentest.Start.Add(5*time.Minute + time.Second))
	for _, v := range []*Verifier{g.verifier, g.another()} {
		tok, err := v.Verify(token, g.audiences)
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
		if tok != nil {
			t.Error("a token comes with the error")
		}
		if x := v.Explain(token, g.audiences); x.Accepted {
			t.Error("Explain accepts what Verify cannot answer")
		}
	}
	never := NewVerifier(tokentest.Issuer, g.keySet, NewRevocationSet(), 5*time.Minute, g.Now)
	_, err := never.Verify(token, g.audiences)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	empty := NewVerifier(tokentest.Issuer, new(keys.Set), g.revocations, 5*time.Minute, g.Now)
	_, err = empty.Verify(token, g.audiences)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

// TestF17ATimeInTheFutureIsNotFresh: otherwise, after a clock was set back, a dead feed would count as fresh until
// the clock has caught up.
func TestF17ATimeInTheFutureIsNotFresh(t *testing.T) {
	set := NewRevocationSet()
	set.MarkFresh(tokentest.Start)
	if age := set.Age(tokentest.Start.Add(time.Minute)); age != time.Minute {
		t.Errorf("a minute later it is %s old", age)
	}
	if age := set.Age(tokentest.Start.Add(-time.Hour)); age < 24*time.Hour {
		t.Errorf("an hour before it is %s old", age)
	}
}

// revocationOf revokes a token of the tests.
func revocationOf(id string) store.Revocation {
	return store.Revocation{Kind: store.RevokeToken, ID: id, ExpiresAt: tokentest.Start.Add(24 * time.Hour)}
}
