package people

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Organisations returns all organisations, sorted by id.
func (g *Users) Organisations(ctx context.Context) ([]*store.Organisation, error) {
	list, err := g.Stored.Organisations(ctx)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(o *store.Organisation) bool { return g.Declared.LookupOrganisation(o.ID) != nil })
	list = append(list, g.Declared.Organisations()...)
	slices.SortFunc(list, func(a, b *store.Organisation) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// AddOrganisation registers an organisation. A missing name defaults to the id. The error is store.ErrTaken if the id is in use.
func (g *Users) AddOrganisation(ctx context.Context, o store.Organisation) (*store.Organisation, error) {
	o.SetDefaults()
	o.CreatedAt = g.Families.Now().Truncate(time.Microsecond)
	if err := o.Validate(); err != nil {
		return nil, store.InvalidInput(err)
	}
	if g.Declared.LookupOrganisation(o.ID) != nil {
		return nil, store.ErrTaken
	}
	if err := g.Stored.AddOrganisation(ctx, &o); err != nil {
		return nil, err
	}
	return &o, nil
}

// RemoveOrganisation removes an organisation without users. The error is store.ErrInUse if it has users.
func (g *Users) RemoveOrganisation(ctx context.Context, id string) error {
	if g.Declared.LookupOrganisation(id) != nil {
		return store.ErrDeclared
	}
	return g.Stored.RemoveOrganisation(ctx, id)
}

// RevokeOrganisation ends the sessions of an organisation's users and all their tokens issued so far.
func (g *Users) RevokeOrganisation(ctx context.Context, id string) error {
	// As for a user, the revocation comes first. The next steps end what is created meanwhile, and notify applications.
	if err := g.Families.Revoke(ctx, g.Families.RevocationOf(store.RevokeOrganisation, id)); err != nil {
		return err
	}
	users, err := g.Users(ctx, id)
	if err != nil {
		return err
	}
	for _, user := range users {
		if err := g.Families.EndFamilies(ctx, store.FamilyFilter{UserID: user.ID}); err != nil {
			return err
		}
	}
	return nil
}
