package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// unlinking returns an Unlinking from a user who may lose the last identity.
func unlinking(provider, subject, userID string) store.Unlinking {
	return store.Unlinking{Provider: provider, Subject: subject, UserID: userID, MayBeLast: true}
}

// unlink unlinks an identity from a user without families.
func unlink(t *testing.T, s store.Store, provider, subject, userID string) {
	t.Helper()
	sameRevocations(t, s, ok(s.Identities.UnlinkIdentity(t.Context(), unlinking(provider, subject, userID), theEnd))(t))
	noIdentity(t, s, provider, subject)
}

// noneToUnlink checks that unlinking fails because the user does not have the identity.
func noneToUnlink(t *testing.T, s store.Store, provider, subject, userID string) {
	t.Helper()
	mustBe(t, errOf(s.Identities.UnlinkIdentity(t.Context(), unlinking(provider, subject, userID), theEnd)), store.ErrNotFound)
}

func signedInWith(u *store.User, subject, id string) *store.TokenFamily {
	return with(ownedBy(u, session(id)), func(f *store.TokenFamily) { f.SignIn.Provider, f.Preconditions.Subject = "corp", subject })
}

// linkedUsers adds a stored user, and returns it and a declared one.
func linkedUsers(t *testing.T, s store.Store, id string) []*store.User {
	t.Helper()
	return []*store.User{addUser(t, s, user(id)), {ID: id + " declared", Email: id + "@declared.example", Version: "any", Declared: true}}
}

func identityOf(u *store.User, provider, subject string) store.Identity {
	i := identity(provider, subject, u.ID)
	i.DeclaredEmail = u.DeclaredEmail()
	return i
}

