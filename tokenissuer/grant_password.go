package tokenissuer

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// exchangePassword is the resource owner password credentials grant (RFC 6749 §4.3), which OAuth 2.1 has dropped: it is
// off unless the configuration asks for it.
func (is *Issuer) exchangePassword(ctx context.Context, client *store.Client, r TokenRequest) (Grant, error) {
	email := r.Email
	switch {
	case r.Email != "" && r.Username != "" && r.Email != r.Username:
		return Grant{}, oauth.NewError(oauth.InvalidRequest, "email_is_not_username")
	case r.Email == "" && r.Username == "":
		return Grant{}, oauth.MissingParameter("email")
	case r.Email == "":
		email = r.Username
	}
	if r.Password.IsEmpty() {
		return Grant{}, oauth.MissingParameter("password")
	}
	proved, err := is.SignIn(ctx, SignInAttempt{Email: email, Password: r.Password, Address: r.Client.Address})
	if err != nil {
		return Grant{}, err
	}
	user := proved.User
	scopes, err := is.Scopes.Grantable(r.Scope, client.Scopes, oauth.AnyScope)
	if err != nil {
		return Grant{}, err
	}
	audience, err := is.Resources.Audience(r.Resources, nil)
	if err != nil {
		return Grant{}, err
	}
	now := is.Now()
	lifetimes := is.lifetimes(client)
	f := is.newSignIn(user, client, oauth.PasswordGrant, now)
	f.Scopes, f.Audience, f.ExpiresAt = scopes, audience, now.Add(lifetimes.Password)
	f.Provider, f.Preconditions.Subject = proved.Provider, proved.Subject
	if is.PasswordGrant.Refresh && (client.GetsRefresh(scopes) || client.ID == store.BuiltInClientID) {
		f.Generation, f.ExpiresAt = 1, now.Add(lifetimes.Refresh)
	}
	return is.grantOf(f, client, user, func() error { return is.addFamily(ctx, f, user) }), nil
}

// grantOf is the grant that a family gives, with the durable step on which it depends.
func (se *Settings) grantOf(f *store.TokenFamily, client *store.Client, user *store.User, consume func() error) Grant {
	return Grant{
		Type: f.Origin, Client: client, User: user, Scopes: f.Scopes, Audience: f.Audience, FamilyID: f.ID, Generation: f.Generation,
		Actor: f.Actor, AuthTime: f.AuthTime, Lifetime: se.tokenLifetime(f, client), born: f.CreatedAt, consume: consume,
		sessionID: f.SessionID, claims: f.Claims, proof: f.Proof,
	}
}

// tokenLifetime is how long an access token of the family lives: never longer than those that came of it before were
// allowed to, because so long is a revocation of it kept.
func (se *Settings) tokenLifetime(f *store.TokenFamily, client *store.Client) time.Duration {
	return min(se.lifetimes(client).For(f.Origin), f.TokenLifetime)
}
