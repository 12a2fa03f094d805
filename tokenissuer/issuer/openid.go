package issuer

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// maxNonce bounds a nonce, in bytes of JSON, in which a control character takes six. The nonce is stored with the code.
const maxNonce = 2 << 10

// PromptValues returns the supported values of prompt, for the metadata.
func (az *Authorizations) PromptValues() []string {
	if az.Registers {
		return append(slices.Clone(promptValues), promptCreate)
	}
	return slices.Clone(promptValues)
}

// readOpenID reads the OpenID Connect parameters (OpenID Connect Core §3.1.2.1). An id_token_hint that is not one of our ID tokens is
// ignored, unless the request forbids showing a page: then the user cannot be asked to sign in.
func (az *Authorizations) readOpenID(r *AuthorizationRequest, client *store.Client, p OpenIDParameters) error {
	if p.IDTokenHint != "" {
		hint, err := token.ReadHint(p.IDTokenHint, az.Clients.URL, az.Keys)
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
	case !slices.ContainsFunc(az.ACRs(), claims.AllowsACR):
		return oauth.NewError(oauth.UnmetAuthentication, "acr_essential")
	}
	r.Nonce, r.Claims = p.Nonce, claims.Within(client.Scopes).String()
	return nil
}

// claims returns the request for single claims.
func (r *AuthorizationRequest) claims() token.ClaimsRequest {
	claims, _ := token.ParseClaimsRequest(r.Claims) // written by package token
	return claims
}

// Asked returns the scopes to ask the user about: those of the request, and those of the single claims that it requests.
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

// allows reports whether the request accepts the user (OpenID Connect Core §3.1.2.2, §5.5.1).
func (r *AuthorizationRequest) allows(userID string) bool {
	return (r.Hinted == "" || r.Hinted == userID) && (r.Claims == "" || r.claims().Allows(userID))
}

// allowsClass reports whether a sign-in is of a class that the request accepts (OpenID Connect Core §5.5.1.1).
func (r *AuthorizationRequest) allowsClass(session *store.TokenFamily) bool {
	if r.TwoFactors && session.SignIn.Proof.ACR != oauth.TwoFactorACR {
		return false
	}
	return r.Claims == "" || r.claims().AllowsACR(session.SignIn.Proof.ACR)
}

// WantsTwoFactors reports whether the request accepts no sign-in but one of two factors. A nil request does not.
func (r *AuthorizationRequest) WantsTwoFactors() bool {
	return r != nil && (r.TwoFactors || r.Claims != "" && !r.claims().AllowsACR(oauth.PasswordACR))
}

// asksForAnother reports whether the request refuses the user who was signed in when it arrived.
func (r *AuthorizationRequest) asksForAnother(s *signin.Session) bool {
	return s.Family.CreatedAt.Before(r.At) && !r.allows(s.User.ID)
}

// bind binds a family to the OpenID part of the request. granted are the scopes that the user allowed, including those of single claims.
func (r *AuthorizationRequest) bind(f *store.TokenFamily, client *store.Client, granted oauth.Scopes) {
	f.SignIn.SessionID, f.Code.Nonce = f.Preconditions.SessionID, r.Nonce
	f.TellsLogout = client.BackchannelLogoutURI != ""
	if r.Claims != "" {
		f.Claims = r.claims().Within(granted).String()
	}
}

// needsNoChallenge reports whether the request may omit the code_challenge. The client must be allowed to, and the request must be an
// OpenID Connect request with a nonce, which protects the code instead (RFC 9700 §2.1.1).
func (az *Authorizations) needsNoChallenge(client *store.Client, p AuthorizationParameters) bool {
	if !az.Clients.OpenID || client.PKCE != oauth.PKCEOptional || client.IsPublic() || p.OpenID.Nonce == "" {
		return false
	}
	scopes, err := oauth.RequestedScopes(p.Scope)
	return err == nil && scopes.Has(oauth.ScopeOpenID)
}

// ACRs returns the authentication context classes of sign-ins (OpenID Connect Discovery §3).
func (az *Authorizations) ACRs() []string {
	if az.TwoFactors {
		return []string{oauth.PasswordACR, oauth.TwoFactorACR}
	}
	return []string{oauth.PasswordACR}
}

// identity is an unsigned ID token.
type identity struct {
	token token.IDToken
	key   *keys.SigningKey
}

// identityOf prepares the ID token for an access token. It returns nil if the grant gives none. Only a request with the scope openid that
// was approved in a browser's session gives one (OpenID Connect Core §3.1.3.3, §12.2). For an operator's token no user has signed in.
func (m *Minter) identityOf(g Grant, t *token.AccessToken) (*identity, error) {
	f := g.Family
	if !m.OpenID || g.Type != oauth.AuthorizationCode && g.Type != oauth.DeviceCode || f == nil || f.SignIn.SessionID == "" || !g.Scopes.Has(oauth.ScopeOpenID) {
		return nil, nil
	}
	key, err := m.Keys.SigningWith(g.Client.Algorithm(), m.Families.Now())
	if err != nil {
		return nil, err
	}
	i := &identity{key: key, token: token.IDToken{
		Issuer: m.URL, Subject: t.Subject, ClientID: t.ClientID, IssuedAt: t.IssuedAt, ExpiresAt: t.IssuedAt.Add(token.IDTokenLifetime),
		AuthTime: t.AuthTime, Nonce: g.Nonce, SessionID: f.SignIn.SessionID, ACR: f.SignIn.Proof.ACR, AMR: f.SignIn.Proof.AMR,
	}}
	if f.Claims == "" {
		return i, nil
	}
	wanted, err := token.ParseClaimsRequest(f.Claims)
	if err != nil {
		return nil, oauth.AsError(err)
	}
	wanted = wanted.Within(g.Client.Scopes) // the operator may have removed some
	i.token.Claims, err = token.IDClaims(g.User, nil, wanted.IDToken)
	return i, err
}

// sign signs the ID token for an access token. A nil identity gives an empty one.
func (i *identity) sign(access oauth.Secret) (oauth.Secret, error) {
	if i == nil {
		return oauth.Secret{}, nil
	}
	i.token.AccessToken = access
	return i.token.Sign(i.key)
}
