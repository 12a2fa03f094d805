package issuer

import (
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Minter makes tokens. Its fields are set before use.
type Minter struct {
	Families *families.Families
	// URL is the iss of every token. Audience is the aud of tokens requested without a resource.
	URL      string
	Audience []string
	// Roles are the roles that tokens can name.
	Roles store.RoleCatalogue
	// OpenID enables ID tokens.
	OpenID bool
	// Keys sign tokens.
	Keys *keys.Set
	// Assertions sign the claims that upstreams receive about requests. If it is nil, the JWK Set contains none of their keys.
	Assertions *keys.AssertionKeys
	// Verifier reads our own tokens. The Minter passes every new token to it.
	Verifier *token.Verifier
}

// Tokens is a successful response of the token endpoint (RFC 6749 §5.1).
type Tokens struct {
	AccessToken oauth.Secret
	ExpiresIn   time.Duration
	// RefreshToken is empty if there is none.
	RefreshToken oauth.Secret
	// IDToken is empty unless the user has signed in to the client by OpenID Connect.
	IDToken   oauth.Secret
	Scopes    oauth.Scopes
	CreatedAt time.Time
	// IssuedType is the type of a token issued by an exchange (RFC 8693 §2.2.1).
	IssuedType string
	// Claims are those of the access token, for the audit log.
	Claims *token.AccessToken
	// Accepted is the token of another issuer that was presented as the grant, or nil.
	Accepted *AcceptedToken
	Repetition
}

// AcceptedToken identifies the token of another issuer that was presented as the grant, for the audit log.
type AcceptedToken struct{ Rule, Issuer, Subject, ID string }

// Issue makes the tokens of a grant (RFC 9068 §2). All tokens of clients are made here. It fails if no key can sign. It also fails for a
// user whose id equals the client's, because the token would be taken for a server token. The durable step of the grant comes last, because
// a code that was used up by a failed request could not be presented again.
func (m *Minter) Issue(g Grant) (Tokens, error) {
	key, err := m.Keys.Signing(m.Families.Now())
	if err != nil {
		return Tokens{}, err
	}
	t, err := m.claimsOf(g, key.ID)
	if err != nil {
		return Tokens{}, err
	}
	claims, err := token.AppendClaims(make([]byte, 0, 512), t)
	if err != nil {
		return Tokens{}, oauth.AsError(err)
	}
	identity, err := m.identityOf(g, t)
	if err != nil {
		return Tokens{}, err
	}
	tokens, err := m.sign(g, key, t, claims)
	if err != nil {
		return Tokens{}, err
	}
	if tokens.IDToken, err = identity.sign(tokens.AccessToken); err != nil {
		return Tokens{}, err
	}
	if g.Consume != nil {
		if tokens.Repetition, err = g.Consume(); err != nil {
			return Tokens{}, oauth.AsError(err)
		}
	}
	return tokens, nil
}

// sign signs the access token of a grant and makes its refresh token.
func (m *Minter) sign(g Grant, key *keys.SigningKey, t *token.AccessToken, claims []byte) (Tokens, error) {
	signed, err := m.Families.JTIMAC.Sign(key, claims)
	if err != nil {
		return Tokens{}, oauth.AsError(err)
	}
	t.ID = signed.ID(t.ID)
	if len(signed.Text) > token.MaxTokenBytes {
		return Tokens{}, oauth.NewError(oauth.ServerError, "token_too_long").WithCause(errors.New("the claims do not fit a token of 8 KiB"))
	}
	m.Verifier.Remember(signed.Text, t)
	tokens := Tokens{
		AccessToken: oauth.NewSecret(signed.Text), ExpiresIn: t.ExpiresAt.Sub(t.IssuedAt), Scopes: g.Scopes, CreatedAt: t.IssuedAt, Claims: t,
	}
	if g.Generation > 0 {
		tokens.RefreshToken = m.Families.Master.RefreshToken(g.Family.ID, g.Generation)
	}
	return tokens, nil
}

// claimsOf returns the claims of the access token of a grant.
func (m *Minter) claimsOf(g Grant, kid string) (*token.AccessToken, error) {
	lifetime := g.Lifetime
	if lifetime == 0 {
		lifetime = m.Families.LifetimesOf(g.Client).For(g.Type)
	}
	now, audience := m.Families.IssueTime(), g.Audience
	if g.Family != nil && g.Family.CreatedAt.After(m.Families.Now()) { // see families.NewSignIn
		now = g.Family.CreatedAt.Truncate(time.Second)
	}
	if len(audience) == 0 {
		audience = m.Audience
	}
	if x := g.Exchanged; g.User != nil && g.User.ID == g.Client.ID || x != nil && x.Subject == g.Client.ID && !x.IsServerToken() {
		return nil, oauth.NewError(oauth.ServerError, "user_is_client").WithCause(errors.New("user id equals client id"))
	}
	t := &token.AccessToken{
		Issuer: m.URL, Subject: g.Client.ID, Audience: audience, ClientID: g.Client.ID, Scopes: g.Scopes, ID: token.NewID(g.Generation),
		IssuedAt: now, ExpiresAt: now.Add(lifetime), KeyID: kid,
	}
	if g.Exchanged != nil {
		if t.Delegate(g.Exchanged, ActorOf(g.Client)); !g.Scopes.Has(oauth.ScopeGroups) {
			t.WithGroups(nil)
		}
		if t.ExpiresAt.After(g.Exchanged.ExpiresAt) {
			t.ExpiresAt = g.Exchanged.ExpiresAt
		}
		return t, nil
	}
	if g.User == nil {
		return t, nil
	}
	t.Subject, t.Organisation = g.User.ID, g.User.Organisation
	if m.Roles.Has(g.User.Role) {
		t.Role = string(g.User.Role)
	}
	if g.Scopes.Has(oauth.ScopeGroups) {
		t.WithGroups(g.User.AllGroups())
	}
	if f := g.Family; f != nil {
		t.FamilyID, t.AuthTime = f.ID, f.SignIn.Time.Truncate(time.Second)
		t.WithProof(f.SignIn.Proof)
		if !f.Actor.IsZero() {
			t.Actors = []store.Actor{f.Actor}
		}
	}
	return t, nil
}

// JWKS returns the public keys as a JWK Set (RFC 7517 §5): those of access tokens and, if enabled, those of upstream assertions.
func (m *Minter) JWKS() ([]byte, error) {
	return m.Assertions.JWKS(m.Families.Now(), m.Families.Master, m.Keys)
}

// SessionToken returns a user token of a session, for the gate of this issuer and for testing. It does not outlive the session. Its scopes
// are those of the session that client, the built-in one, may still hold.
func (m *Minter) SessionToken(s *signin.Session, client *store.Client, limits signin.Limits) (Tokens, error) {
	scopes, err := NarrowedScopes(s.Family.Scopes, client, "")
	if err != nil {
		return Tokens{}, err
	}
	lifetime := min(m.Families.TokenLifetime(s.Family, client), limits.End(s.Family).Sub(m.Families.Now()))
	return m.Issue(Grant{Type: store.BrowserSession, Client: client, User: s.User, Scopes: scopes, Family: s.Family, Lifetime: lifetime})
}
