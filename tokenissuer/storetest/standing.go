package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var standingChecks = []check{
	{name: "T96FamilyOfASessionThatEnded", test: familyOfASessionThatEnded},
	{name: "M24FamilyOfAStaleActor", test: familyOfAStaleActor},
	{name: "StandingIsNotKept", test: standingIsNotKept},
	{name: "M24ActorsFamiliesEndWithTheActor", test: actorsFamiliesEndWithTheActor},
	{name: "EndFamiliesByActor", test: endFamiliesByActor},
	{name: "T96FamilyBornBesideTheEndOfItsSession", test: familyBornBesideTheEndOfItsSession},
	{name: "M28FamilyBornBesideTheEndOfItsActor", test: familyBornBesideTheEndOfItsActor},
}

// session returns a browser session of the declared user "ada".
func session(id string) *store.TokenFamily {
	f := refreshed(id)
	f.Origin, f.Actor, f.Refresh.Generation = store.BrowserSession, store.Actor{}, 0
	return f
}

// approvedIn returns a family that was approved in a session.
func approvedIn(sessionID, id string) *store.TokenFamily {
	f := family(id)
	f.Preconditions.SessionID = sessionID
	return f
}

// createdBy returns a family of the declared user "ada" that a stored user created, in that user's version as it was read.
func createdBy(actor *store.User, id string) *store.TokenFamily {
	f := refreshed(id)
	f.Origin, f.Actor = store.AdminCreated, store.Actor{Subject: actor.ID, ClientID: "back office"}
	f.Preconditions.ActorVersion = actor.Version
	return f
}

// kept returns the family as a store returns it.
func kept(f *store.TokenFamily) *store.TokenFamily {
	stored := *f
	stored.Preconditions, stored.TellsLogout = store.Preconditions{}, false
	return &stored
}

// familyOfASessionThatEnded (T96): callers that end a session can rely on AddFamily failing for it afterwards, even for an approval that
// began before.
func familyOfASessionThatEnded(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, session("live"), session("by id"), session("beside"))
	addFamilies(t, s.Families, approvedIn("live", "before"), approvedIn("by id", "by id, before"))
	u := addUser(t, s, user("bob"))
	ofBob := session("of bob")
	ofBob.User.ID, ofBob.User.Version, ofBob.User.Declared = u.ID, u.Version, false
	otherClient := session("of another client")
	otherClient.ClientID = "gatehouse"
	addFamilies(t, s.Families, ofBob, otherClient)
	end(t, s.Families, store.FamilyFilter{ID: "by id"})
	end(t, s.Families, store.FamilyFilter{ClientID: "gatehouse"})
	_, err := s.Users.ChangeUser(t.Context(), "bob", store.UserChange{}, theEnd)
	must(t, err)
	for _, ended := range []string{"by id", "of another client", "of bob", "unknown", "liv", "live ", "LIVE", "%"} {
		refusedAs(t, s, store.Revoked, "in the session "+ended, approvedIn(ended, "in "+ended))
	}
	addFamilies(t, s.Families, approvedIn("live", "after"), approvedIn("beside", "in the one beside"))
	end(t, s.Families, store.FamilyFilter{UserID: "ada"})
	refusedAs(t, s, store.Revoked, "everywhere", approvedIn("live", "everywhere"))
	addFamilies(t, s.Families, family("without a session"))
}

// familyOfAStaleActor (M24): a user who is no longer an admin creates nothing for others, even if the creation began before.
func familyOfAStaleActor(t *testing.T, s store.Store) {
	change := func(c store.UserChange) func(id string) error {
		return func(id string) error {
			_, err := s.Users.ChangeUser(t.Context(), id, c, theEnd)
			return err
		}
	}
	disabled, locked, active := store.UserDisabled, store.UserLocked, store.UserActive
	role, password, none := store.RoleMember, hash("m=8,t=1,p=1", "new"), oauth.Secret{}
	for _, c := range []struct {
		name  string
		fresh bool // the actor is read again after the step
		step  func(id string) error
	}{
		{"demoted", false, change(edit(func(u *store.User) { u.Role = role }))},
		{"disabled since", false, change(edit(func(u *store.User) { u.Status = disabled }))},
		{"disabled", true, change(edit(func(u *store.User) { u.Status = disabled }))},
		{"locked", true, change(edit(func(u *store.User) { u.Status = locked }))},
		{"password changed", false, change(edit(func(u *store.User) { u.PasswordHash = password }))},
		{"without password", true, change(edit(func(u *store.User) { u.PasswordHash = none }))},
		{"set to what it was", false, change(edit(func(u *store.User) { u.Status = active }))},
		{"removed", false, func(id string) error { _, err := s.Users.RemoveUser(t.Context(), id, theEnd); return err }},
	} {
		actor := addUser(t, s, user(c.name))
		addFamilies(t, s.Families, createdBy(actor, c.name+" before"))
		must(t, c.step(actor.ID))
		if c.fresh {
			actor = readUser(t, s.Users, actor.ID)
		}
		refusedAs(t, s, store.UserChanged, c.name, createdBy(actor, c.name))
	}
	boss := addUser(t, s, user("boss"))
	refusedAs(t, s, store.UserChanged, "unknown", createdBy(&store.User{ID: "nobody", Version: boss.Version}, "of nobody"))
	refusedAs(t, s, store.UserChanged, "another version", createdBy(&store.User{ID: "boss", Version: boss.Version + " "}, "another version"))
	target := addUser(t, s, user("target"))
	twice := createdBy(boss, "target and actor")
	twice.User.ID, twice.User.Version, twice.User.Declared = target.ID, target.Version, false
	addFamilies(t, s.Families, createdBy(boss, "good"), twice)

	// A declared actor has no version, and a stored user of the same id is not the actor.
	must(t, change(edit(func(u *store.User) { u.Status = disabled }))("boss"))
	addFamilies(t, s.Families, createdBy(&store.User{ID: "boss"}, "of a declared actor"), createdBy(&store.User{ID: "declared"}, "of another"))
}

