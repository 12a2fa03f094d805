package token

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// tokenPool reuses buffers that are large enough for the longest token.
var tokenPool = sync.Pool{New: func() any { return &unverifiedToken{buffer: make([]byte, 0, MaxTokenBytes)} }}

// release returns t to the pool. The results of a verification do not refer to its buffer.
func (c *unverifiedToken) release() {
	*c = unverifiedToken{buffer: c.buffer}
	if c.buffer != nil {
		tokenPool.Put(c)
	}
}

// unverifiedToken is the token being verified, and what the checks have found so far.
type unverifiedToken struct {
	verifier *Verifier
	token    string
	audience audience
	admit    Admission // nil: admit all
	expired  bool      // expiry is not checked

	jws     *jws // nil before readForm, then &form
	form    jws
	buffer  []byte // memory for form
	key     *keys.VerificationKey
	payload payload
	claims  *AccessToken
}

// Allocated once, so that refusing a flood is cheap.
var (
	errTokenTooLong      = oauth.NewError(oauth.InvalidToken, "token_too_long")
	errTokenMalformed    = oauth.NewError(oauth.InvalidToken, "token_malformed")
	errMACWrong          = oauth.NewError(oauth.InvalidToken, "tag_wrong")
	errHeaderMalformed   = oauth.NewError(oauth.InvalidToken, "header_malformed")
	errHeaderExtension   = oauth.NewError(oauth.InvalidToken, "header_extension")
	errHeaderUnexpected  = oauth.NewError(oauth.InvalidToken, "header_unexpected")
	errAlgorithmMismatch = oauth.NewError(oauth.InvalidToken, "algorithm_mismatch")
	errClaimsMalformed   = oauth.NewError(oauth.InvalidToken, "claims_malformed")
	errIssuerWrong       = oauth.NewError(oauth.InvalidToken, "issuer_wrong")
	ErrAudienceWrong     = oauth.NewError(oauth.InvalidToken, "audience_wrong")
	ErrTokenExpired      = oauth.NewError(oauth.InvalidToken, "token_expired").WithDescription("The access token expired")
	errTokenFromFuture   = oauth.NewError(oauth.InvalidToken, "token_from_future")
	errLifetimeTooLong   = oauth.NewError(oauth.InvalidToken, "lifetime_too_long")
	errTokenOfAnUpstream = oauth.NewError(oauth.InvalidToken, "token_of_an_upstream")
	errSignatureWrong    = oauth.NewError(oauth.InvalidToken, "signature_wrong")
)

// step is one check. Explain reports its name and promise.
type step struct {
	name    string
	promise string
	run     func(*unverifiedToken) error
}

var stepForm = step{"form", "three parts of canonical base64url, at most 8 KiB, with a strict JSON header", (*unverifiedToken).readForm}

// verificationSteps lists the checks in order. Cheap checks precede the signature, so that a flood of bad tokens costs no
// cryptography. Checks that use claims follow readClaims, which parses them strictly.
var verificationSteps = []step{
	{"tag", "jti holds the tag that this issuer puts into what it signs", (*unverifiedToken).checkMAC},
	stepForm,
	{"type", "typ is that of an access token (at+jwt), and the header holds nothing but alg, typ and kid", (*unverifiedToken).checkHeader},
	{"key", "kid names one of this issuer's keys, and alg is that key's", (*unverifiedToken).findKey},
	{"claims", "iss, sub, aud, client_id, iat, exp and jti are present and well formed", (*unverifiedToken).readClaims},
	{"issuer", "iss is this issuer", (*unverifiedToken).checkIssuer},
	{"audience", "aud holds an audience of this route", (*unverifiedToken).checkAudience},
	{"time", "the token is not expired, not from the future and not longer-lived than any we issue", (*unverifiedToken).checkTime},
	{"signature", "the signature was made by that key", (*unverifiedToken).checkSignature},
}

// verify runs the checks up to the first that fails.
func (c *unverifiedToken) verify() (*AccessToken, error) {
	for _, step := range verificationSteps {
		if err := step.run(c); err != nil {
			return nil, err
		}
	}
	return c.claims, nil
}

// checkMAC refuses a token without our MAC in its jti, for the price of a digest. A token that passes is not trusted more
// for it.
func (c *unverifiedToken) checkMAC() error {
	macs := c.verifier.macs.Load()
	if macs == nil || strings.Count(c.token, ".") != 2 {
		return nil
	}
	if !macs.check(c.token) {
		return errMACWrong
	}
	return nil
}

func (c *unverifiedToken) readForm() error {
	if err := c.form.parse(c.token, c.buffer); err != nil {
		return err
	}
	c.jws = &c.form
	return nil
}

// checkHeader accepts only the header that the issuer writes (RFC 9068 §2.1, RFC 8725 §3.11). Ours has three members. It
// refuses embedded or referenced keys (jwk, jku, x5u, …) unread.
func (c *unverifiedToken) checkHeader() error {
	rules, others := c.verifier.rules, c.jws.header.Others
	typ := c.jws.header.media
	if !slices.Contains(rules.types, typ) || len(others) > 0 && (!rules.trusted || !harmless(others, typ)) {
		return errHeaderUnexpected
	}
	return nil
}

