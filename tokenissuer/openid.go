package tokenissuer

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// maxNonce bounds a nonce in bytes, as JSON writes it: a control character takes six. It is kept with the code.
const maxNonce = 2 << 10

// What is said of a sign-in with a password that was typed here. The authentication context class is the only one there is (OpenID
// Connect Core §2).
const passwordACR = "1"

var passwordAMR = []string{"pwd"} // RFC 8176 §2

// ACRValues lists the authentication context classes of ID tokens, for the metadata.
func (se *Settings) ACRValues() []string { return []string{passwordACR} }

// PromptValues lists the values of prompt, for the metadata.
func (se *Settings) PromptValues() []string { return slices.Clone(promptValues) }

// readOpenID reads what the request says beyond OAuth (OpenID Connect Core §3.1.2.1). A hint that is no ID token of ours says
// nothing; where no page may be shown, nobody can be the user whom it was to name.
func (is *Issuer) readOpenID(r *AuthorizationRequest, client *store.Client, p AuthorizationParameters) error {
	if p.IDTokenHint != "" {
		hint, err := token.ReadHint(p.IDTokenHint, is.URL, is.Keys)
		switch {
		case err == nil:
			r.Hinted = hint.Subject
		case oauth.AsError(err).Code != oauth.InvalidRequest:
			return err
		case r.IsSilent():
			return oauth.NewError(oauth.LoginRequired, "id_token_hint_unreadable").WithCause(err)
		}
	}
	if !r.Scopes.Has(oauth.ScopeOpenID) {
		return nil
	}
	switch quoted, err := jsontext.AppendQuote(nil, p.Nonce); {
	case err != nil:
		return oauth.NewError(oauth.InvalidRequest, "parameter_value_invalid")
	case len(quoted)-len(`""`) > maxNonce:
		return oauth.NewError(oauth.InvalidRequest, "parameter_too_long")
	}
	claims, err := token.ParseClaimsRequest(p.Claims)
	switch {
	case err != nil:
		return err
	case !claims.AllowsACR(passwordACR):
		return oauth.NewError(oauth.UnmetAuthentication, "acr_essential")
	}
	r.Nonce, r.Claims = p.Nonce, claims.Within(client.Scopes).String()
	return nil
}

// claims returns the request for single claims.
func (r *AuthorizationRequest) claims() token.ClaimsRequest {
	claims, _ := token.ParseClaimsRequest(r.Claims) // it was written by package token
	return claims
}

// Asked returns the scopes that the user is asked about: those of the request, and those to which the single claims belong that
// it asks for.
func (r *AuthorizationRequest) Asked() oauth.Scopes {
	asked := slices.Clone(r.Scopes)
	if r.Claims == "" {
		return asked
	}
	for _, name := range r.claims().Scopes() {
		if !asked.Has(name) {
			asked = append(asked, name)
		}
	}
	return asked
}

// allows reports whether the user is one for whom the request asks (OpenID Connect Core §3.1.2.2, §5.5.1).
func (r *AuthorizationRequest) allows(userID string) bool {
	return (r.Hinted == "" || r.Hinted == userID) && (r.Claims == "" || r.claims().Allows(userID))
}

// allowsClass reports whether a sign-in is of a class that the request calls essential (OpenID Connect Core §5.5.1.1).
func (r *AuthorizationRequest) allowsClass(session *store.TokenFamily) bool {
	return r.Claims == "" || r.claims().AllowsACR(session.Proof.ACR)
}

// asksForAnother reports whether the request is for another user than the one who was signed in when it came.
func (r *AuthorizationRequest) asksForAnother(s *Session) bool {
	return s.Family.CreatedAt.Before(r.At) && !r.allows(s.User.ID)
}

// bind binds a family to what the request says of identity. Granted are the scopes that the user has allowed, those of single
// claims among them.
func (r *AuthorizationRequest) bind(f *store.TokenFamily, client *store.Client, granted oauth.Scopes) {
	f.SessionID, f.Code.Nonce = f.Preconditions.SessionID, r.Nonce
	f.TellsLogout = client.BackchannelLogoutURI != ""
	if r.Claims != "" {
		f.Claims = r.claims().Within(granted).String()
	}
}

// needsNoChallenge reports whether the code_challenge may be left out: of a client for which that was allowed, in a request of
// OpenID Connect with a nonce, which protects the code in its stead (RFC 9700 §2.1.1).
func (se *Settings) needsNoChallenge(client *store.Client, p AuthorizationParameters) bool {
	if !se.OpenID || client.PKCE != oauth.PKCEOptional || client.IsPublic() || p.Nonce == "" {
		return false
	}
	scopes, err := oauth.RequestedScopes(p.Scope)
	return err == nil && scopes.Has(oauth.ScopeOpenID)
}

// identity is an ID token that is about to be signed.
type identity struct {
	token token.IDToken
	key   *keys.SigningKey
}

// identityOf prepares the ID token that goes with an access token; nil when the grant gives none: only what was approved in a browser's
// session with the scope openid does (OpenID Connect Core §3.1.3.3, §12.2). An operator's token does not say that anybody signed in.
func (is *Issuer) identityOf(g Grant, t *token.AccessToken) (*identity, error) {
	if !is.OpenID || g.Type != oauth.AuthorizationCode || g.sessionID == "" || !g.Scopes.Has(oauth.ScopeOpenID) {
		return nil, nil
	}
	key, err := is.Keys.SigningWith(g.Client.Algorithm(), is.Now())
	if err != nil {
		return nil, err
	}
	i := &identity{key: key, token: token.IDToken{
		Issuer: is.URL, Subject: t.Subject, ClientID: t.ClientID, IssuedAt: t.IssuedAt, ExpiresAt: t.IssuedAt.Add(token.IDTokenLifetime),
		AuthTime: t.AuthTime, Nonce: g.nonce, SessionID: g.sessionID, ACR: g.proof.ACR, AMR: g.proof.AMR,
	}}
	if g.claims == "" {
		return i, nil
	}
	wanted, err := token.ParseClaimsRequest(g.claims)
	if err != nil {
		return nil, oauth.AsError(err)
	}
	wanted = wanted.Within(g.Client.Scopes) // the operator may have taken some away
	i.token.Claims, err = token.IDClaims(g.User, nil, wanted.IDToken)
	return i, err
}

// sign signs the ID token that goes with an access token. A nil identity has none.
func (i *identity) sign(access oauth.Secret) (oauth.Secret, error) {
	if i == nil {
		return oauth.Secret{}, nil
	}
	i.token.AccessToken = access
	return i.token.Sign(i.key)
}
