package accesstoken

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// candidates are used again and again: each has room for the longest token.
var candidates = sync.Pool{New: func() any { return &candidate{buffer: make([]byte, 0, MaxTokenBytes)} }}

// done puts a candidate back of which nothing is of use any more. Nothing that a verification returns lies in it.
func (c *candidate) done() {
	*c = candidate{buffer: c.buffer}
	if c.buffer != nil {
		candidates.Put(c)
	}
}

// candidate is a token on its way through the verification.
type candidate struct {
	verifier *Verifier
	token    string
	audience audience
	admit    Admission // nil: everything is admitted
	expired  bool      // it may have expired
	hasMAC   bool      // the token says what one of ours says

	jws     *jws // nil, or form
	form    jws
	buffer  []byte // in which form is put
	key     *keys.VerificationKey
	payload payload
	claims  *AccessToken
}

// What floods are refused with is made once.
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
	errAudienceWrong     = oauth.NewError(oauth.InvalidToken, "audience_wrong")
	// ErrTokenExpired is the verdict on a token that is too old.
	ErrTokenExpired      = oauth.NewError(oauth.InvalidToken, "token_expired").WithDescription("The access token expired")
	errTokenFromFuture   = oauth.NewError(oauth.InvalidToken, "token_from_future")
	errLifetimeTooLong   = oauth.NewError(oauth.InvalidToken, "lifetime_too_long")
	errTokenOfAnUpstream = oauth.NewError(oauth.InvalidToken, "token_of_an_upstream")
	errSignatureWrong    = oauth.NewError(oauth.InvalidToken, "signature_wrong")
)

// step is one check; name and promise are for Explain.
type step struct {
	name    string
	promise string
	run     func(*candidate) error
}

var stepForm = step{"form", "three parts of canonical base64url, at most 8 KiB, with a strict JSON header", (*candidate).readForm}

// verification lists the checks in order. Everything cheap stands before the signature, so that a flood of bad tokens
// costs no cryptography; everything that reads a claim for a decision stands after the claims were read strictly.
var verification = []step{
	{"tag", "jti holds the tag that this issuer puts into what it signs", (*candidate).checkMAC},
	stepForm,
	{"type", "typ is that of an access token (at+jwt), and the header holds nothing but alg, typ and kid", (*candidate).checkHeader},
	{"key", "kid names one of this issuer's keys, and alg is that key's", (*candidate).findKey},
	{"claims", "iss, sub, aud, client_id, iat, exp and jti are present and well formed", (*candidate).readClaims},
	{"issuer", "iss is this issuer", (*candidate).checkIssuer},
	{"audience", "aud holds an audience of this route", (*candidate).checkAudience},
	{"time", "the token is not expired, not from the future and not longer-lived than any we issue", (*candidate).checkTime},
	{"signature", "the signature was made by that key", (*candidate).checkSignature},
}

// verify runs the checks, up to the first that fails.
func (c *candidate) verify() (*AccessToken, error) {
	for _, step := range verification {
		if err := step.run(c); err != nil {
			return nil, err
		}
	}
	return c.claims, nil
}

// checkMAC refuses a token without our MAC in its jti, at the price of a digest. What it lets pass is no better for it.
func (c *candidate) checkMAC() error {
	macs := c.verifier.macs.Load()
	if macs == nil || strings.Count(c.token, ".") != 2 {
		return nil
	}
	if c.hasMAC = macs.check(c.token); !c.hasMAC && macs.areRequired(c.verifier.now()) {
		return errMACWrong
	}
	return nil
}

func (c *candidate) readForm() error {
	if err := c.form.parse(c.token, c.buffer); err != nil {
		return err
	}
	c.jws = &c.form
	return nil
}

