package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

const (
	// maxIDToken is the maximum length of an ID token in bytes. Entra's with 200 groups have about 10,000.
	maxIDToken = 64 << 10
	// maxSubject is the maximum length of sub in bytes (OpenID Connect Core §2).
	maxSubject = 255
)

// registered are the claims needed to verify an ID token.
type registered struct {
	Issuer          string                  `json:"iss"`
	Subject         string                  `json:"sub"`
	Audience        strictjson.Texts        `json:"aud"`
	AuthorizedParty string                  `json:"azp"`
	Expiry          *strictjson.NumericDate `json:"exp"`
	IssuedAt        *strictjson.NumericDate `json:"iat"`
	NotBefore       *strictjson.NumericDate `json:"nbf"`
	AuthTime        *strictjson.NumericDate `json:"auth_time"`
	Nonce           string                  `json:"nonce"`
}

// claimSet has the claims about a person: those of the ID token, and later also those from userinfo.
type claimSet struct {
	registered
	members map[string]any
	// authenticated is when the person signed in at the provider, by our clock. It is zero if the provider does not say.
	authenticated time.Time
}

// verify verifies the ID token of a token response (OpenID Connect Core §3.1.3.7). go-oidc verifies signature, iss, aud and exp. It decodes
// JSON with encoding/json, which ignores the case of names and takes the last of duplicate members. So verify decodes everything again
// strictly, and checks what go-oidc does not.
func (p *OpenID) verify(ctx context.Context, m *metadata, flow Flow, tokens *oauth2.Token) (*claimSet, error) {
	text, _ := tokens.Extra("id_token").(string)
	switch {
	case text == "":
		return nil, misconfigured("the token endpoint gave no ID token: is openid among the scopes that the provider allows?")
	case len(text) > maxIDToken:
		return nil, untrusted("the ID token is longer than %d bytes", maxIDToken)
	}
	now, keys := p.now(), &publishedKeys{published: p.published}
	verifier := oidc.NewVerifier(p.settings.Issuer, keys, &oidc.Config{
		ClientID: p.settings.Client.ID, SupportedSigningAlgs: m.usableAlgorithms(),
		Now: func() time.Time { return now.Add(-clockSkew) },
	})
	token, err := verifier.Verify(ctx, text)
	if keys.away != nil {
		return nil, unavailable(keys.away)
	}
	if err != nil {
		return nil, untrusted("the ID token: %w", fetch.WithoutSecrets(err, oauth.NewSecret(text)))
	}
	var payload jsontext.Value
	if err := token.Claims(&payload); err != nil {
		return nil, untrusted("the ID token: %w", err)
	}
	claims, err := readClaims(payload)
	if err != nil {
		return nil, untrusted("the ID token: %w", err)
	}
	if token.AccessTokenHash != "" {
		if err := token.VerifyAccessToken(tokens.AccessToken); err != nil {
			return nil, untrusted("the ID token belongs to another access token: %w", err)
		}
	}
	if err := p.check(claims, flow, now); err != nil {
		return nil, err
	}
	claims.authenticated = flow.authenticated(&claims.registered, now)
	return claims, flow.checkAge(claims.authenticated, now)
}

// readClaims decodes a JSON object of claims. A duplicate member is an error.
func readClaims(payload []byte) (*claimSet, error) {
	claims := new(claimSet)
	err := strictjson.Object(payload, &claims.registered)
	if err == nil {
		claims.members, err = strictjson.Members(payload)
	}
	return claims, err
}

// check checks the claims of an ID token whose signature is valid.
func (p *OpenID) check(c *claimSet, flow Flow, now time.Time) error {
	id := p.settings.Client.ID
	switch {
	case c.Issuer != p.settings.Issuer:
		return untrusted("the ID token's iss is %.200q, not %q", c.Issuer, p.settings.Issuer)
	case !slices.Contains(c.Audience, id):
		return untrusted("the ID token is for %.200q, not for %q", []string(c.Audience), id)
	case c.AuthorizedParty != "" && c.AuthorizedParty != id, c.AuthorizedParty == "" && len(c.Audience) > 1:
		return untrusted("the ID token is for %.200q, and its azp is %.200q, not %q", []string(c.Audience), c.AuthorizedParty, id)
	case !flow.Refreshes && (flow.Nonce == "" || c.Nonce != flow.Nonce):
		return untrusted("the ID token's nonce is not that of this sign-in")
	case c.Expiry == nil || !now.Add(-clockSkew).Before(c.Expiry.Time):
		return untrusted("the ID token has expired, or has no exp")
	case c.IssuedAt == nil || c.IssuedAt.After(now.Add(clockSkew)):
		return untrusted("the ID token was issued in the future, or has no iat: compare the clocks")
	case c.NotBefore != nil && c.NotBefore.After(now.Add(clockSkew)):
		return untrusted("the ID token is not valid yet")
	case !isSubject(c.Subject):
		return untrusted("the ID token's sub is missing, longer than %d bytes, or has control characters", maxSubject)
	case c.AuthTime != nil && c.AuthTime.After(now.Add(clockSkew)):
		return untrusted("the ID token's auth_time is in the future: compare the clocks")
	}
	return nil
}

// isSubject reports whether a text can be stored as a subject.
func isSubject(text string) bool {
	return text != "" && len(text) <= maxSubject && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// publishedKeys verifies one signature with the provider's keys. It is an oidc.KeySet.
type publishedKeys struct {
	published *fetch.Keys
	away      error // why the keys are unavailable; go-oidc keeps only the text of an error
}

// VerifySignature returns the payload of a JWS in compact form (RFC 7515 §7.1) whose signature is valid.
func (k *publishedKeys) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	header, rest, _ := strings.Cut(text, ".")
	payload, encoded, found := strings.Cut(rest, ".")
	if !found || strings.Contains(encoded, ".") {
		return nil, errors.New("it is no JWS of three parts")
	}
	var parts [3][]byte
	for i, part := range []string{header, payload, encoded} {
		var err error
		if parts[i], err = oauth.DecodeBase64URL(nil, part); err != nil {
			return nil, err
		}
	}
	var read struct {
		Algorithm oauth.Algorithm `json:"alg"`
		KeyID     string          `json:"kid"`
		Critical  jsontext.Value  `json:"crit"`
	}
	if err := strictjson.Object(parts[0], &read); err != nil {
		return nil, err
	}
	if read.Critical != nil {
		return nil, errors.New("its header has crit, of which we understand nothing")
	}
	key, err := k.published.Key(ctx, read.KeyID, read.Algorithm)
	if err != nil {
		if oauth.AsError(err).Code == oauth.TemporarilyUnavailable {
			k.away = err
		}
		return nil, err
	}
	return parts[1], key.VerifySignature(header+"."+payload, parts[2])
}
