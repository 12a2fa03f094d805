package issuer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// UserTokens issues tokens that act for a user who did not request them.
type UserTokens struct {
	Families  *families.Families
	Clients   *clients.Clients
	Minter    *Minter
	Resources *oauth.Resources
}

// OrganisationAdmin returns the admin for whom the token acts: an active user of an organisation, whose role manages others. It reads role
// and status from the directory, because they may have changed since the token was issued.
func (ut *UserTokens) OrganisationAdmin(ctx context.Context, t *token.AccessToken) (*store.User, error) {
	if t.IsServerToken() {
		return nil, oauth.NewError(oauth.UserContextRequired, "server_token")
	}
	if !t.Scopes.Has(oauth.ScopeTrusted) {
		return nil, oauth.MissingScope(oauth.ScopeTrusted)
	}
	admin, err := ut.Families.Directory.User(ctx, t.Subject)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	// A token that an admin obtained for a user must not create further tokens.
	if err != nil || !ut.Minter.Roles.MayCreateTokens(admin) || len(t.Actors) > 0 {
		return nil, oauth.NewError(oauth.AdminRequired, "caller_is_no_admin")
	}
	return admin, nil
}

// IssueForUser issues an organisation's admin a token that acts for a user whose role the admin's role manages. A user outside the
// organisation is treated as nonexistent. The token is for the resources (RFC 8707), or for the issuer's own audience if there are none.
func (ut *UserTokens) IssueForUser(ctx context.Context, admin *store.User, t *token.AccessToken, userID string, resources []string) (Tokens, error) {
	target, err := ut.Families.Directory.User(ctx, userID)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return Tokens{}, err
	case err != nil || target.Organisation == "" || target.Organisation != admin.Organisation:
		return Tokens{}, oauth.NewError(oauth.UserNotFound, "target_unknown")
	case target.ID == admin.ID || !ut.Minter.Roles.Manages(admin.Role, target.Role):
		return Tokens{}, oauth.NewError(oauth.TargetRoleNotAllowed, "target_role")
	case !target.IsActive():
		return Tokens{}, oauth.NewError(oauth.UserInactive, "target_inactive")
	}
	client, err := ut.Clients.Find(ctx, t.ClientID)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return Tokens{}, err
	case err != nil || client.Disabled:
		return Tokens{}, oauth.NewError(oauth.InvalidToken, "client_gone")
	}
	audience, err := ut.Resources.Audience(resources, nil)
	if err != nil {
		return Tokens{}, err
	}
	now := ut.Families.Now()
	f := ut.Families.New(target, client, store.AdminCreated, now)
	f.CreatedAt = later(f.CreatedAt, t.IssuedAt)
	f.SignIn.Time = time.Time{} // the target has not signed in
	f.Audience = audience
	f.Scopes = slices.DeleteFunc(oauth.Scopes{oauth.ScopeTrusted, oauth.ScopePublic}, func(name string) bool { return !t.Scopes.Has(name) })
	f.Actor = store.Actor{Subject: admin.ID, ClientID: t.ClientID}
	f.Refresh.Generation, f.ExpiresAt = 1, now.Add(ut.Families.LifetimesOf(client).Refresh)
	if f.Preconditions.SessionID, err = ut.standingFamily(ctx, t); err != nil {
		return Tokens{}, err
	}
	if !admin.Declared {
		f.Preconditions.ActorVersion = admin.Version
	}
	return ut.Minter.Issue(ut.Minter.GrantOf(f, client, target, Once(func() error {
		err := ut.Families.Add(ctx, f, target)
		switch {
		case errors.Is(err, families.ErrSessionEnded): // the family of the admin's token
			return errTokenRevoked()
		case err != nil && oauth.AsError(err).Code == oauth.InvalidGrant:
			return oauth.NewError(oauth.UserInactive, "user_changed")
		}
		return err
	})))
}

// IssueUnasked issues an operator a token that acts for a user. It issues no refresh token. A lifetime of 0 means the client's own.
func (ut *UserTokens) IssueUnasked(ctx context.Context, client *store.Client, user *store.User, scopes oauth.Scopes, lifetime time.Duration) (Tokens, error) {
	f := ut.Families.NewSignIn(user, client, oauth.AuthorizationCode, time.Time{})
	f.Scopes, f.ExpiresAt = scopes, ut.Families.Now().Add(max(lifetime, ut.Families.LifetimesOf(client).AuthorizationCode))
	if lifetime > 0 {
		f.TokenLifetime = lifetime
	}
	grant := ut.Minter.GrantOf(f, client, user, Once(func() error { return ut.Families.AddUnlimited(ctx, f, user) }))
	grant.Lifetime = f.TokenLifetime
	return ut.Minter.Issue(grant)
}

// standingFamily returns the id of the family of an admin's token. A family that is created with it depends on it: once the admin's access
// is ended, nothing more can be created. The id is empty if the token has outlived the family's record.
func (ut *UserTokens) standingFamily(ctx context.Context, t *token.AccessToken) (id string, err error) {
	f, err := ut.Families.Stored(ctx, t.FamilyID)
	switch {
	case f == nil || err != nil:
		return "", err
	case !f.RevokedAt.IsZero():
		return "", errTokenRevoked()
	}
	return f.ID, nil
}

// errTokenRevoked refuses an access token whose family has ended.
func errTokenRevoked() error {
	return oauth.NewError(oauth.InvalidToken, "token_revoked").WithDescription("The access token was revoked")
}
