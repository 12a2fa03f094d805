package token

import (
	"crypto/sha256"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (

	// futureLeeway is how far in the future iat may be.
	futureLeeway = 60 * time.Second
	// keysAge is the age of the revocations beyond which an unknown kid may belong to a new key. Keys arrive with the
	// revocations, about every second.
	keysAge = 5 * time.Second
)

// KeySource provides the keys of one issuer.
type KeySource interface {
	// Find returns the key for a token with this kid, empty if it has none, and this alg. It does not block. The error is
	// an *Error: invalid_token with the reason key_unknown, or temporarily_unavailable if the keys are currently unknown.
	Find(kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error)
	// Generation changes whenever the keys do.
	Generation() uint64
}

// Verifier verifies bearer tokens of one issuer. It caches the verdict on signature and claims, and checks expiry,
// revocation and audience every time. It is safe for concurrent use.
type Verifier struct {
	issuer string
	source KeySource
	rules  tokenRules
	// revocations covers our own tokens; nil for another issuer.
	revocations  *RevocationSet
	maxStaleness time.Duration
	now          func() time.Time
	cache        *tokenCache
	// macs checks the MACs in the jti of our own tokens; nil: MACs are not checked.
	macs atomic.Pointer[JTIMAC]
}

// tokenRules describe an issuer's tokens.
type tokenRules struct {
	leeway   time.Duration
	complete func(p *payload, typ string) bool // whether the required claims besides iss are present
	types    []string                          // in lower case; "" for a missing typ
	trusted  bool                              // another issuer
	undated  bool                              // iat may be missing: the response to an introspection
	// rolesClaim is the claim with the roles, or a path to it; empty: role.
	rolesClaim string
	// assertion: the tokens are assertions for a token endpoint, and none that a resource takes.
	assertion bool
	// clientAudience: a token without aud is meant for its client.
	clientAudience bool
}

// ownRules describe the tokens that we issue.
var ownRules = tokenRules{leeway: store.Leeway, types: []string{keys.AccessTokenType}, complete: func(p *payload, _ string) bool {
	return p.Subject != "" && p.ClientID != "" && p.ID != ""
}}

// NewVerifier returns a Verifier for the issuer's own tokens. If the revocations are older than maxStaleness, Verify
// fails with temporarily_unavailable.
func NewVerifier(issuer string, keys *keys.Set, revocations *RevocationSet, maxStaleness time.Duration, now func() time.Time) *Verifier {
	return &Verifier{
		issuer: issuer, source: keys, rules: ownRules, revocations: revocations, maxStaleness: maxStaleness, now: now,
		cache: newTokenCache(),
	}
}

// UseJTIMAC makes the verifier check the MAC in jti first.
func (v *Verifier) UseJTIMAC(m *JTIMAC) { v.macs.Store(m) }

// Verify returns the token if it is valid, meant for one of the audiences and not revoked (RFC 9068 §4). The error is an
// *Error: invalid_token, or temporarily_unavailable if that cannot be decided now. For a cached token it computes a
// digest and does not allocate, unless it has to unpack the token.
func (v *Verifier) Verify(token string, audiences []string) (*AccessToken, error) {
	return v.verify(token, audience{wanted: audiences}, nil)
}

// Recall is Verify for a token whose signature was verified before. It allocates only to unpack the token. It returns
// known false and a nil error for any other token.
func (v *Verifier) Recall(token string, audiences []string) (t *AccessToken, known bool, err error) {
	if checkParts(token) != nil {
		return nil, false, nil
	}
	return v.recall(oauth.DigestOf(token), audience{wanted: audiences})
}

// Admission is called before a signature is verified, which is what makes a flood of forged tokens expensive. Its error
// becomes the verdict. The caller calls done after the verification.
type Admission func() (done func(), err error)

// VerifyAdmitted is Verify, and calls admit immediately before it verifies a signature: not for a cached token, nor for
// one that fails a cheaper check. A nil admit admits all.
func (v *Verifier) VerifyAdmitted(token string, audiences []string, admit Admission) (*AccessToken, error) {
	return v.verify(token, audience{wanted: audiences}, admit)
}

// VerifyForIssuer is Verify for the issuer's own endpoints, such as introspection and revocation, where the audience does
// not matter. It refuses swapped tokens: they are of no use to an upstream but as what they are.
func (v *Verifier) VerifyForIssuer(token string) (*AccessToken, error) {
	t, err := v.verify(token, audience{any: true}, nil)
	if err == nil && t.IsSwapped() {
		return nil, errTokenOfAnUpstream
	}
	return t, err
}

// ReadExpired verifies a token, but accepts an expired one. Use it to end what belongs to the token, never to grant
// anything. It refuses exchanged tokens, to which nothing belongs.
func (v *Verifier) ReadExpired(token string) (*AccessToken, error) {
	if err := checkParts(token); err != nil {
		return nil, err
	}
	c := tokenPool.Get().(*unverifiedToken) // New makes no other
	defer c.release()
	c.verifier, c.token, c.audience, c.expired = v, token, audience{any: true}, true
	t, err := c.verify()
	if err == nil && t.IsExchanged() {
		return nil, errTokenOfAnUpstream
	}
	return t, err
}

// Now returns the time by the verifier's clock.
func (v *Verifier) Now() time.Time { return v.now() }

// audience is the set of accepted audiences. The zero value accepts none.
type audience struct {
	wanted []string
	any    bool
}

func (a audience) check(t *AccessToken) error {
	if a.any || t.HasAudience(a.wanted) {
		return nil
	}
	return ErrAudienceWrong
}

func (v *Verifier) verify(token string, audience audience, admit Admission) (*AccessToken, error) {
	if err := checkParts(token); err != nil {
		return nil, err
	}
	digest := oauth.DigestOf(token)
	if t, known, err := v.recall(digest, audience); known {
		return t, err
	}
	c := tokenPool.Get().(*unverifiedToken) // New makes no other
	defer c.release()
	c.verifier, c.token, c.audience, c.admit = v, token, audience, admit
	if _, err := c.verify(); err != nil {
		return nil, err
	}
	known := v.cache.packToken(c.claims, c.key)
	if err := v.checkCurrent(known, c.claims, audience); err != nil {
		return nil, err
	}
	v.cache.put(digest, known)
	return c.claims, nil
}

func (v *Verifier) recall(digest [sha256.Size]byte, audience audience) (t *AccessToken, known bool, err error) {
	cached, known := v.cache.get(digest)
	if !known {
		return nil, false, nil
	}
	t = v.cache.token(cached)
	if err := v.checkCurrent(cached, t, audience); err != nil {
		if !t.ExpiresAt.Add(v.rules.leeway).After(v.now()) {
			v.cache.drop(digest)
		}
		return nil, true, err
	}
	return t, true, nil
}

// Remember caches a token that this process has just signed, so that its signature is never verified.
func (v *Verifier) Remember(token string, claims *AccessToken) {
	v.cache.put(oauth.DigestOf(token), v.cache.packToken(claims, nil))
}

// Remembered returns the number of cached tokens.
func (v *Verifier) Remembered() int { return v.cache.tokens.Len() }

// Ready returns nil if tokens can be verified now, or else the reason.
func (v *Verifier) Ready() error {
	if _, err := v.source.Find("", ""); err != nil && oauth.AsError(err).Code == oauth.TemporarilyUnavailable {
		return err
	}
	return v.checkFresh(v.now())
}

// checkCurrent checks what may change after verification: the route's audience, expiry and revocation.
func (v *Verifier) checkCurrent(known *cachedToken, t *AccessToken, audience audience) error {
	now := v.now()
	if err := v.checkExpiry(t, now); err != nil {
		return err
	}
	if err := audience.check(t); err != nil {
		return err
	}
	if err := v.checkFresh(now); err != nil {
		return err
	}
	if v.rules.trusted {
		return v.checkKey(known, t) // at any generation, because another issuer's keys also become stale
	}
	// Read the generation before checking: a concurrent change is then checked next time.
	generation := v.Generation()
	if known.generation.Load() == generation {
		return nil
	}
	if err := v.checkRevoked(t, ""); err != nil {
		return err
	}
	known.generation.Store(generation)
	return nil
}

// Generation changes whenever a valid token may have become invalid for another reason than its expiry.
func (v *Verifier) Generation() uint64 {
	if v.revocations == nil {
		return v.source.Generation()
	}
	return v.revocations.Generation() + v.source.Generation()
}

// checkFresh returns an error if the revocations are too old.
func (v *Verifier) checkFresh(now time.Time) error {
	if v.revocations != nil && v.revocations.Age(now) > v.maxStaleness {
		return oauth.Unavailable("revocations_stale", nil)
	}
	return nil
}

// checkRevoked returns an error if the token or its key was revoked. Algorithm selects another issuer's key.
func (v *Verifier) checkRevoked(t *AccessToken, algorithm oauth.Algorithm) error {
	if v.revocations != nil && v.revocations.Revoked(t) {
		return errTokenRevoked
	}
	_, err := v.source.Find(t.KeyID, algorithm)
	return err
}

func (v *Verifier) checkExpiry(t *AccessToken, now time.Time) error {
	return t.checkExpiry(now, v.rules.leeway)
}

func (t *AccessToken) checkExpiry(now time.Time, leeway time.Duration) error {
	if now.After(t.ExpiresAt.Add(leeway)) {
		return ErrTokenExpired
	}
	return nil
}

// CheckEnd checks expiry without leeway.
func (t *AccessToken) CheckEnd(now time.Time) error {
	return t.checkExpiry(now, 0)
}

// checkBegun refuses a token that is not valid yet.
func (t *AccessToken) checkBegun(notBefore *int64, now time.Time, leeway time.Duration) error {
	if notBefore != nil && time.Unix(*notBefore, 0).After(now.Add(leeway)) || t.IssuedAt.After(now.Add(futureLeeway)) {
		return errTokenFromFuture
	}
	return nil
}
