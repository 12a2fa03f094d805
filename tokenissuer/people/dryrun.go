package people

import (
	"context"
	"errors"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// DryRun makes the checks of Users, and changes nothing.
type DryRun struct{ People *Users }

// AddUser returns the error that Users.AddUser would return for a user without a password, as far as the stored users are as they are now.
func (d DryRun) AddUser(ctx context.Context, u store.User) error {
	g := d.People
	if err := prepare(g, &u); err != nil {
		return err
	}
	switch _, err := g.Families.Directory.UserByEmail(ctx, u.Email); {
	case err == nil:
		return store.ErrEmailTaken
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return d.checkOrganisation(ctx, u.Organisation)
}

// checkOrganisation returns an error unless there is such an organisation; empty: none is meant.
func (d DryRun) checkOrganisation(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	_, err := d.People.Families.Directory.Organisation(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return noOrganisation(id)
	}
	return err
}

// UpdateUser returns the error that Users.UpdateUser would return for a change that does not concern the address, as far as the user is
// as given.
func (d DryRun) UpdateUser(ctx context.Context, user *store.User, change store.UserChange) error {
	if user.Declared {
		return store.ErrDeclared
	}
	edited := *user
	err := change.Edit(&edited)
	if err == nil {
		err = d.People.checkUser(&edited, user)
	}
	if err != nil || edited.Organisation == user.Organisation {
		return asked(err)
	}
	return d.checkOrganisation(ctx, edited.Organisation)
}
