package accesstoken

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TrustedLeeway is how far another issuer's clock may be from ours.
const TrustedLeeway = 30 * time.Second

// Values of typ that access tokens have. An issuer that does not follow RFC 9068 writes JWT or nothing, and its tokens
// are taken for access tokens only when they say so in another way.
const (
	TypeAccessToken = keys.AccessTokenType // RFC 9068 §2.1
	TypeJWT         = "JWT"
	TypeNone        = "none" // in the configuration, for a header without typ
)

// CheckTokenType refuses a typ that no access token has.
func CheckTokenType(name string) error {
	switch name {
	case TypeAccessToken, TypeJWT, TypeNone:
		return nil
	}
	return fmt.Errorf("typ %q is not that of an access token: use %s, %s or %s", name, TypeAccessToken, TypeJWT, TypeNone)
}

// TrustedTokens says what the tokens of another issuer look like.
type TrustedTokens struct {
	// Issuer is its issuer identifier.
	Issuer string
	// Types are the values of typ; none: at+jwt.
	Types []string
	// RolesClaim is the claim with a user's roles, or a path to it as for AccessToken.Claim; empty: role.
	RolesClaim string
	// ClientAudience: a token that is not at+jwt, and has no aud at all, is meant for its client.
	ClientAudience bool
}

// NewTrustedVerifier returns a Verifier of another issuer's tokens.
func NewTrustedVerifier(tokens TrustedTokens, ks KeySource, now func() time.Time) *Verifier {
	rules := tokenRules{leeway: TrustedLeeway, trusted: true, rolesClaim: tokens.RolesClaim, clientAudience: tokens.ClientAudience, complete: func(p *payload, typ string) bool {
		if typ == keys.AccessTokenType {
			return ownRules.complete(p, typ) // RFC 9068 §2.2 requires the same of everybody
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

// ClaimedIssuer returns the issuer that a token names, for choosing whom to ask about it; nothing else may be decided by
// it, for nobody has checked it. The second result is false for an opaque token, which is no JWT at all. What has the look
// of a JWT and is none has an empty issuer.
func ClaimedIssuer(token string) (issuer string, isJWT bool) {
	claims, err := readClaimed(token)
	if err != nil {
		return "", looksLikeJWT(token)
	}
	return claims.Issuer, true
}

// ClaimedFamily returns the token family that a token claims to be of, before anything about it is believed; "" for none.
func ClaimedFamily(token string) string {
	claims, err := readClaimed(token)
	if err != nil {
		return ""
	}
	return claims.FamilyID
}

// claimed is what a token says of itself. The other claims are only read, for a name that is there twice.
type claimed struct {
	Issuer   string `json:"iss"`
	FamilyID string `json:"sid"`
}

// readClaimed reads the claims of a JWT, none of which is believed. The error is that it is no JWT; of one whose claims cannot
// be read there are none.
func readClaimed(token string) (claims claimed, err error) {
	c := candidates.Get().(*candidate) //nolint:forcetypeassert // New makes no other
	defer c.done()
	if err := c.form.parse(token, c.buffer); err != nil {
		return claims, err
	}
	if tooDeep(c.form.payload) || json.Unmarshal(c.form.payload, &claims) != nil {
		return claimed{}, nil
	}
	return claims, nil
}

// looksLikeJWT reports whether a token has parts, and the first begins as the base64url of an object does: e, and then y or w
// for a quote or white space after the brace. Opaque tokens that are base64 begin so by chance, but have no parts.
func looksLikeJWT(token string) bool {
	return (strings.HasPrefix(token, "ey") || strings.HasPrefix(token, "ew")) && strings.Count(token, ".") >= 2
}

// misleading are the header parameters that could lead a reader to another key, to another payload or to another meaning, in
// lower case: RFC 7515 §4.1, RFC 7516 §4.1, RFC 7518 §4, RFC 7519 §5.3 and RFC 7797 §3, and the nonce without whose digest a
// token of Microsoft Graph has another signature.
var misleading = map[string]bool{
	"alg": true, "kid": true, "typ": true, "jku": true, "jwk": true, "x5u": true, "x5c": true, "x5t": true, "x5t#s256": true,
	"cty": true, "crit": true, "b64": true, "enc": true, "zip": true, "epk": true, "apu": true, "apv": true, "iv": true, "tag": true,
	"p2s": true, "p2c": true, "iss": true, "sub": true, "aud": true, "nonce": true,
}

// harmless reports whether a header's further members can be ignored, as RFC 7515 §4 asks for those that nobody understands:
// many issuers have some of their own. Issuers of before RFC 9068 write thumbprints of their certificates there.
func harmless(others jsontext.Value, typ string) bool {
	var members map[string]jsontext.Value
	if json.Unmarshal(others, &members) != nil {
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

// checkKey asks whether the key that a token was verified with is still its issuer's: there, the same under its name, and
// fresh enough to be taken.
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

// CheckOwnEnd refuses another issuer's token that is over by its own word, which stands while the issuer cannot be asked.
func (t *AccessToken) CheckOwnEnd(now time.Time) error {
	if t.endless {
		return nil
	}
	return t.checkExpiry(now, TrustedLeeway)
}

// takeRoles takes the roles from another claim. What role says counts no more.
func (t *AccessToken) takeRoles(claim string) {
	roles := t.Claim(claim)
	t.Role = ""
	delete(t.extra, "role")
	t.setOrAdd("role", &t.Role, roles)
}

// setOrAdd sets a field that has one value; several are kept among the other claims.
func (t *AccessToken) setOrAdd(name string, field *string, values []string) {
	switch len(values) {
	case 0:
	case 1:
		*field = values[0]
	default:
		if t.extra == nil {
			t.extra = make(map[string][]string, 1)
		}
		t.extra[name] = values
	}
}
