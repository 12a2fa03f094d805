package token

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// TrustedLeeway is the tolerated clock difference to other issuers.
const TrustedLeeway = 30 * time.Second

// Values of typ in access tokens. An issuer that does not follow RFC 9068 writes JWT or nothing; its tokens must show in
// another way that they are access tokens.
const (
	TypeAccessToken = keys.AccessTokenType // RFC 9068 §2.1
	TypeJWT         = "JWT"
	TypeNone        = "none" // in the configuration, for a missing typ
	// TypeJAG is that of an identity assertion authorization grant, which is no access token.
	TypeJAG = "oauth-id-jag+jwt"
)

// CheckTokenType returns an error for other values of typ.
func CheckTokenType(name string) error {
	switch name {
	case TypeAccessToken, TypeJWT, TypeNone:
		return nil
	}
	return fmt.Errorf("typ %q is not that of an access token: use %s, %s or %s", name, TypeAccessToken, TypeJWT, TypeNone)
}

// TrustedTokens describes the tokens of another issuer.
type TrustedTokens struct {
	// Issuer is its issuer identifier.
	Issuer string
	// Types are the accepted values of typ; default: at+jwt.
	Types []string
	// RolesClaim is the claim with a user's roles, or a path to it as in AccessToken.Claim; default: role.
	RolesClaim string
	// ClientAudience: a token without aud is meant for its client, unless it is at+jwt.
	ClientAudience bool
}

// NewTrustedVerifier returns a Verifier for another issuer's tokens.
func NewTrustedVerifier(tokens TrustedTokens, ks KeySource, now func() time.Time) *Verifier {
	rules := tokenRules{leeway: TrustedLeeway, trusted: true, rolesClaim: tokens.RolesClaim, clientAudience: tokens.ClientAudience, complete: func(p *payload, typ string) bool {
		if typ == keys.AccessTokenType {
			return ownRules.complete(p, typ) // RFC 9068 §2.2 requires the same of all issuers
		}
		return p.Subject != ""
	}}
	for _, name := range tokens.Types {
		rules.types = append(rules.types, strings.TrimPrefix(strings.ToLower(name), TypeNone))
	}
	if len(tokens.Types) == 0 {
		rules.types = []string{keys.AccessTokenType}
	}
	return &Verifier{issuer: tokens.Issuer, source: ks, rules: rules, now: now, cache: newTokenCache()}
}

// NewAssertionVerifier returns a Verifier for what another issuer has signed for a token endpoint (RFC 7523 §3). Types are the accepted
// values of typ.
func NewAssertionVerifier(issuer string, types []string, ks KeySource, now func() time.Time) *Verifier {
	v := NewTrustedVerifier(TrustedTokens{Issuer: issuer, Types: types}, ks, now)
	v.rules.assertion = true
	return v
}

// ClaimedIssuer returns the iss claim of a token, unverified; use it only to select the verifier. IsJWT is false for an
// opaque token. A text that looks like a JWT but is malformed has an empty issuer.
func ClaimedIssuer(token string) (issuer string, isJWT bool) {
	c := tokenPool.Get().(*unverifiedToken) // New makes no other
	defer c.release()
	if c.form.parse(token, c.buffer) != nil {
		return "", looksLikeJWT(token)
	}
	var claims struct { // other claims are parsed only to detect duplicate names
		Issuer string `json:"iss"`
	}
	if strictjson.Unmarshal(c.form.payload, &claims) != nil {
		return "", true
	}
	return claims.Issuer, true
}

// looksLikeJWT reports whether a token has three parts, the first of which begins like the base64url of a JSON object:
// "e", then "y" or "w" for a quote or white space after the brace. Opaque base64 tokens may begin so, but have no dots.
func looksLikeJWT(token string) bool {
	return (strings.HasPrefix(token, "ey") || strings.HasPrefix(token, "ew")) && strings.Count(token, ".") >= 2
}

// misleading lists header parameters, in lower case, that could select another key, another payload or another meaning:
// RFC 7515 §4.1, RFC 7516 §4.1, RFC 7518 §4, RFC 7519 §5.3 and RFC 7797 §3, and the nonce that Microsoft Graph replaces
// by its digest before it signs.
var misleading = map[string]bool{
	"alg": true, "kid": true, "typ": true, "jku": true, "jwk": true, "x5u": true, "x5c": true, "x5t": true, "x5t#s256": true,
	"cty": true, "crit": true, "b64": true, "enc": true, "zip": true, "epk": true, "apu": true, "apv": true, "iv": true, "tag": true,
	"p2s": true, "p2c": true, "iss": true, "sub": true, "aud": true, "nonce": true,
}

// harmless reports whether the additional header parameters can be ignored, as RFC 7515 §4 requires for unknown ones:
// many issuers have some of their own. Issuers that predate RFC 9068 add certificate thumbprints.
func harmless(others jsontext.Value, typ string) bool {
	var members map[string]jsontext.Value
	if strictjson.Object(others, &members) != nil {
		return false
	}
	for name := range members {
		thumbprint := name == "x5t" || name == "x5t#S256"
		if misleading[strings.ToLower(name)] && (typ == keys.AccessTokenType || !thumbprint) {
			return false
		}
	}
	return true
}

// checkKey returns an error unless the issuer still has the key that verified the token, unchanged and recently fetched.
func (v *Verifier) checkKey(known *cachedToken, t *AccessToken) error {
	key, err := v.source.Find(t.KeyID, known.key.Algorithm)
	if err != nil {
		return err
	}
	if key != known.key && !key.Equal(known.key) {
		return oauth.NewError(oauth.InvalidToken, "key_replaced")
	}
	return nil
}

// CheckOwnEnd checks the exp of another issuer's token. It is for the time in which the issuer is unreachable.
func (t *AccessToken) CheckOwnEnd(now time.Time) error {
	return t.checkExpiry(now, TrustedLeeway)
}

// takeRoles replaces the roles by those of another claim.
func (t *AccessToken) takeRoles(claim string) {
	roles := t.Claim(claim)
	delete(t.extra.values, "role")
	t.Role = t.extra.single("role", roles)
}
