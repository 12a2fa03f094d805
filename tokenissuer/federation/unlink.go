package federation

import (
	"context"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Linked lists the accounts that lead to a user, by provider and subject.
func (a Accounts) Linked(ctx context.Context, user *store.User) ([]store.Identity, error) {
	list, err := a.Registry.Stored.Identities(ctx, user.ID)
	if err != nil {
		return nil, oauth.Unavailable("store_unavailable", err)
	}
	return list, nil
}

// Unlink takes an account from a user, and ends the user's sessions that came of its provider but the one that is kept. Another user's
// account is left alone, as if it did not exist.
func (a Accounts) Unlink(ctx context.Context, user *store.User, provider, subject, keep string) error {
	linked, err := a.Linked(ctx, user)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(linked, func(i store.Identity) bool { return i.Provider == provider && i.Subject == subject }) {
		return nil
	}
	if err := a.Registry.Stored.UnlinkIdentity(ctx, provider, subject); err != nil {
		return oauth.Unavailable("store_unavailable", err)
	}
	account, err := a.Registry.Issuer.AccountOf(ctx, user)
	if err != nil {
		return err
	}
	for _, session := range account.Sessions {
		if session.Provider != provider || session.ID == keep {
			continue
		}
		if err := a.Registry.Issuer.EndSessionOf(ctx, user, session.ID); err != nil {
			return err
		}
	}
	return nil
}
