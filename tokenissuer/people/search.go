package people

import (
	"context"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Search finds users among many.
type Search struct{ People *Users }

// Users returns a page of the users that a query selects. Those that the configuration declares are all in the first page, before the
// others.
func (s Search) Users(ctx context.Context, q store.UserQuery) (store.UserPage, error) {
	g := s.People
	page, err := g.Stored.FindUsers(ctx, q)
	if err != nil {
		return store.UserPage{}, err
	}
	page.Users = slices.DeleteFunc(page.Users, func(u *store.User) bool { return g.Declared.LookupUser(u.ID) != nil })
	if q.After != (store.SearchPosition{}) {
		return page, nil
	}
	var declared []*store.User
	for _, u := range g.Declared.Users() {
		selected := q.Matches(u)
		if selected && q.Provider != "" {
			selected, err = signsInAt(ctx, g.Stored, u, q.Provider)
		}
		if selected && q.WithoutFactor && err == nil {
			var owner passwords.Owner
			owner, err = ownerOf(ctx, g.Families, u)
			selected = !owner.HasFactor
		}
		if err != nil {
			return store.UserPage{}, err
		}
		if selected {
			declared = append(declared, u)
		}
	}
	slices.SortFunc(declared, func(a, b *store.User) int { return strings.Compare(a.ID, b.ID) })
	page.Users = append(declared, page.Users...)
	return page, nil
}

// signsInAt reports whether a user has an account at a provider.
func signsInAt(ctx context.Context, stored store.IdentityStore, u *store.User, provider string) (bool, error) {
	identities, err := stored.Identities(ctx, u.ID)
	return slices.ContainsFunc(identities, func(i store.Identity) bool { return i.IsOf(u) && i.Provider == provider }), err
}