func (c *unverifiedToken) findKey() (err error) {
	v := c.verifier
	c.key, err = v.source.Find(c.jws.header.KeyID, oauth.Algorithm(c.jws.header.Algorithm))
	if err != nil && v.revocations != nil && oauth.AsError(err).Code == oauth.InvalidToken && v.revocations.Age(v.now()) > keysAge {
		return oauth.Unavailable("keys_stale", err) // another node may have just begun to use it
	}
	if err != nil {
		return err
	}
	return c.jws.checkAlgorithm(c.key)
}

func (c *unverifiedToken) readClaims() error {
	if err := readPart(c.jws.payload, &c.payload); err != nil {
		c.buffer = nil // the cause may refer to it
		return errClaimsMalformed.WithCause(err)
	}
	typ := c.jws.header.media
	if c.verifier.rules.assertion {
		if err := c.payload.checkAssertion(); err != nil {
			return err
		}
	} else if c.verifier.rules.trusted {
		if err := c.payload.translate(typ); err != nil {
			return err
		}
		if c.verifier.rules.clientAudience && typ != keys.AccessTokenType && c.payload.Audience == nil && c.payload.ClientID != "" {
			c.payload.Audience = strictjson.Texts{c.payload.ClientID}
		}
	}
	kid := c.key.ID
	if c.jws.header.KeyID == "" {
		kid = "" // recalls must look up the key by the same kid
	}
	claims, err := c.verifier.tokenOf(&c.payload, kid, typ)
	c.claims = claims
	return err
}

func (c *unverifiedToken) checkIssuer() error {
	if c.claims.Issuer != c.verifier.issuer {
		return errIssuerWrong
	}
	return nil
}

func (c *unverifiedToken) checkAudience() error {
	return c.audience.check(c.claims)
}

func (c *unverifiedToken) checkTime() error {
	now := c.verifier.now()
	t := c.claims
	if err := c.verifier.checkExpiry(t, now); err != nil && !c.expired {
		return err
	}
	if err := t.checkBegun(c.payload.NotBefore, now, c.verifier.rules.leeway); err != nil {
		return err
	}
	if !c.verifier.rules.trusted && t.ExpiresAt.Sub(t.IssuedAt) > store.MaxLifetime {
		return errLifetimeTooLong
	}
	return nil
}

// checkSignature calls admit first: this is by far the most expensive check.
func (c *unverifiedToken) checkSignature() error {
	if c.admit == nil {
		return c.jws.verify(c.key)
	}
	done, err := c.admit()
	if err != nil {
		return err
	}
	defer done()
	return c.jws.verify(c.key)
}

// maxUnixTime is the end of the year 9999: larger times overflow time.Time's arithmetic.
const maxUnixTime = 253402300799

// tokenOf builds the token from claims that are not verified yet. Strings that most tokens share are taken from the
// verifier, so that the cache stores them once.
func (v *Verifier) tokenOf(p *payload, kid, typ string) (*AccessToken, error) {
	if p.Issuer == "" || !v.rules.complete(p, typ) {
		return nil, errClaimsMalformed
	}
	for _, text := range [...]string{p.Issuer, p.Subject, p.ClientID, p.ID} {
		if strings.ContainsRune(text, 0) {
			return nil, errClaimsMalformed
		}
	}
	if p.ExpiresAt == nil || p.IssuedAt == nil && !v.rules.undated {
		return nil, errClaimsMalformed
	}
	for _, at := range [...]*int64{p.IssuedAt, p.ExpiresAt, p.NotBefore, p.AuthTime} {
		if at != nil && (*at < 0 || *at > maxUnixTime) {
			return nil, errClaimsMalformed
		}
	}
	if len(p.Audience) == 0 || slices.Contains(p.Audience, "") {
		return nil, errClaimsMalformed
	}
	if !v.rules.trusted && (p.Organisation.array || p.Role.array) {
		return nil, errClaimsMalformed
	}
	scopes, err := oauth.ParseScopes(string(p.Scope))
	if err != nil {
		return nil, errClaimsMalformed
	}
	t := &AccessToken{
		Issuer: p.Issuer, Subject: p.Subject, Audience: p.Audience, ClientID: p.ClientID, Scopes: scopes, ID: p.ID,
		IssuedAt: unixTime(p.IssuedAt), ExpiresAt: unixTime(p.ExpiresAt), KeyID: kid,
		SignIn: SignIn{FamilyID: p.FamilyID, AuthTime: unixTime(p.AuthTime)}, Actors: p.Actor.chain(),
	}
	if err := t.extra.read(p.Extra); err != nil {
		return nil, errClaimsMalformed.WithCause(err)
	}
	t.Organisation = t.extra.single("org", p.Organisation.values)
	t.Role = t.extra.single("role", p.Role.values)
	if v.rules.rolesClaim != "" {
		t.takeRoles(v.rules.rolesClaim)
	}
	if t.Issuer == v.issuer {
		t.Issuer = v.issuer
	}
	if t.Subject == t.ClientID {
		t.ClientID = t.Subject // once in memory
	}
	for i, aud := range t.Audience {
		if aud == v.issuer {
			t.Audience[i] = v.issuer
		}
	}
	return t, nil
}

// unixTime converts a time claim; nil becomes the zero time.
func unixTime(at *int64) time.Time {
	if at == nil {
		return time.Time{}
	}
	return time.Unix(*at, 0)
}