// standingIsNotKept: a store checks the preconditions of a family and does not keep them.
func standingIsNotKept(t *testing.T, s store.Store) {
	boss := addUser(t, s, user("boss"))
	addFamilies(t, s.Families, session("live"))
	both := createdBy(boss, "both")
	both.Preconditions.SessionID = "live"
	for _, f := range []*store.TokenFamily{approvedIn("live", "approved"), createdBy(boss, "created"), both} {
		given := f.Preconditions
		addFamilies(t, s.Families, f)
		if f.Preconditions != given {
			t.Errorf("the store has changed the caller's Standing to %+v", f.Preconditions)
		}
		sameFamily(t, readFamily(t, s.Families, f.ID), kept(f))
	}
	list, err := s.Families.FamiliesOf(t.Context(), "ada", time.Time{})
	must(t, err)
	for _, f := range list {
		sameFamily(t, f, kept(f))
	}
	// The end of the session alone does not end what was approved in it: the core decides that.
	end(t, s.Families, store.FamilyFilter{ID: "live"})
	sameFamily(t, readFamily(t, s.Families, "approved"), kept(approvedIn("live", "approved")))
	must(t, Used(s.Families.RedeemCode(t.Context(), "approved", store.Redemption{At: now, Generation: 1, ExpiresAt: now.Add(time.Hour), MaxFailures: 5})))
}

// actorsFamiliesEndWithTheActor (M24): a change or removal of a user ends what the user created for others, in the same step, and nothing
// of other actors.
func actorsFamiliesEndWithTheActor(t *testing.T, s store.Store) {
	disabled := store.UserDisabled
	for name, step := range map[string]func(id string) ([]store.Revocation, error){
		"changed": func(id string) ([]store.Revocation, error) {
			return s.Users.ChangeUser(t.Context(), id, store.UserChange{}, theEnd)
		},
		"disabled": func(id string) ([]store.Revocation, error) {
			return s.Users.ChangeUser(t.Context(), id, edit(func(u *store.User) { u.Status = disabled }), theEnd)
		},
		"removed": func(id string) ([]store.Revocation, error) { return s.Users.RemoveUser(t.Context(), id, theEnd) },
	} {
		boss, other := addUser(t, s, user(name)), addUser(t, s, user(name+" not"))
		own, forOneself := familyOf(boss, name+" own"), createdBy(boss, name+" for oneself")
		forOneself.User.ID, forOneself.User.Version, forOneself.User.Declared = boss.ID, boss.Version, false
		stays := []*store.TokenFamily{familyOf(other, name+" of another user"), createdBy(other, name+" by another actor"), family(name + " of ada")}
		addFamilies(t, s.Families, own, forOneself, createdBy(boss, name+" first"), createdBy(boss, name+" second"))
		addFamilies(t, s.Families, stays...)
		_, position := follow(t, s.Revocations, store.FeedPosition{})
		ended, err := step(boss.ID)
		must(t, err)
		want := []string{own.ID, forOneself.ID, name + " first", name + " second"}
		sameEndings(t, s, ended, want...)
		got, _ := follow(t, s.Revocations, position)
		for i, id := range want {
			want[i] = "family " + id
		}
		sameNames(t, got, want...)
		for _, f := range stays {
			sameFamily(t, readFamily(t, s.Families, f.ID), kept(f))
		}
	}
}

