package clients

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// AssertionType is the only supported client_assertion_type (RFC 7523 §2.2).
const AssertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

const (
	// skew is the tolerated difference between a client's clock and ours.
	skew = 60 * time.Second
	// maxAhead bounds how far in the future exp may be, because the jti is stored until then.
	maxAhead = 10 * time.Minute
	// maxID bounds a jti in bytes.
	maxID = 512
)

// Assertion is a JWT by which a client authenticates (RFC 7523 §3). It proves nothing before Verify.
type Assertion struct {
	// ID is the client that the assertion names in both iss and sub.
	ID string
	// JTI makes the assertion usable once, until Expires.
	JTI     string
	Expires time.Time

	signed *token.Signed
	claims clientClaims
}

// clientClaims are the claims as encoded. Other claims are ignored.
type clientClaims struct {
	Issuer   string                  `json:"iss"`
	Subject  string                  `json:"sub"`
	Audience jsontext.Value          `json:"aud"`
	Expires  *strictjson.NumericDate `json:"exp"`
	Begins   *strictjson.NumericDate `json:"nbf"`
	IssuedAt *strictjson.NumericDate `json:"iat"`
	JTI      string                  `json:"jti"`
}

// refused returns the invalid_client for an assertion. sentence may only describe what the client itself wrote.
func refused(reason, sentence string) *oauth.Error {
	return oauth.NewError(oauth.InvalidClient, "client_assertion_"+reason).WithDescription(sentence)
}

var (
	errMalformed = refused("malformed", "The client_assertion is no JWT of the expected form.")
	errType      = refused("typ_wrong", "The typ of the client_assertion is that of another kind of JWT.")
	errSubject   = refused("subject_wrong", "The iss and the sub of the client_assertion must both be the client_id.")
	errAudience  = refused("audience_wrong", "The aud of the client_assertion must be the issuer's identifier, as a string and not in an array.")
	errExpired   = refused("expired", "The client_assertion has expired, or has no exp.")
	errTooLong   = refused("lives_too_long", "The exp of the client_assertion is more than ten minutes ahead.")
	errEarly     = refused("from_future", "The client_assertion is not valid yet: compare the clocks.")
	errNoID      = refused("jti_missing", "The client_assertion needs a jti of at most 512 bytes.")
	// ErrUsed refuses an assertion whose jti was used before.
	ErrUsed = refused("used", "The client_assertion was used before: make a new one for each request.")
)

// clientTypes are the accepted values of typ in a client's assertion. "" means none (RFC 7523 §3, draft-ietf-oauth-rfc7523bis §4).
var clientTypes = []string{"", "jwt", "client-authentication+jwt"}

// ReadAssertion parses a client's assertion without verifying it. The error is an invalid_client.
func ReadAssertion(text oauth.Secret) (*Assertion, error) {
	signed, err := token.ReadSigned(text.Reveal())
	if err != nil {
		return nil, errMalformed.WithCause(err)
	}
	c := &Assertion{signed: signed}
	if err := signed.Claims(&c.claims); err != nil {
		return nil, errMalformed.WithCause(err)
	}
	switch {
	case !slices.Contains(clientTypes, signed.Type()):
		return nil, errType
	case c.claims.Subject == "" || c.claims.Issuer != c.claims.Subject || strings.ContainsRune(c.claims.Subject, 0):
		return nil, errSubject
	}
	c.ID, c.JTI = c.claims.Subject, c.claims.JTI
	if c.claims.Expires != nil {
		c.Expires = c.claims.Expires.Add(skew)
	}
	return c, nil
}

// Key returns the kid, which may be empty, and the alg of the key that the assertion names.
func (c *Assertion) Key() (kid string, algorithm oauth.Algorithm) { return c.signed.Key() }

// Check checks the claims: aud must be one of the audiences, and the times must be valid. It checks neither the signature nor whether the
// jti was used before. The error is an invalid_client.
func (c *Assertion) Check(audiences []string, now time.Time) error {
	switch claims := &c.claims; {
	// An array could also name another party, which could then use the assertion here.
	case !isOneOf(claims.Audience, audiences):
		return errAudience
	case claims.Expires == nil || !now.Before(c.Expires):
		return errExpired
	case claims.Expires.Sub(now) > maxAhead+skew:
		return errTooLong
	case claims.Begins != nil && claims.Begins.After(now.Add(skew)), claims.IssuedAt != nil && claims.IssuedAt.After(now.Add(skew)):
		return errEarly
	case c.JTI == "" || len(c.JTI) > maxID:
		return errNoID
	}
	return nil
}

// isOneOf reports whether a claim is a string in texts.
func isOneOf(claim jsontext.Value, texts []string) bool {
	if claim.Kind() != '"' {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, claim)
	return err == nil && slices.Contains(texts, string(text))
}

// Verify verifies the signature with a key of the client.
func (c *Assertion) Verify(key *keys.VerificationKey) error {
	if err := c.signed.Verify(key); err != nil {
		return oauth.NewError(oauth.InvalidClient, "client_assertion_signature_wrong").WithCause(err)
	}
	return nil
}
