package tokenissuer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// OrganisationAdmin returns the admin for whom the token acts: an active user of an organisation whose role manages others.
// Role and status are read from the directory, whatever the
// token says: an admin who was one when the token was issued may be none any more.
func (is *Issuer) OrganisationAdmin(ctx context.Context, t *token.AccessToken) (*store.User, error) {
	if t.IsServerToken() {
		return nil, oauth.NewError(oauth.UserContextRequired, "server_token")
	}
	if !t.Scopes.Has(oauth.ScopeTrusted) {
		return nil, oauth.MissingScope(oauth.ScopeTrusted)
	}
	admin, err := is.Directory.User(ctx, t.Subject)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	// Who acts for somebody else must not act for them once more.
	if err != nil || !is.MayCreateTokens(admin) || len(t.Actors) > 0 {
		return nil, oauth.NewError(oauth.AdminRequired, "caller_is_no_admin")
	}
	return admin, nil
}

// MayCreateTokens reports whether a user may create tokens for others of the organisation. A user who belongs to none has
// nobody to create them for.
func (se *Settings) MayCreateTokens(user *store.User) bool {
	return user.IsActive() && user.Organisation != "" && se.Roles.ManagesAny(user.Role)
}

// IssueForUser gives an organisation's admin a token that acts for a user of a role that the admin's manages. A user of
// another organisation, or of none, is as unknown as one that does not exist. The token is for those resources (RFC 8707);
// none: for the issuer's own audience.
func (is *Issuer) IssueForUser(ctx context.Context, admin *store.User, t *token.AccessToken, userID string, resources []string) (Tokens, error) {
	target, err := is.Directory.User(ctx, userID)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return Tokens{}, err
	case err != nil || target.Organisation == "" || target.Organisation != admin.Organisation:
		return Tokens{}, oauth.NewError(oauth.UserNotFound, "target_unknown")
	case target.ID == admin.ID || !is.Roles.Manages(admin.Role, target.Role):
		return Tokens{}, oauth.NewError(oauth.TargetRoleNotAllowed, "target_role")
	case !target.IsActive():
		return Tokens{}, oauth.NewError(oauth.UserInactive, "target_inactive")
	}
	client, err := is.Clients().Find(ctx, t.ClientID)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return Tokens{}, err
	case err != nil || client.Disabled:
		return Tokens{}, oauth.NewError(oauth.InvalidToken, "client_gone")
	}
	audience, err := is.Resources.Audience(resources, nil)
	if err != nil {
		return Tokens{}, err
	}
	now := is.Now()
	f := is.newFamily(target, client, store.AdminCreated, now)
	f.CreatedAt = later(f.CreatedAt, t.IssuedAt)
	f.AuthTime = time.Time{} // the target has proved nothing
	f.Audience = audience
	f.Scopes = slices.DeleteFunc(oauth.Scopes{oauth.ScopeTrusted, oauth.ScopePublic}, func(name string) bool { return !t.Scopes.Has(name) })
	f.Actor = store.Actor{Subject: admin.ID, ClientID: t.ClientID}
	f.Generation, f.ExpiresAt = 1, now.Add(is.lifetimes(client).Refresh)
	if f.Preconditions.SessionID, err = is.standingFamily(ctx, t); err != nil {
		return Tokens{}, err
	}
	if !admin.Declared {
		f.Preconditions.ActorVersion = admin.Version
	}
	return is.Issue(is.grantOf(f, client, target, func() error {
		err := is.addFamily(ctx, f, target)
		switch {
		case errors.Is(err, errSessionEnded): // the family of the admin's token
			return errTokenRevoked()
		case err != nil && oauth.AsError(err).Code == oauth.InvalidGrant:
			return oauth.NewError(oauth.UserInactive, "user_changed")
		}
		return err
	}))
}

// IssueUnasked issues a token that acts for a user without asking either user or client, for an operator. There is no refresh
// token. A lifetime of 0 is the client's own.
func (is *Issuer) IssueUnasked(ctx context.Context, client *store.Client, user *store.User, scopes oauth.Scopes, lifetime time.Duration) (Tokens, error) {
	f := is.newSignIn(user, client, oauth.AuthorizationCode, time.Time{})
	f.Scopes, f.ExpiresAt = scopes, is.Now().Add(max(lifetime, is.lifetimes(client).AuthorizationCode))
	if lifetime > 0 {
		f.TokenLifetime = lifetime
	}
	grant := is.grantOf(f, client, user, func() error { return is.storeFamily(ctx, f, user) })
	grant.Lifetime = f.TokenLifetime
	return is.Issue(grant)
}

// standingFamily returns the family of an admin's token, which must stand while another is created with it: whoever ends the
// admin's access can rely on nothing being created afterwards. A token may outlive its family's record; then it is empty.
func (k *Records) standingFamily(ctx context.Context, t *token.AccessToken) (id string, err error) {
	f, err := k.Store.Family(ctx, t.FamilyID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
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
