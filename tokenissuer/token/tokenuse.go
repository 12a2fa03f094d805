package token

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// useClaims are claims that name a token's use, and accessUses their values for access tokens. A token that needs proof
// of a key (DPoP) has none of these values.
var (
	useClaims  = []string{"typ", "token_use", "token_type", "tokenType", "tokenName", "tty"}
	accessUses = []string{"bearer", "access", "access_token", "access-token", "at", keys.AccessTokenType}
)

// accessClaims occur only in access tokens, those of Okta, Entra and Auth0. signInClaims bind an ID token to a sign-in
// (OpenID Connect Core §2 and §3.3.2.11, FAPI 1.0 Part 2 §5.1).
var (
	accessClaims = []string{"cid", "appid", "azpacr", "scp", "gty"}
	signInClaims = []string{"nonce", "at_hash", "c_hash", "s_hash"}
)

// otherClaims holds the claims that payload has no field for, undecoded.
type otherClaims map[string]jsontext.Value

func (p *payload) others() (o otherClaims, err error) {
	if len(p.Extra) > 0 {
		err = strictjson.Object(p.Extra, &o)
	}
	return o, err
}

// has reports whether one of the claims is present and not null.
func (o otherClaims) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		value, there := o[name]
		return there && value.Kind() != 'n'
	})
}

// read decodes a claim if it is present.
func (o otherClaims) read(name string, into any) error {
	if value, there := o[name]; there {
		return strictjson.Unmarshal(value, into)
	}
	return nil
}

// checkUse refuses tokens whose claims say that they are not access tokens, and tokens that are bound to a key (RFC
// 7800), which the bearer does not prove to have. Said reports whether a claim names access as the use.
func (o otherClaims) checkUse() (said bool, err error) {
	if o.has("events") { // logout tokens and other security event tokens (RFC 8417)
		return false, oauth.NewError(oauth.InvalidToken, "not_an_access_token")
	}
	if o.has("cnf") {
		return false, oauth.NewError(oauth.InvalidToken, "token_bound")
	}
	for _, name := range useClaims {
		if !o.has(name) {
			continue
		}
		var use string
		if o.read(name, &use) != nil || !slices.Contains(accessUses, strings.ToLower(use)) {
			return false, oauth.NewError(oauth.InvalidToken, "not_an_access_token")
		}
		said = true
	}
	return said, nil
}

// translate maps claims of issuers that predate RFC 9068 to its names, and refuses tokens that are not access tokens.
// Without the typ of RFC 9068, the claims must show that it is one: ID tokens share typ, issuer and key, and often the
// audience.
func (p *payload) translate(typ string) error {
	others, err := p.others()
	if err != nil {
		return oauth.NewError(oauth.InvalidToken, "claims_malformed").WithCause(err)
	}
	said, err := others.checkUse()
	if err != nil {
		return err
	}
	shown := (p.Scope != "" || p.ClientID != "" || others.has(accessClaims...)) && !others.has(signInClaims...)
	if typ != keys.AccessTokenType && !said && !shown {
		return oauth.NewError(oauth.InvalidToken, "not_an_access_token")
	}
	if err := p.rename(others); err != nil {
		return oauth.NewError(oauth.InvalidToken, "claims_malformed").WithCause(err)
	}
	return nil
}

// checkAssertion refuses tokens that their claims give another use than that of an assertion for a token endpoint: those of a sign-in,
// of a sign-out, and those that are bound to a key.
func (p *payload) checkAssertion() error {
	others, err := p.others()
	if err != nil {
		return errClaimsMalformed.WithCause(err)
	}
	if _, err := others.checkUse(); err != nil || others.has(signInClaims...) {
		return oauth.NewError(oauth.InvalidToken, "not_an_assertion").WithCause(err)
	}
	return nil
}

// rename sets client_id and scope from their names before RFC 9068.
func (p *payload) rename(others otherClaims) error {
	for _, name := range []string{"azp", "cid", "appid"} {
		if p.ClientID != "" {
			break
		}
		if err := others.read(name, &p.ClientID); err != nil {
			return err
		}
	}
	if p.Scope != "" {
		return nil
	}
	var scopes strictjson.Texts
	if err := others.read("scp", &scopes); err != nil {
		return err
	}
	p.Scope = scope(strings.Join(scopes, " "))
	return nil
}