// checkHeader holds the header to what the issuer writes (RFC 9068 §2.1, RFC 8725 §3.11). Our own header has three members;
// a key or a reference to one (jwk, jku, x5u, …) is refused unread.
func (c *candidate) checkHeader() error {
	rules, others := c.verifier.rules, c.jws.header.Others
	typ := c.jws.header.media
	if !slices.Contains(rules.types, typ) || len(others) > 0 && (!rules.trusted || !harmless(others, typ)) {
		return errHeaderUnexpected
	}
	return nil
}

func (c *candidate) findKey() (err error) {
	v := c.verifier
	c.key, err = v.source.Find(c.jws.header.KeyID, oauth.Algorithm(c.jws.header.Algorithm))
	if err != nil && v.revocations != nil && oauth.AsError(err).Code == oauth.InvalidToken && v.revocations.Age(v.now()) > keysAge {
		return oauth.Unavailable("keys_stale", err) // it may be one that another node signs with since
	}
	if err != nil {
		return err
	}
	return c.jws.checkAlgorithm(c.key)
}

func (c *candidate) readClaims() error {
	if len(c.jws.payload) == 0 || c.jws.payload[0] != '{' || tooDeep(c.jws.payload) {
		return errClaimsMalformed
	}
	if err := json.Unmarshal(c.jws.payload, &c.payload); err != nil {
		c.buffer = nil // the cause may show what is in it
		return errClaimsMalformed.WithCause(err)
	}
	typ := c.jws.header.media
	if c.verifier.rules.trusted {
		if err := c.payload.translate(typ); err != nil {
			return err
		}
		if c.verifier.rules.clientAudience && typ != keys.AccessTokenType && c.payload.Audience == nil && c.payload.ClientID != "" {
			c.payload.Audience = stringList{c.payload.ClientID}
		}
	}
	kid := c.key.ID
	if c.jws.header.KeyID == "" {
		kid = "" // of a token that is shown again, the key is looked up as this one's was
	}
	claims, err := c.verifier.tokenOf(&c.payload, kid, typ)
	c.claims = claims
	return err
}

func (c *candidate) checkIssuer() error {
	if c.claims.Issuer != c.verifier.issuer {
		return errIssuerWrong
	}
	return nil
}

func (c *candidate) checkAudience() error {
	return c.audience.check(c.claims)
}

func (c *candidate) checkTime() error {
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

// checkSignature asks for leave before it verifies: nothing else here costs so much.
func (c *candidate) checkSignature() error {
	if c.admit == nil {
		return c.jws.verify(c.key)
	}
	done, err := c.admit()
	if err != nil {
		return err
	}
	good := false
	defer func() { done(good) }()
	err = c.jws.verify(c.key)
	good = err == nil
	return err
}

// maxUnixTime keeps times within what time.Time can add and subtract: the year 9999.
const maxUnixTime = 253402300799

// tokenOf builds the token from claims that nobody has judged yet. Texts that most tokens share are taken from the
// issuer, so that the cache holds them once.
func (v *Verifier) tokenOf(p *payload, kid, typ string) (*AccessToken, error) {
	if p.Issuer == "" || !v.rules.complete(p, typ) {
		return nil, errClaimsMalformed
	}
	for _, text := range [...]string{p.Issuer, p.Subject, p.ClientID, p.ID} {
		if strings.ContainsRune(text, 0) {
			return nil, errClaimsMalformed
		}
	}
	if !v.rules.undated && (p.IssuedAt == nil || p.ExpiresAt == nil) {
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
		IssuedAt: unixTime(p.IssuedAt), ExpiresAt: unixTime(p.ExpiresAt), AuthTime: unixTime(p.AuthTime), KeyID: kid,
		FamilyID: p.FamilyID,
	}
	if err := t.readExtra(p.Extra); err != nil {
		return nil, errClaimsMalformed.WithCause(err)
	}
	t.setOrAdd("org", &t.Organisation, p.Organisation.values)
	t.setOrAdd("role", &t.Role, p.Role.values)
	if v.rules.rolesClaim != "" {
		t.takeRoles(v.rules.rolesClaim)
	}
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
