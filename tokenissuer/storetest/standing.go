package storetest

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// session returns a browser session of the declared user "ada".
func session(id string) *store.TokenFamily {
	return with(refreshed(id), func(f *store.TokenFamily) {
		f.Origin, f.Actor, f.Refresh.Generation = store.BrowserSession, store.Actor{}, 0
	})
}

// approvedIn returns a family that was approved in a session.
func approvedIn(sessionID, id string) *store.TokenFamily {
	return with(family(id), func(f *store.TokenFamily) { f.Preconditions.SessionID = sessionID })
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

var standingChecks = []check{
	// Callers that end a session can rely on AddFamily failing for it afterwards, even for an approval that began before.
	{name: "T96FamilyOfASessionThatEnded", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, session("live"), session("by id"), session("beside"))
		addFamilies(t, s.Families, approvedIn("live", "before"), approvedIn("by id", "by id, before"))
		u := addUser(t, s, user("bob"))
		addFamilies(t, s.Families, ownedBy(u, session("of bob")), with(session("of another client"), func(f *store.TokenFamily) { f.ClientID = "gatehouse" }))
		end(t, s.Families, store.FamilyFilter{ID: "by id"})
		end(t, s.Families, store.FamilyFilter{ClientID: "gatehouse"})
		ok(s.Users.ChangeUser(t.Context(), "bob", store.UserChange{}, theEnd))(t)
		for _, ended := range []string{"by id", "of another client", "of bob", "unknown", "liv", "live ", "LIVE", "%"} {
			refusedAs(t, s, store.Revoked, "in the session "+ended, approvedIn(ended, "in "+ended))
		}
		addFamilies(t, s.Families, approvedIn("live", "after"), approvedIn("beside", "in the one beside"))
		end(t, s.Families, store.FamilyFilter{UserID: "ada"})
		refusedAs(t, s, store.Revoked, "everywhere", approvedIn("live", "everywhere"))
		addFamilies(t, s.Families, family("without a session"))
	}},
	// A user who is no longer an admin creates nothing for others, even if the creation began before.
	{name: "M24FamilyOfAStaleActor", test: func(t *testing.T, s store.Store) {
		refusedWhenStale(t, s, createdBy)
		boss := addUser(t, s, user("boss"))
		refusedAs(t, s, store.UserChanged, "unknown", createdBy(&store.User{ID: "nobody", Version: boss.Version}, "of nobody"))
		refusedAs(t, s, store.UserChanged, "another version", createdBy(&store.User{ID: "boss", Version: boss.Version + " "}, "another version"))
		target := addUser(t, s, user("target"))
		addFamilies(t, s.Families, createdBy(boss, "good"), ownedBy(target, createdBy(boss, "target and actor")))

		// A declared actor has no version, and a stored user of the same id is not the actor.
		ok(s.Users.ChangeUser(t.Context(), "boss", edit(func(u *store.User) { u.Status = store.UserDisabled }), theEnd))(t)
		addFamilies(t, s.Families, createdBy(&store.User{ID: "boss"}, "of a declared actor"), createdBy(&store.User{ID: "declared"}, "of another"))
	}},
	// A store checks the preconditions of a family and does not keep them.
	{name: "StandingIsNotKept", test: func(t *testing.T, s store.Store) {
		boss := addUser(t, s, user("boss"))
		addFamilies(t, s.Families, session("live"))
		both := with(createdBy(boss, "both"), func(f *store.TokenFamily) { f.Preconditions.SessionID = "live" })
		for _, f := range []*store.TokenFamily{approvedIn("live", "approved"), createdBy(boss, "created"), both} {
			given := f.Preconditions
			addFamilies(t, s.Families, f)
			if f.Preconditions != given {
				t.Errorf("the store has changed the caller's Standing to %+v", f.Preconditions)
			}
			wantFamilies(t, s.Families, kept(f))
		}
		list := ok(s.Families.FamiliesOf(t.Context(), "ada", time.Time{}))(t)
		for _, f := range list {
			same(t, f, kept(f))
		}
		// The end of the session alone does not end what was approved in it: the core decides that.
		end(t, s.Families, store.FamilyFilter{ID: "live"})
		wantFamilies(t, s.Families, kept(approvedIn("live", "approved")))
		must(t, Used(s.Families.RedeemCode(t.Context(), "approved", store.Redemption{At: now, Generation: 1, ExpiresAt: now.Add(time.Hour), MaxFailures: 5})))
	}},
	// A change or removal of a user ends what the user created for others, in the same step, and nothing of other actors.
	{name: "M24ActorsFamiliesEndWithTheActor", test: func(t *testing.T, s store.Store) {
		for name, step := range map[string]func(id string) ([]store.Revocation, error){
			"changed": func(id string) ([]store.Revocation, error) {
				return s.Users.ChangeUser(t.Context(), id, store.UserChange{}, theEnd)
			},
			"disabled": func(id string) ([]store.Revocation, error) {
				return s.Users.ChangeUser(t.Context(), id, edit(func(u *store.User) { u.Status = store.UserDisabled }), theEnd)
			},
			"removed": func(id string) ([]store.Revocation, error) { return s.Users.RemoveUser(t.Context(), id, theEnd) },
		} {
			boss, other := addUser(t, s, user(name)), addUser(t, s, user(name+" not"))
			own, forOneself := familyOf(boss, name+" own"), ownedBy(boss, createdBy(boss, name+" for oneself"))
			stays := []*store.TokenFamily{familyOf(other, name+" of another user"), createdBy(other, name+" by another actor"), family(name + " of ada")}
			addFamilies(t, s.Families, own, forOneself, createdBy(boss, name+" first"), createdBy(boss, name+" second"))
			addFamilies(t, s.Families, stays...)
			_, position := follow(t, s.Revocations, store.FeedPosition{})
			ended := ok(step(boss.ID))(t)
			want := []string{own.ID, forOneself.ID, name + " first", name + " second"}
			sameEndings(t, s, ended, want...)
			got, _ := follow(t, s.Revocations, position)
			for i, id := range want {
				want[i] = "family " + id
			}
			sameNames(t, got, want...)
			for _, f := range stays {
				wantFamilies(t, s.Families, kept(f))
			}
		}
	}},
	// The actor is a member of the filter like the others, and sufficient alone. A family without an actor does not match an actor with an
	// empty name.
	{name: "EndFamiliesByActor", test: func(t *testing.T, s store.Store) {
		by := func(actor, id string, origin oauth.GrantType) *store.TokenFamily {
			return with(createdBy(&store.User{ID: actor}, id), func(f *store.TokenFamily) { f.Origin = origin })
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
		wantFamilies(t, s.Families, all...)
		_, position := follow(t, s.Revocations, store.FeedPosition{})
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ActorID: "boss", Origins: []oauth.GrantType{coded}}), "coded")
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ActorID: "boss"}), "minted")
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ActorID: "boss"})) // nothing is left to end
		got, _ := follow(t, s.Revocations, position)
		sameNames(t, got, "family coded", "family minted")
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ActorID: "ada", UserID: "ada", ClientID: "app"}), "by ada")
		wantFamilies(t, s.Families, all[2], all[3], all[5])
	}},
}
