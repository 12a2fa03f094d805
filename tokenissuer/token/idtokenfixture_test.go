package token

import (
	"crypto"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// newToken returns an ID token with a value in every field.
func newToken() *IDToken {
	return &IDToken{
		Issuer: tokentest.Issuer, Subject: "ada", ClientID: "shop",
		IssuedAt: tokentest.Start, ExpiresAt: tokentest.Start.Add(IDTokenLifetime), AuthTime: tokentest.Start.Add(-time.Minute),
		Nonce: "n-0S6_WzA2Mj", AccessToken: oauth.NewSecret(accessToken), SessionID: "session", ACR: "1", AMR: []string{"pwd"},
	}
}

// accessToken is the one of the example in OpenID Connect Core A.3, whose at_hash there is 77QmUPtjPfzWtF2AnpK9RQ.
const accessToken = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y"

func newSet(tb testing.TB, list ...*keys.SigningKey) *keys.Set {
	tb.Helper()
	set := new(keys.Set)
	if err := set.Replace(list, list[0].Algorithm); err != nil {
		tb.Fatal(err)
	}
	return set
}

// signed returns the text of a token.
func signed(tb testing.TB, token interface {
	Sign(*keys.SigningKey) (oauth.Secret, error)
}, key *keys.SigningKey) string {
	tb.Helper()
	secret, err := token.Sign(key)
	if err != nil {
		tb.Fatal(err)
	}
	return secret.Reveal()
}

// parsed returns header and claims of a token. golang-jwt, which is independent of our code, verifies it.
func parsed(tb testing.TB, text string, public crypto.PublicKey, alg oauth.Algorithm) (header, claims map[string]any) {
	tb.Helper()
	token, err := jwt.Parse(text, func(*jwt.Token) (any, error) { return public, nil },
		jwt.WithValidMethods([]string{string(alg)}), jwt.WithTimeFunc(func() time.Time { return tokentest.Start }))
	if err != nil {
		tb.Fatal(err)
	}
	return token.Header, token.Claims.(jwt.MapClaims)
}

// claimsOf returns the claims of a token, unverified.
func claimsOf(tb testing.TB, text string) (claims map[string]any) {
	tb.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1])
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		tb.Fatal(err)
	}
	return claims
}

// header is the header of our ID tokens, with edits as for tokentest.Object.
func header(key *keys.SigningKey, edits ...string) string {
	return testkeys.Header(key, append([]string{"typ", `"JWT"`}, edits...)...)
}
