package tokenissuer

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json"
)

const (
	// Leeway is how far our own nodes' clocks may be apart.
	Leeway = 5 * time.Second
	// futureLeeway is how far in the future a token may claim to be issued.
	futureLeeway = 60 * time.Second
	// keysAge is how long ago the store was heard last when nobody can say any more that there is no key of some id.
	// The keys come with the revocations, about every second.
	keysAge = 5 * time.Second
)

// KeySource has the keys of one issuer.
type KeySource interface {
	// Find returns the key of that kid, at once. The error is an *Error: invalid_token with the reason key_unknown, or
	// temporarily_unavailable when nobody can say now.
	Find(kid string) (*VerificationKey, error)
	// Generation changes whenever the keys do.
	Generation() uint64
}

// Verifier turns a bearer string into an AccessToken of one issuer. Its verdict on signature and claims is cached;
// expiry, revocation and audience are asked every time.
type Verifier struct {
	issuer string
	keys   KeySource
	rules  tokenRules
	// revocations are of our own tokens; nil: another issuer's, who tells us of none.
	revocations  *RevocationSet
	maxStaleness time.Duration
	now          func() time.Time
	cache        *tokenCache
}

// tokenRules are what an issuer's tokens look like.
type tokenRules struct {
	leeway   time.Duration
	required func(p *payload, typ string) []string // the texts that may not be empty
	types    []string                              // in lower case; "" stands for none
	trusted  bool                                  // another issuer's
	undated  bool                                  // iat and exp may be missing: the issuer is asked again
}

// ownRules are those of what Issue makes.
var ownRules = tokenRules{leeway: Leeway, types: []string{tokenType}, required: func(p *payload, _ string) []string {
	return []string{p.Issuer, p.Subject, p.ClientID, p.ID}
}}

// NewVerifier returns a Verifier of the issuer's own tokens. When the revocations are older than maxStaleness nothing
// can be said about any token, and Verify fails with temporarily_unavailable.
func NewVerifier(issuer string, keys *KeySet, revocations *RevocationSet, maxStaleness time.Duration, now func() time.Time) *Verifier {
	return &Verifier{
		issuer: issuer, keys: keys, rules: ownRules, revocations: revocations, maxStaleness: maxStaleness, now: now,
		cache: newTokenCache(),
	}
}

// Verify returns the token if it is ours, meant for one of the audiences, alive and not revoked (RFC 9068 §4). The
// error is an *Error: invalid_token, or temporarily_unavailable when the question cannot be answered now. A token that
// was verified before costs a digest and a look-up, and no allocation.
func (v *Verifier) Verify(token string, audiences []string) (*AccessToken, error) {
	return v.verify(token, audience{wanted: audiences})
}

// VerifyForIssuer is Verify for a question of the issuer's own, where it does not matter for whom the token is meant:
// whether it lives, and to end it. A swapped one belongs to an upstream, which could end a client's sign-in with it.
func (v *Verifier) VerifyForIssuer(token string) (*AccessToken, error) {
	t, err := v.verify(token, audience{any: true})
	if err == nil && t.IsSwapped() {
		return nil, NewError(InvalidToken, "token_of_an_upstream")
	}
	return t, err
}

// Now is the time by the clock that tokens are judged by.
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
	return NewError(InvalidToken, "audience_wrong")
}

func (v *Verifier) verify(token string, audience audience) (*AccessToken, error) {
	if len(token) > MaxTokenBytes {
		return nil, NewError(InvalidToken, "token_too_long")
	}
	digest := digestOf(token)
	known, cached := v.cache.get(digest)
	if !cached {
		c := candidate{verifier: v, token: token, audience: audience}
		for _, step := range verification {
			if err := step.run(&c); err != nil {
				return nil, err
			}
		}
		known = &cachedToken{token: c.claims, key: c.key}
	}
	if err := v.alive(known, audience); err != nil {
		if cached && !known.token.ExpiresAt.Add(v.rules.leeway).After(v.now()) {
			v.cache.drop(digest)
		}
		return nil, err
	}
	if !cached {
		v.cache.put(digest, known)
	}
	return known.token, nil
}

// Remember puts a token that this process has just signed into the cache, so that its signature is never verified.
func (v *Verifier) Remember(token string, claims *AccessToken) {
	v.cache.put(digestOf(token), &cachedToken{token: claims})
}

// Remembered is how many tokens were verified and need no second look at their signature.
func (v *Verifier) Remembered() int { return v.cache.tokens.EstimatedSize() }

// Ready says why no token of ours can be judged now; nil: tokens can.
func (v *Verifier) Ready() error {
	if _, err := v.keys.Find(""); err != nil && AsError(err).Code == TemporarilyUnavailable {
		return err
	}
	return v.checkFresh(v.now())
}