// endFamiliesByActor: the actor is a member of the filter like the others, and sufficient alone. A family without an actor does not match
// an actor with an empty name.
func endFamiliesByActor(t *testing.T, s store.Store) {
	by := func(actor, id string, origin oauth.GrantType) *store.TokenFamily {
		f := createdBy(&store.User{ID: actor}, id)
		f.Origin = origin
		return f
	}
	minted, coded := store.AdminCreated, oauth.AuthorizationCode
	all := []*store.TokenFamily{
		by("boss", "minted", minted), by("boss", "coded", coded), by("boss ", "spaced", minted), by("Boss", "folded", minted),
		by("ada", "by ada", minted), by("", "by nobody", minted),
	}
	addFamilies(t, s.Families, all...)
	for _, which := range []store.FamilyFilter{
		{}, {Origins: []oauth.GrantType{minted}}, {ActorID: "nobody"}, {ActorID: "boss", UserID: "boss"},
		{ActorID: "boss", ClientID: "web"}, {ActorID: "boss", ID: "by ada"}, {ActorID: "%"}, {ActorID: "bos_"},
		{ActorID: "boss", Origins: []oauth.GrantType{oauth.PasswordGrant}},
	} {
		sameEndings(t, s, end(t, s.Families, which))
	}
	for _, f := range all {
		sameFamily(t, readFamily(t, s.Families, f.ID), f)
	}
	_, position := follow(t, s.Revocations, store.FeedPosition{})
	sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ActorID: "boss", Origins: []oauth.GrantType{coded}}), "coded")
	sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ActorID: "boss"}), "minted")
	sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ActorID: "boss"})) // nothing is left to end
	got, _ := follow(t, s.Revocations, position)
	sameNames(t, got, "family coded", "family minted")
	sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ActorID: "ada", UserID: "ada", ClientID: "app"}), "by ada")
	for _, f := range []*store.TokenFamily{all[2], all[3], all[5]} {
		sameFamily(t, readFamily(t, s.Families, f.ID), f)
	}
}

// standingRounds is how often an end is raced against additions of families that depend on what it ends.
const standingRounds = 50

// familyBornBesideTheEndOfItsSession (T96): an approval concurrent with the end of its session is refused, or precedes the end and is
// ended by it.
func familyBornBesideTheEndOfItsSession(t *testing.T, s store.Store) {
	for round := range standingRounds {
		id := fmt.Sprint("session ", round)
		addFamilies(t, s.Families, session(id))
		bornBesideTheEnd(t, s, fmt.Sprint("round ", round), store.Revoked, func(name string) *store.TokenFamily { return approvedIn(id, name) },
			func() ([]store.Revocation, error) {
				return s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: "ada"}, theEnd)
			})
	}
}

// familyBornBesideTheEndOfItsActor (M28): a creation concurrent with the end of its actor is refused, or precedes the end and is ended by
// it.
func familyBornBesideTheEndOfItsActor(t *testing.T, s store.Store) {
	for round := range standingRounds {
		boss := addUser(t, s, user(fmt.Sprint("boss ", round)))
		bornBesideTheEnd(t, s, fmt.Sprint("round ", round), store.UserChanged, func(name string) *store.TokenFamily { return createdBy(boss, name) },
			func() ([]store.Revocation, error) {
				if round%2 == 0 {
					return s.Users.RemoveUser(t.Context(), boss.ID, theEnd)
				}
				return s.Users.ChangeUser(t.Context(), boss.ID, store.UserChange{}, theEnd)
			})
	}
}

// bornBesideTheEnd lets several callers add families until they are refused, while another ends what the families depend on. Added
// families have ended, and refused ones do not exist.
func bornBesideTheEnd(t *testing.T, s store.Store, round string, why store.Outcome, next func(name string) *store.TokenFamily, end func() ([]store.Revocation, error)) {
	t.Helper()
	const callers = 3
	var births [callers][]string
	var refused [callers]string
	var over atomic.Bool
	errs := race(callers+1, func(i int) error {
		if i == callers {
			defer over.Store(true)
			_, err := end()
			return err
		}
		for {
			id, late := fmt.Sprint(round, " ", i, " ", len(births[i])), over.Load()
			if err := Done(s.Families.AddFamily(t.Context(), next(id))); err != nil {
				refused[i] = id
				return err
			}
			if late {
				return errors.New("a family was born after the end was acknowledged")
			}
			births[i] = append(births[i], id)
		}
	})
	must(t, errs[callers])
	for i, err := range errs[:callers] {
		if !errors.Is(err, Refused(why)) {
			t.Fatalf("%s: got error %v, want %v", round, err, why)
		}
		noFamily(t, s.Families, refused[i])
	}
	feed := recorded(t, s.Revocations)
	for _, id := range slices.Concat(births[:]...) {
		if readFamily(t, s.Families, id).RevokedAt.IsZero() || feed["family "+id].ExpiresAt.IsZero() {
			t.Errorf("%s: family %q lives after the end of what it stands on", round, id)
		}
	}
}
