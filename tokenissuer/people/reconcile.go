package people

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// endedRetention is how long it is remembered that something is no longer declared. It exceeds the lifetime of any token that a node with
// an older configuration may have issued.
const endedRetention = store.MaxLifetime + store.Day

// Reconcile ends what an earlier configuration declared and this one does not: the tokens and sessions of removed or changed users, and the
// tokens of removed clients. It is called once, when a configuration takes effect. Nodes load a new configuration one after another, and
// the last ones still issue tokens by the old one. So each node ends again what was ended before. If Reconcile fails half-way, the next
// call repeats it.
func (g *Registry) Reconcile(ctx context.Context) error {
	before, remembered, err := g.People.Stored.Declarations(ctx)
	if err != nil {
		return err
	}
	for _, user := range g.People.Declared.Users() {
		if err := g.unlinkOthers(ctx, user); err != nil {
			return err
		}
	}
	now := g.People.Declared.Declarations()
	ended, changed := takenOut(before, remembered, now, g.People.Families.Now())
	if err := g.endDeclared(ctx, ended, setOf(before)); err != nil {
		return err
	}
	if !changed {
		return nil
	}
	return g.People.Stored.PutDeclarations(ctx, now, ended)
}

// takenOut returns what is no longer declared, newly or since an earlier configuration, and reports whether anything differs from what is
// stored.
func takenOut(before []store.Declaration, remembered []store.EndedDeclaration, now []store.Declaration, at time.Time) (ended []store.EndedDeclaration, changed bool) {
	declared, listed := setOf(now), setOf(before)
	for _, d := range before {
		if !declared[d] {
			ended = append(ended, store.EndedDeclaration{Declaration: d, At: at})
		}
	}
	changed = len(ended) > 0 || len(before) != len(now)
	for _, d := range remembered {
		if declared[d.Declaration] || listed[d.Declaration] || at.Sub(d.At) > endedRetention {
			changed = true
			continue
		}
		ended = append(ended, d)
	}
	return ended, changed
}

func setOf(list []store.Declaration) map[store.Declaration]bool {
	set := make(map[store.Declaration]bool, len(list))
	for _, d := range list {
		set[d] = true
	}
	return set
}

// endDeclared ends what is no longer declared. fresh is what was declared until now and not ended before.
func (g *Registry) endDeclared(ctx context.Context, ended []store.EndedDeclaration, fresh map[store.Declaration]bool) error {
	var revocations []store.Revocation
	for _, d := range ended {
		end := g.endDeclaredClient
		if d.Kind == store.RevokeUser {
			end = g.endDeclaredUser
		}
		whole, err := end(ctx, d.Declaration, !fresh[d.Declaration])
		if err != nil {
			return err
		}
		if whole {
			revocation := g.People.Families.RevocationOf(d.Kind, d.ID)
			if d.Kind == store.RevokeUser { // a node with the previous configuration may still let the user sign in
				revocation.IssuedUntil = revocation.IssuedUntil.Add(time.Second)
			}
			revocations = append(revocations, revocation)
		}
	}
	if len(revocations) == 0 {
		return nil
	}
	return g.People.Families.Revoke(ctx, revocations...)
}

// endDeclaredClient reports whether all tokens of a client's id must end. again means that they were ended before; then they are spared if
// they may be those of a stored client that has the id now.
func (g *Registry) endDeclaredClient(ctx context.Context, d store.Declaration, again bool) (whole bool, err error) {
	if !again {
		return true, nil
	}
	_, err = g.Clients.Stored.Client(ctx, d.ID)
	return isGone(err)
}

// endDeclaredUser ends the families of a user in that version, and those that the user created for others. It reports whether all tokens of
// the id must end, as when no user has the id, because a family of a declared user may be added concurrently. again means that they were
// ended before; then families that the current user of the id may have created are spared.
func (g *Registry) endDeclaredUser(ctx context.Context, d store.Declaration, again bool) (whole bool, err error) {
	if err := g.People.Families.EndFamilies(ctx, store.FamilyFilter{UserID: d.ID, UserVersion: d.Version}); err != nil {
		return false, err
	}
	heir, gone := g.People.Declared.LookupUser(d.ID), false
	if heir == nil {
		stored, err := g.People.Stored.User(ctx, d.ID)
		if gone, err = isGone(err); err != nil {
			return false, err
		}
		heir = stored
	}
	if !again || gone || !g.People.Roles.MayCreateTokens(heir) {
		if err := g.People.Families.EndFamilies(ctx, store.FamilyFilter{ActorID: d.ID}); err != nil {
			return false, err
		}
	}
	if gone { // otherwise the next user declared with the id would have them
		if err := g.People.EndPersonalTokens(ctx, d.ID); err != nil {
			return false, err
		}
	}
	if !gone && !heir.Declared {
		if err := g.unlinkOthers(ctx, heir); err != nil {
			return false, err
		}
	}
	return gone || !again && !heir.Declared, nil
}

// unlinkOthers removes from a user the identities of another person, who was declared with the same id, and what resulted from them.
func (g *Registry) unlinkOthers(ctx context.Context, user *store.User) error {
	linked, err := g.People.Stored.Identities(ctx, user.ID)
	if err != nil {
		return err
	}
	for _, i := range linked {
		if i.DeclaredEmail == "" || i.IsOf(user) {
			continue
		}
		if err := g.People.Unlink(ctx, store.Unlinking{Provider: i.Provider, Subject: i.Subject, UserID: i.UserID, MayBeLast: true}); err != nil {
			return err
		}
	}
	return nil
}

// isGone reports whether the error of a look-up is store.ErrNotFound. It returns any other error.
func isGone(err error) (gone bool, _ error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, nil
}
