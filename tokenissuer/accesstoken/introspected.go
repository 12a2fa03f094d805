package accesstoken

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Introspected is what another issuer says of a token of its own that is active (RFC 7662 §2.2). It is shared between
// requests and never changed.
type Introspected struct {
	token     *AccessToken
	notBefore *int64
}

// introspectedRules are those of claims that come from the issuer itself, at the time of the question.
var introspectedRules = tokenRules{leeway: TrustedLeeway, trusted: true, undated: true, complete: func(p *payload, _ string) bool {
	return p.Subject != ""
}}

// ParseIntrospection reads an issuer's answer about a token. Until is how long the answer stands, and the end of a token
// whose end it does not tell. The error is an *Error: invalid_token for a token that is inactive, not for access or not
// said to be for anybody, and temporarily_unavailable for what is no answer.
func ParseIntrospection(data []byte, tokens TrustedTokens, until time.Time) (*Introspected, error) {
	if err := checkActive(data); err != nil {
		return nil, err
	}
	var p payload
	if err := json.Unmarshal(data, &p); err != nil {
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
	if token.endless = p.ExpiresAt == nil; token.endless {
		token.ExpiresAt = until
	}
	return &Introspected{token: token, notBefore: p.NotBefore}, nil
}

func answerMalformed(cause error) error { return oauth.Unavailable("introspection_malformed", cause) }

// checkActive wants the JSON boolean true: a text or a number is none, whatever it looks like.
func checkActive(data []byte) error {
	var answer struct {
		Active jsontext.Value `json:"active"`
		Others jsontext.Value `json:",embed"`
	}
	if jsontext.Value(data).Kind() != '{' || tooDeep(data) {
		return answerMalformed(nil)
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return answerMalformed(err)
	}
	if answer.Active.Kind() != 't' {
		return oauth.NewError(oauth.InvalidToken, "token_inactive")
	}
	return nil
}

// completeAnswer refuses answers about what is no access token of the issuer, and adds what such an answer may leave out.
// Who the token is for may not be left out: everybody could then show us what was meant for somebody else.
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

// isBearer reports whether the type of a token, if it is told, is the one that RFC 6750 registers.
func (o otherClaims) isBearer() bool {
	kind := "Bearer"
	return o.read("token_type", &kind) == nil && strings.EqualFold(kind, "Bearer")
}

// Verify returns the token if it is good now, for one of the audiences. The error is an invalid_token.
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

// CheckExpiry refuses a token that has ended.
func (i *Introspected) CheckExpiry(now time.Time) error {
	return i.token.checkExpiry(now, TrustedLeeway)
}

// ExpiresAt is when the token ends.
func (i *Introspected) ExpiresAt() time.Time { return i.token.ExpiresAt }

// Size estimates the bytes that it takes in memory.
func (i *Introspected) Size() uint32 { return i.token.Size() }
