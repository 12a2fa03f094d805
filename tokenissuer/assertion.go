package tokenissuer

import (
	"crypto/sha256"
	"encoding/base64"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// AssertionLifetime is how long an assertion is good: for one request on its way to one upstream.
	AssertionLifetime = time.Minute
)

// AssertionKeys sign what upstreams are told of requests. They are no signing keys of the store: every node derives the
// same ones from the master key and the number of the epoch, so they need no storage and rotate by themselves. The zero
// value is ready; it may be used by many goroutines.
type AssertionKeys struct{ known atomic.Pointer[assertionKeys] }

// assertionKeys are those of one epoch, never changed.
type assertionKeys struct {
	epoch                   int64
	previous, current, next *keys.SigningKey
	published               atomic.Pointer[preparedSet]
}

// preparedSet is the JWK Set of these keys and those of access tokens.
type preparedSet struct {
	generation uint64 // of the latter
	document   []byte
}

// AssertedRequest is the request that an assertion is good for.
type AssertedRequest struct {
	// Audience is the upstream.
	Audience string
	// Method and Target are the request's as the upstream gets it. Target is path and query as they stand in the request line.
	Method, Target string
}

// Assert tells an upstream, in a JWT that nobody else can make, who is calling. It is good for a minute, for that upstream
// and that request. It is temporarily_unavailable while the master key is not there.
func (u *UpstreamTokens) Assert(t *accesstoken.AccessToken, r AssertedRequest) (oauth.Secret, error) {
	now := u.now()
	keys, err := u.credentials.Assertions.at(now, u.credentials.Master)
	if err != nil {
		return oauth.Secret{}, err
	}
	now = now.Truncate(time.Second)
	told := &accesstoken.AccessToken{
		Issuer: u.url, Subject: t.Subject, Audience: []string{r.Audience}, ClientID: t.ClientID, Scopes: t.Scopes, ID: oauth.NewID(),
		IssuedAt: now, ExpiresAt: assertionEnd(t, now),
		FamilyID: t.FamilyID, Organisation: t.Organisation, Role: t.Role, AuthTime: t.AuthTime,
	}
	if t.Issuer == u.url { // those of others are no groups of ours, and may not fit
		told.WithGroups(t.Claim(accesstoken.ClaimGroups))
	}
	claims := accesstoken.NewUpstreamClaims(told)
	claims.List("org", t.Claim("org"))
	claims.List("role", t.Claim("role"))
	claims.Text("htm", r.Method)
	claims.Text("htp", targetHash(r.Target))
	claims.Text("token_iss", t.Issuer)
	claims.Text("token_jti", t.ID)
	claims.Actors(t.ActorChain())
	text, err := claims.JSON()
	if err != nil {
		return oauth.Secret{}, err
	}
	signed, err := keys.current.Sign(text)
	if err != nil {
		return oauth.Secret{}, oauth.AsError(err)
	}
	return oauth.NewSecret(signed), nil
}

// assertionEnd is a minute from now, and no later than the end of the token that the assertion tells of. One that is in the
// leeway of its end has the moment that the request needs.
func assertionEnd(t *accesstoken.AccessToken, now time.Time) time.Time {
	end := now.Add(AssertionLifetime)
	if own := t.ExpiresAt.Truncate(time.Second); !own.IsZero() && own.Before(end) {
		end = own
	}
	if least := now.Add(store.Leeway); end.Before(least) {
		return least
	}
	return end
}

// targetHash is the claim htp.
func targetHash(target string) string {
	digest := sha256.Sum256([]byte(target))
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// JWKS returns the public keys as a JWK Set (RFC 7517 §5): those of access tokens, and where assertions are made theirs.
// The next epoch's is there a whole epoch ahead, the one before stays for another.
func (c *Credentials) JWKS(now time.Time) ([]byte, error) {
	if c.Assertions == nil {
		return c.Keys.JWKS()
	}
	ks, err := c.Assertions.at(now, c.Master)
	if err != nil {
		return nil, err
	}
	if _, err := c.Keys.JWKS(); err != nil {
		return nil, err
	}
	generation := c.Keys.Generation() // before the keys, so that a change in between is seen next time
	if p := ks.published.Load(); p != nil && p.generation == generation {
		return p.document, nil
	}
	document, err := keys.MarshalJWKS(append(c.Keys.List(), ks.previous, ks.current, ks.next))
	if err != nil {
		return nil, err
	}
	ks.published.Store(&preparedSet{generation, document})
	return document, nil
}

// at returns those of a moment by the clock that all nodes share. Without a master key, and for a nil AssertionKeys, there are none.
func (k *AssertionKeys) at(now time.Time, master *keys.MasterKey) (*assertionKeys, error) {
	if master == nil || k == nil {
		return nil, oauth.Unavailable("keys_not_loaded", nil)
	}
	epoch := now.Unix() / int64(keys.AssertionEpoch/time.Second)
	if keys := k.known.Load(); keys != nil && keys.epoch == epoch {
		return keys, nil
	}
	ks := &assertionKeys{epoch: epoch}
	for i, key := range []**keys.SigningKey{&ks.previous, &ks.current, &ks.next} {
		var err error
		if *key, err = master.AssertionKey(epoch - 1 + int64(i)); err != nil {
			return nil, oauth.AsError(err)
		}
	}
	k.known.Store(ks)
	return ks, nil
}