var unlinkingChecks = []check{
	// A sign-in with an identity that is unlinked concurrently is refused, or ends with the unlinking.
	{name: "P110SignedInBesideTheUnlink", beside: func(t *testing.T, unlinks, adding store.Store) {
		for round := range raceRounds {
			u, subject := linkedUsers(t, unlinks, fmt.Sprint("user ", round))[round%2], fmt.Sprint("subject ", round)
			must(t, unlinks.Identities.LinkIdentity(t.Context(), identityOf(u, "corp", subject)))
			bornBeside(t, unlinks, adding, store.UserChanged,
				func(name string) *store.TokenFamily { return signedInWith(u, subject, name) },
				func() ([]store.Revocation, error) {
					return unlinks.Identities.UnlinkIdentity(t.Context(), unlinking("corp", subject, u.ID), theEnd)
				})
		}
	}},
	// The identity with which a user signed in must be that user's, byte for byte. If not, the request is not decided. The precondition is
	// not kept.
	{name: "P110SignInNeedsItsIdentity", test: func(t *testing.T, s store.Store) {
		for _, u := range linkedUsers(t, s, "ada") {
			must(t, s.Identities.LinkIdentity(t.Context(), identityOf(u, "corp", u.ID)))
			for name, change := range map[string]func(f *store.TokenFamily){
				"another's": func(f *store.TokenFamily) { f.User.ID, f.User.Version, f.User.Declared = "bob", "1", true },
				"subject":   func(f *store.TokenFamily) { f.Preconditions.Subject += " " },
				"provider":  func(f *store.TokenFamily) { f.SignIn.Provider = "Corp" },
			} {
				f := signedInWith(u, u.ID, u.ID+name)
				change(f)
				refusedAs(t, s, store.UserChanged, u.ID+name, f)
			}
			f := with(signedInWith(u, u.ID, "sign-in of "+u.ID), func(f *store.TokenFamily) { f.Code.RequestID = "form of " + u.ID })
			addFamilies(t, s.Families, f)
			want := *f
			want.Preconditions = store.Preconditions{}
			wantFamilies(t, s.Families, &want)
		}
	}},
	// In the same step and with a revocation each: sign-ins and their host sessions, codes, refresh tokens and families of the password
	// grant. The sign-in that is kept goes on with its host sessions, and so do families of other providers and of other users.
	{name: "P111UnlinkEndsWhatCameOfTheProvider", test: func(t *testing.T, s store.Store) {
		for _, u := range linkedUsers(t, s, "ada") {
			by := func(provider string, f *store.TokenFamily) *store.TokenFamily {
				f.ID = u.ID + " " + f.ID
				ownedBy(u, f).SignIn.Provider = provider
				f.Code.RequestID = "of " + f.ID
				if f.Preconditions.SessionID != "" {
					f.SignIn.SessionID = u.ID + " " + f.SignIn.SessionID
					f.Preconditions.SessionID = f.SignIn.SessionID
				}
				return f
			}
			ids := func(families ...*store.TokenFamily) (ids []string) {
				for _, f := range families {
					ids = append(ids, f.ID)
				}
				return ids
			}
			must(t, s.Identities.LinkIdentity(t.Context(), identityOf(u, "corp", u.ID)))
			must(t, s.Identities.LinkIdentity(t.Context(), identityOf(u, "other", u.ID)))
			alone := with(by("corp", hostSession("", "alone")), func(f *store.TokenFamily) { f.SignIn.SessionID, f.Preconditions.SessionID = "", "" })
			ends := []*store.TokenFamily{
				by("corp", session("sign-in")), by("corp", hostSession("sign-in", "host")), by("", hostSession("sign-in", "host of a build before")), alone,
				by("corp", family("code")), by("corp", refreshed("password")), by("corp", hostSession("other", "strange")),
			}
			stays := []*store.TokenFamily{by("corp", session("kept")), by("corp", hostSession("kept", "host of the kept one")), by("", session("own")), by("other", session("other")), by("Corp", refreshed("case"))}
			another := with(refreshed(u.ID+" of bob"), func(f *store.TokenFamily) { f.User.ID, f.SignIn.Provider = "bob", "corp" })
			addFamilies(t, s.Families, stays...)
			addFamilies(t, s.Families, append(ends, another)...)

			u := unlinking("corp", u.ID, u.ID)
			u.KeepSession = stays[0].ID
			sameEndings(t, s, ok(s.Identities.UnlinkIdentity(t.Context(), u, theEnd))(t), ids(ends...)...)
			for _, f := range append(stays, another) {
				if !readFamily(t, s.Families, f.ID).RevokedAt.IsZero() {
					t.Errorf("%s has ended", f.ID)
				}
			}
		}
	}},
	// Of two concurrent unlinkings of a user's identities one is refused.
	{name: "P112OneWayInIsLeft", beside: func(t *testing.T, a, b store.Store) {
		stores := []store.Store{a, b}
		for round := range raceRounds {
			u, providers := linkedUsers(t, a, fmt.Sprint("user ", round))[round%2], []string{"corp", "other"}
			for _, provider := range providers {
				must(t, a.Identities.LinkIdentity(t.Context(), identityOf(u, provider, u.ID)))
			}
			errs := race(2, func(i int) error {
				return errOf(stores[i].Identities.UnlinkIdentity(t.Context(), store.Unlinking{Provider: providers[i], Subject: u.ID, UserID: u.ID, WaysIn: providers}, theEnd))
			})
			oneWinner(t, errs, store.ErrLastWayIn)
			if list, err := b.Identities.Identities(t.Context(), u.ID); err != nil || len(list) != 1 {
				t.Fatalf("round %d: %+v are left, %v", round, list, err)
			}
		}
	}},
	// Only an identity of a provider at which people can sign in counts, and a user who has another way to sign in can lose the last one.
	{name: "P112LastWayIn", test: func(t *testing.T, s store.Store) {
		for _, u := range linkedUsers(t, s, "ada") {
			must(t, s.Identities.LinkIdentity(t.Context(), identityOf(u, "corp", u.ID)))
			must(t, s.Identities.LinkIdentity(t.Context(), identityOf(u, "gone", u.ID)))
			addFamilies(t, s.Families, signedInWith(u, u.ID, "sign-in of "+u.ID))
			for name, waysIn := range map[string][]string{"none": nil, "itself": {"corp"}, "another's": {"corp", "Gone", "other"}} {
				_, err := s.Identities.UnlinkIdentity(t.Context(), store.Unlinking{Provider: "corp", Subject: u.ID, UserID: u.ID, WaysIn: waysIn}, theEnd)
				if !errors.Is(err, store.ErrLastWayIn) {
					t.Errorf("%s: %v", name, err)
				}
			}
			sameIdentities(t, s, u.ID, identityOf(u, "corp", u.ID), identityOf(u, "gone", u.ID))
			if !readFamily(t, s.Families, "sign-in of "+u.ID).RevokedAt.IsZero() {
				t.Error("the sign-in has ended")
			}
			unlink(t, s, "gone", u.ID, u.ID)
			sameEndings(t, s, ok(s.Identities.UnlinkIdentity(t.Context(), unlinking("corp", u.ID, u.ID), theEnd))(t), "sign-in of "+u.ID)
			sameIdentities(t, s, u.ID)
		}
	}},
	// The change ends the identities and everything that the user was granted, including personal access tokens.
	{name: "P116UnlinkIdentitiesOfAChangedUser", test: func(t *testing.T, s store.Store) {
		ada := addUser(t, s, user("ada")) // has a password and stays active
		addUser(t, s, user("bob"))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "1", "ada")))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("other", "1", "ada")))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "2", "bob")))
		addFamilies(t, s.Families, signedInWith(ada, "1", "sign-in"), familyOf(ada, "by password"))
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), &store.PersonalToken{ID: "token", UserID: "ada", ExpiresAt: now.Add(time.Hour), CreatedAt: now}, ada.Version))
		ended := ok(s.Users.ChangeUser(t.Context(), "ada", store.UserChange{VerifiesEmail: true, UnlinkIdentities: true}, theEnd))(t)
		var ids []string
		for _, r := range ended {
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, []string{"by password", "sign-in", "token"}) {
			t.Errorf("ended are %q", ids)
		}
		sameIdentities(t, s, "ada")
		noIdentity(t, s, "corp", "1")
		sameIdentities(t, s, "bob", identity("corp", "2", "bob"))
		if tokens, err := s.PersonalTokens.PersonalTokens(t.Context(), "ada"); err != nil || len(tokens) > 0 {
			t.Errorf("the tokens are %+v, %v", tokens, err)
		}
		if after := readUser(t, s.Users, "ada"); after.EmailVerifiedBy != store.VerifiedByOperator || len(after.ProviderGroups) > 0 || after.Version == ada.Version || !after.IsActive() {
			t.Errorf("the user is %+v", after)
		}
		refusedAs(t, s, store.UserChanged, "late", signedInWith(ada, "1", "late"))
	}},
	// What a provider said is removed with its identity, what others said stays. A removal of groups ends every family.
	{name: "V1UnlinkTakesTheProvidersWord", test: func(t *testing.T, s store.Store) {
		by := store.VerifiedBy("corp")
		for id, c := range map[string]struct {
			change store.UserChange
			by     string
			groups []string
			fewer  bool
		}{
			"address":     {tell(func(u *store.User) { u.EmailVerifiedBy = by }), "", nil, false},
			"operator":    {store.UserChange{}, store.VerifiedByOperator, nil, false},
			"groups":      {edit(func(u *store.User) { u.ProviderGroups = []string{"a"}; u.GroupsBy = "corp" }), store.VerifiedByOperator, nil, true},
			"no groups":   {edit(func(u *store.User) { u.ProviderGroups = []string{}; u.GroupsBy = "corp" }), store.VerifiedByOperator, nil, false},
			"of another":  {edit(func(u *store.User) { u.ProviderGroups = []string{"a"}; u.GroupsBy = by }), store.VerifiedByOperator, []string{"a"}, false},
			"all of that": {edit(func(u *store.User) { u.EmailVerifiedBy = by; u.ProviderGroups = []string{"a"}; u.GroupsBy = "corp" }), "", nil, true},
		} {
			addUser(t, s, with(user(id), func(u *store.User) { u.ProviderGroups, u.GroupsBy = nil, "" }))
			must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", id, id)))
			must(t, s.Identities.LinkIdentity(t.Context(), identity("other", id, id)))
			if c.change.Edit != nil {
				ok(s.Users.ChangeUser(t.Context(), id, c.change, theEnd))(t)
			}
			before := readUser(t, s.Users, id)
			addFamilies(t, s.Families, familyOf(before, "by password "+id))
			ended := ok(s.Identities.UnlinkIdentity(t.Context(), unlinking("corp", id, id), theEnd))(t)
			after := readUser(t, s.Users, id)
			if after.EmailVerifiedBy != c.by || !slices.Equal(after.ProviderGroups, c.groups) || !slices.Equal(after.Groups, before.Groups) {
				t.Errorf("%s: the user is %+v", id, after)
			}
			if (after.Version != before.Version) != c.fewer || (len(ended) > 0) != c.fewer {
				t.Errorf("%s: from version %s to %s, ended %v", id, before.Version, after.Version, ended)
			}
		}
		for _, was := range []string{by, ""} { // the address is the provider's
			for how, c := range map[string]struct {
				unlinks func(id string)
				created bool
				want    string
			}{
				"the user": {func(id string) { ok(s.Identities.UnlinkIdentity(t.Context(), unlinking("corp", id, id), theEnd))(t) }, true, store.Unvouched},
				"an operator": {func(id string) {
					ok(s.Users.ChangeUser(t.Context(), id, store.UserChange{UnlinkIdentities: true}, theEnd))(t)
				}, true, store.Unvouched},
				"an operator his own": {func(id string) {
					ok(s.Users.ChangeUser(t.Context(), id, store.UserChange{UnlinkIdentities: true}, theEnd))(t)
				}, false, ""},
			} {
				id := how + was
				addUser(t, s, with(user(id), func(u *store.User) { u.EmailVerifiedBy = was }))
				linked := identity("corp", id, id)
				linked.Created = c.created
				must(t, s.Identities.LinkIdentity(t.Context(), linked))
				c.unlinks(id)
				if after := readUser(t, s.Users, id); after.EmailVerifiedBy != c.want {
					t.Errorf("verified by %q, unlinked by %s: by %q after it", was, how, after.EmailVerifiedBy)
				}
			}
		}
	}},
	// A change that ends nothing updates the identities of its user, and never those of others.
	{name: "V1IdentitiesOfChangedUsers", test: func(t *testing.T, s store.Store) {
		corp := store.VerifiedBy("corp")
		same, taken := user("same").Email, user("bob").Email
		first, second := now.Add(-48*time.Hour), now.Add(-24*time.Hour)
		addUser(t, s, user("bob"))
		bobs := identity("corp", "bob", "bob")
		bobs.Vouches, bobs.LinkedAt = false, first
		must(t, s.Identities.LinkIdentity(t.Context(), bobs))
		for id, c := range map[string]struct {
			before [2]bool // whether each identity vouches
			change store.UserChange
			err    error
			after  [2]bool
		}{
			"a provider vouches for its own":         {[2]bool{false, true}, tell(func(u *store.User) { u.EmailVerifiedBy = corp }), nil, [2]bool{false, true}},
			"an operator vouches for all":            {[2]bool{false, true}, store.UserChange{KeepsTokens: true, VerifiesEmail: true}, nil, [2]bool{true, true}},
			"same":                                   {[2]bool{true, true}, tell(func(u *store.User) { u.SetEmail(same) }), nil, [2]bool{true, true}},
			"an address that is taken":               {[2]bool{true, true}, tell(func(u *store.User) { u.SetEmail(taken) }), store.ErrEmailTaken, [2]bool{true, true}},
			"another address":                        {[2]bool{true, true}, tell(func(u *store.User) { u.SetEmail("other@acme.example") }), nil, [2]bool{false, false}},
			"another address that a provider says":   {[2]bool{true, true}, tell(func(u *store.User) { u.SetEmail("next@acme.example"); u.EmailVerifiedBy = corp }), nil, [2]bool{false, false}},
			"another address that an operator knows": {[2]bool{false, true}, store.UserChange{KeepsTokens: true, VerifiesEmail: true, Edit: func(u *store.User) error { u.SetEmail("last@acme.example"); return nil }}, nil, [2]bool{true, true}},
			"kept identities":                        {[2]bool{false, true}, store.UserChange{KeepsTokens: true, KeepIdentities: true}, nil, [2]bool{false, true}},
		} {
			before := addUser(t, s, user(id))
			of := func(vouches [2]bool) (two []store.Identity) {
				for i, provider := range []string{"corp", "other"} {
					linked := identity(provider, id, id)
					linked.Vouches, linked.LinkedAt = vouches[i], []time.Time{first, second}[i]
					two = append(two, linked)
				}
				return two
			}
			for _, i := range of(c.before) {
				must(t, s.Identities.LinkIdentity(t.Context(), i))
			}
			ended, err := s.Users.ChangeUser(t.Context(), id, c.change, theEnd)
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v", id, err)
			}
			sameRevocations(t, s, ended)
			want := of(c.after)
			if c.change.KeepIdentities {
				want[0].LinkedAt, want[1].LinkedAt = theEnd.At, theEnd.At
			}
			sameIdentities(t, s, id, want...)
			if after := readUser(t, s.Users, id); after.Version != before.Version {
				t.Errorf("%s: from version %s to %s", id, before.Version, after.Version)
			}
			sameIdentities(t, s, "bob", bobs)
		}
	}},
	// TouchIdentity advances the last use of an identity, and creates none.
	{name: "P113TouchIdentity", test: func(t *testing.T, s store.Store) {
		addUser(t, s, user("ada"))
		first := identity("corp", "1", "ada")
		must(t, s.Identities.LinkIdentity(t.Context(), first))
		touched := first
		touched.LinkedAt, touched.LastUsedAt, touched.DeclaredEmail = now, now.Add(time.Hour), "else@acme.example"
		must(t, s.Identities.TouchIdentity(t.Context(), touched))
		first.LastUsedAt = touched.LastUsedAt
		sameIdentities(t, s, "ada", first)
		first.RefreshToken = "a newer token"
		must(t, s.Identities.TouchIdentity(t.Context(), first))
		sameIdentities(t, s, "ada", first)
		touched.RefreshToken = ""
		must(t, s.Identities.TouchIdentity(t.Context(), touched)) // keeps the token
		sameIdentities(t, s, "ada", first)
		for name, i := range map[string]store.Identity{
			"unknown": identity("corp", "2", "ada"), "another's": identity("corp", "1", "bob"), "no text": identity("corp", "\x00\xff", "ada"),
		} {
			if err := s.Identities.TouchIdentity(t.Context(), i); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		sameIdentities(t, s, "ada", first)
		sameIdentities(t, s, "bob")
	}},
	// A touch does not restore an identity that is unlinked concurrently.
	{name: "P113TouchedBesideTheUnlink", beside: func(t *testing.T, unlinks, touching store.Store) {
		u := addUser(t, unlinks, user("ada"))
		for round := range raceRounds {
			i := identityOf(u, "corp", fmt.Sprint(round))
			must(t, unlinks.Identities.LinkIdentity(t.Context(), i))
			touch := func() error { return touching.Identities.TouchIdentity(t.Context(), i) }
			besideTheEnd(t, store.ErrNotFound, func() ([]store.Revocation, error) {
				return unlinks.Identities.UnlinkIdentity(t.Context(), unlinking(i.Provider, i.Subject, u.ID), theEnd)
			}, touch, touch)
			sameIdentities(t, touching, "ada")
		}
	}},
}
