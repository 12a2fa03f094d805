package families

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// EndFamilies ends families durably, and then at once in this process.
func (fs *Families) EndFamilies(ctx context.Context, which store.FamilyFilter) error {
	ended, err := fs.Store.EndFamilies(ctx, which, fs.Ending())
	if err != nil {
		return err
	}
	fs.Revocations.Add(ended...)
	return nil
}

// EndPerson ends every family of a user, and every family that the user has created for others. It ends the latter first, and a session
// in which this failed can therefore repeat it. It ends them once more at the end, when nothing is left that could create others.
func (fs *Families) EndPerson(ctx context.Context, id string) error {
	for _, which := range []store.FamilyFilter{{ActorID: id}, {UserID: id}, {ActorID: id}} {
		if err := fs.EndFamilies(ctx, which); err != nil {
			return err
		}
	}
	return nil
}

// Ending returns an ending now, whose revocations are kept as long as any access token can live.
func (fs *Families) Ending() store.Ending {
	now := fs.Now()
	return store.Ending{At: now, Until: now.Add(store.MaxLifetime + store.RevocationMargin)}
}

// RevocationOf returns a revocation of every token of that id issued until now. One of a token, a family or a key covers tokens whenever
// they were issued.
func (fs *Families) RevocationOf(kind store.RevocationKind, id string) store.Revocation {
	// Families are as old as Now says, and tokens as the earlier of the two clocks: the later one covers both.
	now := fs.Now()
	if here := fs.NodeNow(); here.After(now) {
		now = here
	}
	r := store.Revocation{Kind: kind, ID: id, ExpiresAt: now.Add(store.MaxLifetime + store.RevocationMargin)}
	switch kind {
	case store.RevokeUser, store.RevokeClient, store.RevokeOrganisation:
		// Older families are refused for as long as they could be refreshed.
		r.IssuedUntil, r.ExpiresAt = now, now.Add(store.MaxFamilyLifetime+store.RevocationMargin)
	}
	return r
}

// Revoke records revocations durably, and then applies them in this process. When the store cannot record them it is
// temporarily_unavailable, and nothing is revoked.
func (fs *Families) Revoke(ctx context.Context, revocations ...store.Revocation) error {
	if slices.ContainsFunc(revocations, func(r store.Revocation) bool { return r.ID == "" }) {
		return errors.New("a revocation needs an id")
	}
	if err := fs.Store.Revoke(ctx, revocations...); err != nil {
		return err
	}
	fs.Revocations.Add(revocations...)
	return nil
}

// CatchUp waits until this process knows everything that has been revoked until now. A node that has answered that a token is over must
// not accept it afterwards, even when another node has ended it.
func (fs *Families) CatchUp(ctx context.Context) error {
	if fs.Refresh == nil {
		return nil
	}
	return fs.Refresh(ctx)
}

// RevocationOfTokens returns the revocation of the access tokens that came with the family's refresh tokens up to a generation.
func RevocationOfTokens(f *store.TokenFamily, generation int64, end store.Ending) store.Revocation {
	return store.Revocation{Kind: store.RevokeGenerations, ID: f.ID, IssuedUntil: time.Unix(generation, 0), ExpiresAt: f.RevokedUntil(end)}
}
