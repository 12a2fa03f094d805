package tokenissuer

import (
	"context"
	"slices"
)

// Settle ends what an earlier configuration has declared and this one declares no more: the tokens and sessions of users
// that are gone or have changed, and the tokens of clients that are gone. It is called once, when a configuration takes
// over. When it fails half-way, the next one ends the same again.
func (g *Registry) Settle(ctx context.Context) error {
	before, err := g.Stored.Declarations(ctx)
	if err != nil {
		return Unavailable("store_unavailable", err)
	}
	now := g.Declared.declarations()
	same := true
	for _, d := range before {
		if slices.Contains(now, d) {
			continue
		}
		same = false
		if err := g.endDeclared(ctx, d); err != nil {
			return err
		}
	}
	if same && len(before) == len(now) {
		return nil
	}
	if err := g.Stored.PutDeclarations(ctx, now); err != nil {
		return Unavailable("store_unavailable", err)
	}
	return nil
}

func (g *Registry) endDeclared(ctx context.Context, d Declaration) error {
	if d.Kind == RevokeUser {
		if err := g.Issuer.endFamilies(ctx, FamilyFilter{ActorID: d.ID}); err != nil {
			return err
		}
		return g.Issuer.endFamilies(ctx, FamilyFilter{UserID: d.ID})
	}
	return g.Issuer.Revoke(ctx, g.Issuer.RevocationOf(d.Kind, d.ID))
}

// declarations lists the declared clients and users.
func (d StaticDirectory) declarations() []Declaration {
	var list []Declaration
	for id := range d.clients {
		list = append(list, Declaration{Kind: RevokeClient, ID: id})
	}
	for id, u := range d.users {
		list = append(list, Declaration{Kind: RevokeUser, ID: id, Version: u.Version})
	}
	return list
}
