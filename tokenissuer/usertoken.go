package tokenissuer

import (
	"context"
	"errors"
	"slices"
	"time"
)

// OrganisationAdmin returns the admin for whom the token acts: an active user of an organisation whose role manages others.
// Role and status are read from the directory, whatever the
// token says: an admin who was one when the token was issued may be none any more.
func (is *Issuer) OrganisationAdmin(ctx context.Context, t *AccessToken) (*User, error) {
	if t.IsServerToken() {
		return nil, NewError(UserContextRequired, "server_token")
	}
	if !t.Scopes.Has(ScopeTrusted) {
		return nil, MissingScope(ScopeTrusted)
	}
	admin, err := is.Directory.User(ctx, t.Subject)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, Unavailable("directory_unavailable", err)
	}
	// Who acts for somebody else must not act for them once more.
	if err != nil || !is.mayCreateTokens(admin) || !t.Actor.IsZero() {
		return nil, NewError(AdminRequired, "caller_is_no_admin")
	}
	return admin, nil
}

// mayCreateTokens reports whether a user may create tokens for others of the organisation. A user who belongs to none has
// nobody to create them for.
func (is *Issuer) mayCreateTokens(user *User) bool {
	return user.IsActive() && user.Organisation != "" && is.Roles.ManagesAny(user.Role)
}

// IssueForUser gives an organisation's admin a token that acts for a user of a role that the admin's manages. A user of
// another organisation, or of none, is as unknown as one that does not exist.
func (is *Issuer) IssueForUser(ctx context.Context, admin *User, t *AccessToken, userID string) (Tokens, error) {
	target, err := is.Directory.User(ctx, userID)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return Tokens{}, Unavailable("directory_unavailable", err)
	case err != nil || target.Organisation == "" || target.Organisation != admin.Organisation:
		return Tokens{}, NewError(UserNotFound, "target_unknown")
	case target.ID == admin.ID || !is.Roles.Manages(admin.Role, target.Role):
		return Tokens{}, NewError(TargetRoleNotAllowed, "target_role")
	case !target.IsActive():
		return Tokens{}, NewError(UserInactive, "target_inactive")
	}
	client, err := is.client(ctx, t.ClientID)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return Tokens{}, Unavailable("directory_unavailable", err)
	case err != nil || client.Disabled:
		return Tokens{}, NewError(InvalidToken, "client_gone")
	}
	now := is.Now()
	f := is.newFamily(target, client, AdminCreated, now)
	f.AuthTime = time.Time{} // the target has proved nothing
	f.Scopes = slices.DeleteFunc(Scopes{ScopeTrusted, ScopePublic}, func(name string) bool { return !t.Scopes.Has(name) })
	f.Actor = Actor{Subject: admin.ID, ClientID: t.ClientID}
	f.Generation, f.ExpiresAt = 1, now.Add(is.lifetimes(client).Refresh)
	if f.Standing.SessionID, err = is.standingFamily(ctx, t); err != nil {
		return Tokens{}, err
	}
	if !admin.Declared {
		f.Standing.ActorVersion = admin.Version
	}
	return is.Issue(is.grantOf(f, client, target, func() error {
		err := is.addFamily(ctx, f, target)
		if err != nil && AsError(err).Code == InvalidGrant {
			return is.notCreated(ctx, t)
		}
		return err
	}))
}

// standingFamily returns the family of an admin's token, which must stand while another is created with it: whoever ends the
// admin's access can rely on nothing being created afterwards. A token may outlive its family's record; then it is empty.
func (is *Issuer) standingFamily(ctx context.Context, t *AccessToken) (id string, err error) {
	f, err := is.Store.Family(ctx, t.FamilyID)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", nil
	case err != nil:
		return "", Unavailable("store_unavailable", err)
	case !f.RevokedAt.IsZero():
		return "", NewError(InvalidToken, "token_revoked").WithDescription("The access token was revoked")
	}
	return f.ID, nil
}

// notCreated says why no token was created: the admin's own has ended, or the target has changed since it was read.
func (is *Issuer) notCreated(ctx context.Context, admins *AccessToken) error {
	if _, err := is.standingFamily(ctx, admins); err != nil {
		return err
	}
	return NewError(UserInactive, "user_changed")
}
