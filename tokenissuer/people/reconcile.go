package people

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// endedRetention is how long it is remembered that something is no longer declared: longer than any token lives that a node
// with an older configuration may have issued.
const endedRetention = store.MaxLifetime + store.Day

// Reconcile ends what an earlier configuration has declared and this one does not: the tokens and sessions of users
// that are gone or have changed, and the tokens of clients that are gone. It is called once, when a configuration takes
// over. Nodes take over a new one after each other, and the last goes on issuing by the old one meanwhile: so each ends
// again what was ended before. When Reconcile fails half-way, the next one ends the same again.
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

// takenOut returns what is no longer declared, since now or for a while, and whether anything is not as it was stored.
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

// endDeclared ends what is no longer declared. What was declared until now, and not ended before, is fresh.
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
			if d.Kind == store.RevokeUser { // whom the configuration of before may still let sign in
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

// endDeclaredClient reports whether all tokens of a client's id are to end. Again: they were ended before, and are spared when they
// may be those of a stored client that has the id now.
func (g *Registry) endDeclaredClient(ctx context.Context, d store.Declaration, again bool) (whole bool, err error) {
	if !again {
		return true, nil
	}
	_, err = g.Clients.Stored.Client(ctx, d.ID)
	return isGone(err)
}

// endDeclaredUser ends the families of a user in that version, and those that the user has created for others. It reports whether all
// tokens of the id are to end, as when no user has it: a family of a declared user may be added beside its end.
// Again: they were ended before, and what the one who has the id now may have created is spared.
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
	if gone { // or the next who is declared by the id would have them
		ended, err := g.People.Stored.EndPersonalTokens(ctx, store.PersonalTokenFilter{UserID: d.ID}, g.People.Families.Ending())
		if err != nil {
			return false, err
		}
		g.People.Families.Revocations.Add(ended...)
	}
	if !gone && !heir.Declared {
		if err := g.unlinkOthers(ctx, heir); err != nil {
			return false, err
		}
	}
	return gone || !again && !heir.Declared, nil
}

// unlinkOthers takes from a user the identities of another person whom a configuration has declared by the same id, with what came of them.
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

// isGone reports whether the error of a look-up is ErrNotFound, and returns any other.
func isGone(err error) (gone bool, _ error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, nil
}
