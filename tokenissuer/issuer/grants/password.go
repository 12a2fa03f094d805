package grants

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// PasswordParameters are those of RFC 6749 §4.3.2. Username can replace Email.
type PasswordParameters struct {
	Email    string
	Username string
	Password oauth.Secret
}

// password is the resource owner password credentials grant (RFC 6749 §4.3). OAuth 2.1 removed it. It is off by default.
type password struct {
	rights
	families *families.Families
	minter   *issuer.Minter
	signIns  *signin.SignIns
	rules    issuer.PasswordRules
}

func (g *password) exchange(ctx context.Context, client *store.Client, r Request) (issuer.Grant, error) {
	// 1. The parameters.
	login := r.Login
	email := login.Email
	switch {
	case login.Email != "" && login.Username != "" && login.Email != login.Username:
		return issuer.Grant{}, oauth.NewError(oauth.InvalidRequest, "email_is_not_username")
	case login.Email == "" && login.Username == "":
		return issuer.Grant{}, oauth.MissingParameter("email")
	case login.Email == "":
		email = login.Username
	}
	if login.Password.IsEmpty() {
		return issuer.Grant{}, oauth.MissingParameter("password")
	}
	// 2. The user.
	proved, err := g.signIns.SignIn(ctx, signin.Attempt{Email: email, Password: login.Password, Address: r.Client.Address})
	if err != nil {
		return issuer.Grant{}, err
	}
	switch demand, err := g.signIns.Factors.DemandOf(ctx, proved, false); {
	case err != nil:
		return issuer.Grant{}, err
	case demand != signin.NothingMore: // the grant cannot ask for it
		return issuer.Grant{}, oauth.NewError(oauth.InvalidGrant, "second_factor_needed")
	}
	// 3. The scopes and resources.
	scopes, err := g.scopes.Grantable(r.Scope, client.Scopes, oauth.AnyScope)
	if err != nil {
		return issuer.Grant{}, err
	}
	audience, err := g.resources.Audience(r.Resources, nil)
	if err != nil {
		return issuer.Grant{}, err
	}
	// 4. The tokens. One step of the store adds their family.
	user, now, lifetimes := proved.User, g.families.Now(), g.families.LifetimesOf(client)
	f := g.families.NewSignIn(user, client, oauth.PasswordGrant, now)
	f.Scopes, f.Audience, f.ExpiresAt = scopes, audience, now.Add(lifetimes.Password)
	f.SignIn.Provider, f.SignIn.Proof, f.Preconditions.Subject = proved.Provider, proved.Proof, proved.Subject
	if g.rules.Refresh && (client.GetsRefresh(scopes) || client.ID == store.BuiltInClientID) {
		f.Refresh.Generation, f.ExpiresAt = 1, now.Add(lifetimes.Refresh)
	}
	return g.minter.GrantOf(f, client, user, issuer.Once(func() error { return g.families.Add(ctx, f, user) })), nil
}