// alive asks what may change after a token was verified: the audience of the route, expiry and revocation.
func (v *Verifier) alive(known *cachedToken, audience audience) error {
	now := v.now()
	if err := v.checkExpiry(known.token, now); err != nil {
		return err
	}
	if err := audience.check(known.token); err != nil {
		return err
	}
	if err := v.checkFresh(now); err != nil {
		return err
	}
	if v.rules.trusted {
		return v.checkKey(known) // whatever the generation: another issuer's keys also get too old to be taken
	}
	// The generations are read before the sets are asked: what comes in between is asked again next time.
	generation := v.Generation()
	if known.generation.Load() == generation {
		return nil
	}
	if err := v.checkRevoked(known.token); err != nil {
		return err
	}
	known.generation.Store(generation)
	return nil
}

// Generation changes whenever a token that was good may have become bad otherwise than with the time.
func (v *Verifier) Generation() uint64 {
	if v.revocations == nil {
		return v.keys.Generation()
	}
	return v.revocations.Generation() + v.keys.Generation()
}

// checkFresh asks whether anything can be said about revocation now.
func (v *Verifier) checkFresh(now time.Time) error {
	if v.revocations != nil && v.revocations.Age(now) > v.maxStaleness {
		return Unavailable("revocations_stale", nil)
	}
	return nil
}

// checkRevoked asks whether the token was revoked, or its key withdrawn.
func (v *Verifier) checkRevoked(t *AccessToken) error {
	if v.revocations != nil && v.revocations.Revoked(t) {
		return NewError(InvalidToken, "token_revoked").WithDescription("The access token was revoked")
	}
	_, err := v.keys.Find(t.KeyID)
	return err
}

func (v *Verifier) checkExpiry(t *AccessToken, now time.Time) error {
	return t.checkExpiry(now, v.rules.leeway)
}

func (t *AccessToken) checkExpiry(now time.Time, leeway time.Duration) error {
	if now.After(t.ExpiresAt.Add(leeway)) {
		return NewError(InvalidToken, "token_expired").WithDescription("The access token expired")
	}
	return nil
}

// checkBegun refuses a token from the future.
func (t *AccessToken) checkBegun(notBefore *int64, now time.Time, leeway time.Duration) error {
	if notBefore != nil && time.Unix(*notBefore, 0).After(now.Add(leeway)) || t.IssuedAt.After(now.Add(futureLeeway)) {
		return NewError(InvalidToken, "token_from_future")
	}
	return nil
}

// candidate is a token on its way through the verification.
type candidate struct {
	verifier *Verifier
	token    string
	audience audience

	jws     *jws
	key     *VerificationKey
	payload payload
	claims  *AccessToken
}

// step is one check; name and promise are for Explain.
type step struct {
	name    string
	promise string
	run     func(*candidate) error
}

// verification lists the checks in order. Everything cheap stands before the signature, so that a flood of bad tokens
// costs no cryptography; everything that reads a claim for a decision stands after the claims were read strictly.
var verification = []step{
	{"form", "three parts of canonical base64url, at most 8 KiB, with a strict JSON header", (*candidate).readForm},
	{"type", "typ is that of an access token (at+jwt), and the header holds nothing but alg, typ and kid", (*candidate).checkHeader},
	{"key", "kid names one of this issuer's keys, and alg is that key's", (*candidate).findKey},
	{"claims", "iss, sub, aud, client_id, iat, exp and jti are present and well formed", (*candidate).readClaims},
	{"issuer", "iss is this issuer", (*candidate).checkIssuer},
	{"audience", "aud holds an audience of this route", (*candidate).checkAudience},
	{"time", "the token is not expired, not from the future and not longer-lived than any we issue", (*candidate).checkTime},
	{"signature", "the signature was made by that key", (*candidate).checkSignature},
}

func (c *candidate) readForm() (err error) {
	c.jws, err = parseJWS(c.token)
	return err
}

// checkHeader holds the header to what the issuer writes (RFC 9068 §2.1, RFC 8725 §3.11). Our own header has three members;
// a key or a reference to one (jwk, jku, x5u, …) is refused unread.
func (c *candidate) checkHeader() error {
	rules := c.verifier.rules
	typ := c.jws.mediaType()
	if !slices.Contains(rules.types, typ) || len(c.jws.header.Others) > 0 && (typ == tokenType || !harmless(c.jws.header.Others)) {
		return NewError(InvalidToken, "header_unexpected")
	}
	return nil
}

func (c *candidate) findKey() (err error) {
	v := c.verifier
	c.key, err = v.keys.Find(c.jws.header.KeyID)
	if err != nil && v.revocations != nil && AsError(err).Code == InvalidToken && v.revocations.Age(v.now()) > keysAge {
		return Unavailable("keys_stale", err) // it may be one that another node signs with since
	}
	if err != nil {
		return err
	}
	return c.jws.checkAlgorithm(c.key)
}

