package accesstoken

import (
	"crypto/sha256"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (

	// futureLeeway is how far in the future a token may claim to be issued.
	futureLeeway = 60 * time.Second
	// keysAge is how long ago the store was heard last when nobody can say any more that there is no key of some id.
	// The keys come with the revocations, about every second.
	keysAge = 5 * time.Second
)

// KeySource has the keys of one issuer.
type KeySource interface {
	// Find returns the key that a token means whose header has this kid, empty if it has none, and this alg. It answers at
	// once. The error is an *Error: invalid_token with the reason key_unknown, or temporarily_unavailable when nobody can
	// say now.
	Find(kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error)
	// Generation changes whenever the keys do.
	Generation() uint64
}

// Verifier turns a bearer string into an AccessToken of one issuer. Its verdict on signature and claims is cached;
// expiry, revocation and audience are asked every time.
type Verifier struct {
	issuer string
	source KeySource
	rules  tokenRules
	// revocations are of our own tokens; nil: another issuer's, who tells us of none.
	revocations  *RevocationSet
	maxStaleness time.Duration
	now          func() time.Time
	cache        *tokenCache
	// macs checks the MACs in the jti of our own tokens; nil: none are looked at.
	macs atomic.Pointer[JTIMAC]
}

// tokenRules are what an issuer's tokens look like.
type tokenRules struct {
	leeway   time.Duration
	complete func(p *payload, typ string) bool // whether the texts are there that may not be empty, beside iss
	types    []string                          // in lower case; "" stands for none
	trusted  bool                              // another issuer's
	undated  bool                              // iat and exp may be missing: the issuer is asked again
	// rolesClaim names the claim with the roles, or is a path to it; empty: role.
	rolesClaim string
	// clientAudience: a token without aud is meant for its client.
	clientAudience bool
}

// ownRules are those of what Issue makes.
var ownRules = tokenRules{leeway: store.Leeway, types: []string{keys.AccessTokenType}, complete: func(p *payload, _ string) bool {
	return p.Subject != "" && p.ClientID != "" && p.ID != ""
}}

// NewVerifier returns a Verifier of the issuer's own tokens. When the revocations are older than maxStaleness nothing
// can be said about any token, and Verify fails with temporarily_unavailable.
func NewVerifier(issuer string, keys *keys.Set, revocations *RevocationSet, maxStaleness time.Duration, now func() time.Time) *Verifier {
	return &Verifier{
		issuer: issuer, source: keys, rules: ownRules, revocations: revocations, maxStaleness: maxStaleness, now: now,
		cache: newTokenCache(),
	}
}

// UseJTIMAC has the MAC in a token's jti checked before anything else, as soon as every living token has one. Without a master key
// that is never so.
func (v *Verifier) UseJTIMAC(m *JTIMAC) { v.macs.Store(m) }

// Verify returns the token if it is ours, meant for one of the audiences, alive and not revoked (RFC 9068 §4). The
// error is an *Error: invalid_token, or temporarily_unavailable when the question cannot be answered now. A token that
// was verified before costs a digest and a look-up, and one that was also shown again since no allocation.
func (v *Verifier) Verify(token string, audiences []string) (*AccessToken, error) {
	return v.verify(token, audience{wanted: audiences}, nil)
}

// Recall is Verify for a token whose signature was verified before, and costs no allocation but the first time. Known is false, and the error
// nil, when nothing is known of the token.
func (v *Verifier) Recall(token string, audiences []string) (t *AccessToken, known bool, err error) {
	if checkParts(token) != nil {
		return nil, false, nil
	}
	return v.recall(oauth.DigestOf(token), audience{wanted: audiences})
}

// Admission is asked for leave to verify a signature, which is what a flood of forged tokens would cost. Its error is the
// verdict on the token. Done is told how the signature turned out.
type Admission func() (done func(good bool), err error)

// VerifyAdmitted is Verify that asks admit immediately before a signature has to be verified: never for a token that was
// verified before, nor for one that fails a cheaper check. Nil admits everything.
func (v *Verifier) VerifyAdmitted(token string, audiences []string, admit Admission) (*AccessToken, error) {
	return v.verify(token, audience{wanted: audiences}, admit)
}

// VerifyForIssuer is Verify for a question of the issuer's own, where it does not matter for whom the token is meant:
// whether it lives, and to end it. An exchanged one belongs to an upstream, which could end a client's sign-in with it.
func (v *Verifier) VerifyForIssuer(token string) (*AccessToken, error) {
	t, err := v.verify(token, audience{any: true}, nil)
	if err == nil && t.IsExchanged() {
		return nil, errTokenOfAnUpstream
	}
	return t, err
}

// ReadExpired returns what a token says whose only fault is its age. Nothing may be granted for it: it is for ending what
// belongs to it.
func (v *Verifier) ReadExpired(token string) (*AccessToken, error) {
	if err := checkParts(token); err != nil {
		return nil, err
	}
	c := candidates.Get().(*candidate) //nolint:forcetypeassert // New makes no other
	defer c.done()
	c.verifier, c.token, c.audience, c.expired = v, token, audience{any: true}, true
	t, err := c.verify()
	if err == nil && t.IsExchanged() {
		return nil, errTokenOfAnUpstream
	}
	return t, err
}

// Now returns the time by the clock that tokens are judged by.
func (v *Verifier) Now() time.Time { return v.now() }

// audience is for whom a token must be meant. The zero value is for nobody.
type audience struct {
	wanted []string
	any    bool
}

func (a audience) check(t *AccessToken) error {
	if a.any || t.HasAudience(a.wanted) {
		return nil
	}
	return errAudienceWrong
}

func (v *Verifier) verify(token string, audience audience, admit Admission) (*AccessToken, error) {
	if err := checkParts(token); err != nil {
		return nil, err
	}
	digest := oauth.DigestOf(token)
	if t, known, err := v.recall(digest, audience); known {
		return t, err
	}
	c := candidates.Get().(*candidate) //nolint:forcetypeassert // New makes no other
	defer c.done()
	c.verifier, c.token, c.audience, c.admit = v, token, audience, admit
	if _, err := c.verify(); err != nil {
		return nil, err
	}
	seenHeaders.add(token[:strings.IndexByte(token, '.')], c.jws.header)
	known := v.cache.packToken(c.claims, c.key)
	if err := v.alive(known, c.claims, audience); err != nil {
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
	if err := v.alive(cached, t, audience); err != nil {
		if !t.ExpiresAt.Add(v.rules.leeway).After(v.now()) {
			v.cache.drop(digest)
		}
		return nil, true, err
	}
	return t, true, nil
}

// Remember puts a token that this process has just signed into the cache, so that its signature is never verified.
func (v *Verifier) Remember(token string, claims *AccessToken) {
	v.cache.put(oauth.DigestOf(token), v.cache.packToken(claims, nil))
}

// Remembered returns how many tokens were verified and need no second look at their signature.
func (v *Verifier) Remembered() int { return v.cache.tokens.EstimatedSize() }

// Ready returns why no token can be judged now, or nil when tokens can.
func (v *Verifier) Ready() error {
	if _, err := v.source.Find("", ""); err != nil && oauth.AsError(err).Code == oauth.TemporarilyUnavailable {
		return err
	}
	return v.checkFresh(v.now())
}

// alive asks what may change after a token was verified: the audience of the route, expiry and revocation.
func (v *Verifier) alive(known *cachedToken, t *AccessToken, audience audience) error {
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
		return v.checkKey(known, t) // whatever the generation: another issuer's keys also get too old to be taken
	}
	// The generations are read before the sets are asked: what comes in between is asked again next time.
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

// Generation changes whenever a token that was good may have become bad otherwise than with the time.
func (v *Verifier) Generation() uint64 {
	if v.revocations == nil {
		return v.source.Generation()
	}
	return v.revocations.Generation() + v.source.Generation()
}

// checkFresh asks whether anything can be said about revocation now.
func (v *Verifier) checkFresh(now time.Time) error {
	if v.revocations != nil && v.revocations.Age(now) > v.maxStaleness {
		return oauth.Unavailable("revocations_stale", nil)
	}
	return nil
}

// checkRevoked asks whether the token was revoked, or its key withdrawn. Algorithm is the key's, if that is another
// issuer's.
func (v *Verifier) checkRevoked(t *AccessToken, algorithm oauth.Algorithm) error {
	if v.revocations != nil && v.revocations.Revoked(t) {
		return oauth.NewError(oauth.InvalidToken, "token_revoked").WithDescription("The access token was revoked")
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

// CheckEnd refuses a token whose life is over by its own word, without the leeway that a request is given. A token that says
// nothing of its end (RFC 7662 section 2.2 lets an issuer leave it out) has none.
func (t *AccessToken) CheckEnd(now time.Time) error {
	if t.endless {
		return nil
	}
	return t.checkExpiry(now, 0)
}

// checkBegun refuses a token from the future.
func (t *AccessToken) checkBegun(notBefore *int64, now time.Time, leeway time.Duration) error {
	if notBefore != nil && time.Unix(*notBefore, 0).After(now.Add(leeway)) || t.IssuedAt.After(now.Add(futureLeeway)) {
		return errTokenFromFuture
	}
	return nil
}
