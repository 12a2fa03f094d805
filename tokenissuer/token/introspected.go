package token

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// Introspected is another issuer's statement that one of its tokens is active (RFC 7662 §2.2). It is immutable.
type Introspected struct {
	token     *AccessToken
	notBefore *int64
}

// introspectedRules apply to claims that come fresh from the issuer itself.
var introspectedRules = tokenRules{leeway: TrustedLeeway, trusted: true, undated: true, complete: func(p *payload, _ string) bool {
	return p.Subject != ""
}}

// ParseIntrospection parses an introspection response. The error is an *Error: invalid_token for a token that is inactive, not an access
// token, or without audience or expiry, and temporarily_unavailable for a malformed response.
func ParseIntrospection(data []byte, tokens TrustedTokens) (*Introspected, error) {
	if err := checkActive(data); err != nil {
		return nil, err
	}
	var p payload
	if err := strictjson.Object(data, &p); err != nil {
		return nil, answerMalformed(err)
	}
	if err := p.completeAnswer(tokens.Issuer); err != nil {
		return nil, err
	}
	v := Verifier{issuer: tokens.Issuer, rules: introspectedRules}
	v.rules.rolesClaim = tokens.RolesClaim
	token, err := v.tokenOf(&p, "", "")
	if err != nil {
		return nil, answerMalformed(err)
	}
	return &Introspected{token: token, notBefore: p.NotBefore}, nil
}

func answerMalformed(cause error) error { return oauth.Unavailable("introspection_malformed", cause) }

// checkActive requires the JSON boolean true; strings and numbers do not count.
func checkActive(data []byte) error {
	var answer struct {
		Active jsontext.Value `json:"active"`
		Others jsontext.Value `json:",embed"`
	}
	if err := strictjson.Object(data, &answer); err != nil {
		return answerMalformed(err)
	}
	if answer.Active.Kind() != 't' {
		return oauth.NewError(oauth.InvalidToken, "token_inactive")
	}
	return nil
}

// completeAnswer refuses responses about anything but an access token of the issuer, and fills in claims that a response
// may omit. It requires aud: without it, a client could use a token here that was meant for somebody else. It requires exp and
// token_type, or another claim that names access as the use: a response about a refresh token may have neither (RFC 7662 §2.2), and
// would pass for an access token without an end.
func (p *payload) completeAnswer(issuer string) error {
	others, err := p.others()
	if err != nil {
		return answerMalformed(err)
	}
	said, err := others.checkUse()
	switch {
	case err != nil:
		return err
	case !others.isBearer(), !said && others.has(signInClaims...):
		return oauth.NewError(oauth.InvalidToken, "not_an_access_token")
	case p.Issuer != "" && p.Issuer != issuer:
		return oauth.NewError(oauth.InvalidToken, "issuer_wrong")
	case len(p.Audience) == 0:
		return oauth.NewError(oauth.InvalidToken, "introspection_without_audience")
	case !said && !others.has("token_type"):
		return oauth.NewError(oauth.InvalidToken, "introspection_without_token_type")
	case p.ExpiresAt == nil:
		return oauth.NewError(oauth.InvalidToken, "introspection_without_expiry")
	}
	if err := p.rename(others); err != nil {
		return answerMalformed(err)
	}
	p.Issuer = issuer
	if p.Subject == "" {
		p.Subject = p.ClientID // a token of a client alone
	}
	if p.Subject == "" {
		return oauth.NewError(oauth.InvalidToken, "introspection_without_subject")
	}
	return nil
}

// isBearer reports whether token_type, if present, is the one of RFC 6750.
func (o otherClaims) isBearer() bool {
	kind := "Bearer"
	return o.read("token_type", &kind) == nil && strings.EqualFold(kind, "Bearer")
}

// Verify returns the token if it is valid now for one of the audiences. The error is an invalid_token.
func (i *Introspected) Verify(audiences []string, now time.Time) (*AccessToken, error) {
	if err := i.CheckExpiry(now); err != nil {
		return nil, err
	}
	if err := i.token.checkBegun(i.notBefore, now, TrustedLeeway); err != nil {
		return nil, err
	}
	if err := (audience{wanted: audiences}).check(i.token); err != nil {
		return nil, err
	}
	return i.token, nil
}

// CheckExpiry returns an invalid_token if the token has expired.
func (i *Introspected) CheckExpiry(now time.Time) error {
	return i.token.checkExpiry(now, TrustedLeeway)
}

// ExpiresAt returns the token's expiry.
func (i *Introspected) ExpiresAt() time.Time { return i.token.ExpiresAt }

// Size estimates the memory that it uses, in bytes.
func (i *Introspected) Size() uint32 { return i.token.Size() }