func (c *candidate) readClaims() error {
	if len(c.jws.payload) == 0 || c.jws.payload[0] != '{' || tooDeep(c.jws.payload) {
		return NewError(InvalidToken, "claims_malformed")
	}
	if err := json.Unmarshal(c.jws.payload, &c.payload); err != nil {
		return NewError(InvalidToken, "claims_malformed").WithCause(err)
	}
	typ := c.jws.mediaType()
	if c.verifier.rules.trusted {
		if err := c.payload.translate(typ); err != nil {
			return err
		}
	}
	claims, err := c.verifier.tokenOf(&c.payload, c.key.ID, typ)
	c.claims = claims
	return err
}

func (c *candidate) checkIssuer() error {
	if c.claims.Issuer != c.verifier.issuer {
		return NewError(InvalidToken, "issuer_wrong")
	}
	return nil
}

func (c *candidate) checkAudience() error {
	return c.audience.check(c.claims)
}

func (c *candidate) checkTime() error {
	now := c.verifier.now()
	t := c.claims
	if err := c.verifier.checkExpiry(t, now); err != nil {
		return err
	}
	if err := t.checkBegun(c.payload.NotBefore, now, c.verifier.rules.leeway); err != nil {
		return err
	}
	if !c.verifier.rules.trusted && t.ExpiresAt.Sub(t.IssuedAt) > MaxLifetime {
		return NewError(InvalidToken, "lifetime_too_long")
	}
	return nil
}

func (c *candidate) checkSignature() error { return c.jws.verify(c.key) }

// maxUnixTime keeps times within what time.Time can add and subtract: the year 9999.
const maxUnixTime = 253402300799

// tokenOf builds the token from claims that nobody has judged yet. Texts that most tokens share are taken from the
// issuer, so that the cache holds them once.
func (v *Verifier) tokenOf(p *payload, kid, typ string) (*AccessToken, error) {
	malformed := NewError(InvalidToken, "claims_malformed")
	if slices.Contains(append(v.rules.required(p, typ), p.Issuer), "") {
		return nil, malformed
	}
	for _, text := range []string{p.Issuer, p.Subject, p.ClientID, p.ID} {
		if strings.ContainsRune(text, 0) {
			return nil, malformed
		}
	}
	if !v.rules.undated && (p.IssuedAt == nil || p.ExpiresAt == nil) {
		return nil, malformed
	}
	for _, at := range []*int64{p.IssuedAt, p.ExpiresAt, p.NotBefore, p.AuthTime} {
		if at != nil && (*at < 0 || *at > maxUnixTime) {
			return nil, malformed
		}
	}
	if len(p.Audience) == 0 || slices.Contains(p.Audience, "") {
		return nil, malformed
	}
	if !v.rules.trusted && (p.Organisation.array || p.Role.array) {
		return nil, malformed
	}
	scopes, err := ParseScopes(string(p.Scope))
	if err != nil {
		return nil, malformed
	}
	extra, err := extraClaims(p.Extra)
	if err != nil {
		return nil, malformed.WithCause(err)
	}
	t := &AccessToken{
		Issuer: p.Issuer, Subject: p.Subject, Audience: p.Audience, ClientID: p.ClientID, Scopes: scopes, ID: p.ID,
		IssuedAt: unixTime(p.IssuedAt), ExpiresAt: unixTime(p.ExpiresAt), AuthTime: unixTime(p.AuthTime), KeyID: kid,
		FamilyID: p.FamilyID, extra: extra,
	}
	t.setOrAdd("org", &t.Organisation, p.Organisation.values)
	t.setOrAdd("role", &t.Role, p.Role.values)
	if actors := p.Actor.chain(); len(actors) > 0 {
		t.Actor, t.earlierActors = actors[0], append(t.earlierActors, actors[1:]...) // none at all is nil
	}
	if t.Issuer == v.issuer {
		t.Issuer = v.issuer
	}
	if t.IsServerToken() {
		t.ClientID = t.Subject
	}
	for i, aud := range t.Audience {
		if aud == v.issuer {
			t.Audience[i] = v.issuer
		}
	}
	return t, nil
}

// unixTime is zero for a time that nobody has named.
func unixTime(at *int64) time.Time {
	if at == nil {
		return time.Time{}
	}
	return time.Unix(*at, 0)
}

// digestOf is the cache's key: the whole token, so that no two tokens share a verdict.
func digestOf(token string) [sha256.Size]byte {
	// Sum256 only reads, and a copy of the token would be the one allocation of a cached verdict.
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(token), len(token))) //nolint:gosec // see above
}
