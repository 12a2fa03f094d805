package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var unlinkingChecks = []check{
	{name: "P110SignedInBesideTheUnlink", beside: signedInBesideTheUnlink},
	{name: "P110SignInNeedsItsIdentity", test: signInNeedsItsIdentity},
	{name: "P111UnlinkEndsWhatCameOfTheProvider", test: unlinkEndsWhatCameOfTheProvider},
	{name: "P112OneWayInIsLeft", beside: oneWayInIsLeft},
	{name: "P112LastWayIn", test: lastWayIn},
	{name: "P116UnlinkIdentitiesOfAChangedUser", test: unlinkIdentitiesOfAChangedUser},
	{name: "V1UnlinkTakesTheProvidersWord", test: unlinkTakesTheProvidersWord},
	{name: "V1IdentitiesOfChangedUsers", test: identitiesOfChangedUsers},
	{name: "P113TouchIdentity", test: touchIdentity},
	{name: "P113TouchedBesideTheUnlink", beside: touchedBesideTheUnlink},
}

// unlinking returns an Unlinking from a user who may lose the last identity.
func unlinking(provider, subject, userID string) store.Unlinking {
	return store.Unlinking{Provider: provider, Subject: subject, UserID: userID, MayBeLast: true}
}

// unlink unlinks an identity from a user without families.
func unlink(t *testing.T, s store.Store, provider, subject, userID string) {
	t.Helper()
	ended, err := s.Identities.UnlinkIdentity(t.Context(), unlinking(provider, subject, userID), theEnd)
	must(t, err)
	sameRevocations(t, s, ended)
	noIdentity(t, s, provider, subject)
}

// noneToUnlink checks that unlinking fails because the user does not have the identity.
func noneToUnlink(t *testing.T, s store.Store, provider, subject, userID string) {
	t.Helper()
	_, err := s.Identities.UnlinkIdentity(t.Context(), unlinking(provider, subject, userID), theEnd)
	mustBe(t, err, store.ErrNotFound)
}

func signedInWith(u *store.User, subject, id string) *store.TokenFamily {
	f := session(id)
	f.User.ID, f.User.Version, f.User.Declared = u.ID, u.Version, u.Declared
	f.SignIn.Provider, f.Preconditions.Subject = "corp", subject
	return f
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

// signedInBesideTheUnlink (P110): a sign-in with an identity that is unlinked concurrently is refused, or ends with the unlinking. Stores
// are two on one place, or one twice.
func signedInBesideTheUnlink(t *testing.T, unlinks, adding store.Store) {
	for round := range standingRounds {
		u, subject := linkedUsers(t, unlinks, fmt.Sprint("user ", round))[round%2], fmt.Sprint("subject ", round)
		must(t, unlinks.Identities.LinkIdentity(t.Context(), identityOf(u, "corp", subject)))
		bornBesideTheEnd(t, adding, "round "+subject, store.UserChanged,
			func(name string) *store.TokenFamily { return signedInWith(u, subject, name) },
			func() ([]store.Revocation, error) {
				return unlinks.Identities.UnlinkIdentity(t.Context(), unlinking("corp", subject, u.ID), theEnd)
			})
	}
}

// signInNeedsItsIdentity (P110): the identity with which a user signed in must be that user's, byte for byte. If not, the request is not
// decided. The precondition is not kept.
func signInNeedsItsIdentity(t *testing.T, s store.Store) {
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
		f := signedInWith(u, u.ID, "sign-in of "+u.ID)
		f.Code.RequestID = "form of " + u.ID
		addFamilies(t, s.Families, f)
		want := *f
		want.Preconditions = store.Preconditions{}
		sameFamily(t, readFamily(t, s.Families, f.ID), &want)
	}
}

// unlinkEndsWhatCameOfTheProvider (P111): in the same step and with a revocation each: sign-ins and their host sessions, codes, refresh
// tokens and families of the password grant. The sign-in that is kept goes on with its host sessions, and so do families of other
// providers and of other users.
func unlinkEndsWhatCameOfTheProvider(t *testing.T, s store.Store) {
	for _, u := range linkedUsers(t, s, "ada") {
		by := func(provider string, f *store.TokenFamily) *store.TokenFamily {
			f.ID = u.ID + " " + f.ID
			f.SignIn.Provider, f.User.ID, f.User.Version, f.User.Declared = provider, u.ID, u.Version, u.Declared
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
		alone := by("corp", hostSession("", "alone"))
		alone.SignIn.SessionID, alone.Preconditions.SessionID = "", ""
		ends := []*store.TokenFamily{
			by("corp", session("sign-in")), by("corp", hostSession("sign-in", "host")), by("", hostSession("sign-in", "host of a build before")), alone,
			by("corp", family("code")), by("corp", refreshed("password")), by("corp", hostSession("other", "strange")),
		}
		stays := []*store.TokenFamily{by("corp", session("kept")), by("corp", hostSession("kept", "host of the kept one")), by("", session("own")), by("other", session("other")), by("Corp", refreshed("case"))}
		another := refreshed(u.ID + " of bob")
		another.User.ID, another.SignIn.Provider = "bob", "corp"
		addFamilies(t, s.Families, stays...)
		addFamilies(t, s.Families, append(ends, another)...)

		u := unlinking("corp", u.ID, u.ID)
		u.KeepSession = stays[0].ID
		ended, err := s.Identities.UnlinkIdentity(t.Context(), u, theEnd)
		must(t, err)
		sameEndings(t, s, ended, ids(ends...)...)
		for _, f := range append(stays, another) {
			if !readFamily(t, s.Families, f.ID).RevokedAt.IsZero() {
				t.Errorf("%s has ended", f.ID)
			}
		}
	}
}

// oneWayInIsLeft (P112): of two concurrent unlinkings of a user's identities one is refused. Stores are two on one place, or one twice.
func oneWayInIsLeft(t *testing.T, a, b store.Store) {
	stores := []store.Store{a, b}
	for round := range races(t, 40) {
		u, providers := linkedUsers(t, a, fmt.Sprint("user ", round))[round%2], []string{"corp", "other"}
		for _, provider := range providers {
			must(t, a.Identities.LinkIdentity(t.Context(), identityOf(u, provider, u.ID)))
		}
		errs := race(2, func(i int) error {
			_, err := stores[i].Identities.UnlinkIdentity(t.Context(), store.Unlinking{Provider: providers[i], Subject: u.ID, UserID: u.ID, WaysIn: providers}, theEnd)
			return err
		})
		oneWinner(t, errs, store.ErrLastWayIn)
		if list, err := b.Identities.Identities(t.Context(), u.ID); err != nil || len(list) != 1 {
			t.Fatalf("round %d: %+v are left, %v", round, list, err)
		}
	}
}

// lastWayIn (P112): only an identity of a provider at which people can sign in counts, and a user who has another way to sign in can lose
// the last one.
func lastWayIn(t *testing.T, s store.Store) {
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
		ended, err := s.Identities.UnlinkIdentity(t.Context(), unlinking("corp", u.ID, u.ID), theEnd)
		must(t, err)
		sameEndings(t, s, ended, "sign-in of "+u.ID)
		sameIdentities(t, s, u.ID)
	}
}

// touchIdentity (P113): it advances the last use of an identity, and creates none.
func touchIdentity(t *testing.T, s store.Store) {
	addUser(t, s, user("ada"))
	first := identity("corp", "1", "ada")
	must(t, s.Identities.LinkIdentity(t.Context(), first))
	touched := first
	touched.LinkedAt, touched.LastUsedAt, touched.DeclaredEmail = now, now.Add(time.Hour), "else@acme.example"
	must(t, s.Identities.TouchIdentity(t.Context(), touched))
	first.LastUsedAt = touched.LastUsedAt
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
}

// touchedBesideTheUnlink (P113): a touch does not restore an identity that is unlinked concurrently. Stores are two on one place, or one
// twice.
func touchedBesideTheUnlink(t *testing.T, unlinks, touching store.Store) {
	u := addUser(t, unlinks, user("ada"))
	for round := range races(t, 40) {
		i := identityOf(u, "corp", fmt.Sprint(round))
		must(t, unlinks.Identities.LinkIdentity(t.Context(), i))
		errs := race(3, func(caller int) error {
			if caller > 0 {
				return touching.Identities.TouchIdentity(t.Context(), i)
			}
			_, err := unlinks.Identities.UnlinkIdentity(t.Context(), unlinking(i.Provider, i.Subject, u.ID), theEnd)
			return err
		})
		must(t, errs[0])
		for _, err := range errs[1:] {
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		sameIdentities(t, touching, "ada")
	}
}

// unlinkIdentitiesOfAChangedUser (P116): the change ends the identities and everything that the user was granted, including personal
// access tokens.
func unlinkIdentitiesOfAChangedUser(t *testing.T, s store.Store) {
	ada := addUser(t, s, user("ada")) // has a password and stays active
	addUser(t, s, user("bob"))
	must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "1", "ada")))
	must(t, s.Identities.LinkIdentity(t.Context(), identity("other", "1", "ada")))
	must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "2", "bob")))
	addFamilies(t, s.Families, signedInWith(ada, "1", "sign-in"), familyOf(ada, "by password"))
	must(t, s.PersonalTokens.AddPersonalToken(t.Context(), &store.PersonalToken{ID: "token", UserID: "ada", ExpiresAt: now.Add(time.Hour), CreatedAt: now}, ada.Version))
	verified := store.VerifiedByOperator
	ended, err := s.Users.ChangeUser(t.Context(), "ada", store.UserChange{VerifiesEmail: true, UnlinkIdentities: true}, theEnd)
	must(t, err)
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
	if after := readUser(t, s.Users, "ada"); after.EmailVerifiedBy != verified || len(after.ProviderGroups) > 0 || after.Version == ada.Version || !after.IsActive() {
		t.Errorf("the user is %+v", after)
	}
	refusedAs(t, s, store.UserChanged, "late", signedInWith(ada, "1", "late"))
}

// unlinkTakesTheProvidersWord (V1): what a provider said is removed with its identity, what others said stays. A removal of groups ends
// every family.
func unlinkTakesTheProvidersWord(t *testing.T, s store.Store) {
	by, none, corp, noGroups := store.VerifiedBy("corp"), "", "corp", []string{}
	for id, c := range map[string]struct {
		change store.UserChange
		by     string
		groups []string
		fewer  bool
	}{
		"address":     {tell(func(u *store.User) { u.EmailVerifiedBy = by }), none, nil, false},
		"operator":    {store.UserChange{}, store.VerifiedByOperator, nil, false},
		"groups":      {edit(func(u *store.User) { u.ProviderGroups = []string{"a"}; u.GroupsBy = corp }), store.VerifiedByOperator, nil, true},
		"no groups":   {edit(func(u *store.User) { u.ProviderGroups = noGroups; u.GroupsBy = corp }), store.VerifiedByOperator, nil, false},
		"of another":  {edit(func(u *store.User) { u.ProviderGroups = []string{"a"}; u.GroupsBy = by }), store.VerifiedByOperator, []string{"a"}, false},
		"all of that": {edit(func(u *store.User) { u.EmailVerifiedBy = by; u.ProviderGroups = []string{"a"}; u.GroupsBy = corp }), none, nil, true},
	} {
		u := user(id)
		u.ProviderGroups, u.GroupsBy = nil, ""
		addUser(t, s, u)
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", id, id)))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("other", id, id)))
		if c.change.Edit != nil {
			_, err := s.Users.ChangeUser(t.Context(), id, c.change, theEnd)
			must(t, err)
		}
		before := readUser(t, s.Users, id)
		addFamilies(t, s.Families, familyOf(before, "by password "+id))
		ended, err := s.Identities.UnlinkIdentity(t.Context(), unlinking("corp", id, id), theEnd)
		must(t, err)
		after := readUser(t, s.Users, id)
		if after.EmailVerifiedBy != c.by || !slices.Equal(after.ProviderGroups, c.groups) || !slices.Equal(after.Groups, before.Groups) {
			t.Errorf("%s: the user is %+v", id, after)
		}
		if (after.Version != before.Version) != c.fewer || (len(ended) > 0) != c.fewer {
			t.Errorf("%s: from version %s to %s, ended %v", id, before.Version, after.Version, ended)
		}
	}
}

// identitiesOfChangedUsers (V1): a change that ends nothing updates the identities of its user, and never those of others.
func identitiesOfChangedUsers(t *testing.T, s store.Store) {
	corp := store.VerifiedBy("corp")
	same, taken, next := user("same").Email, user("bob").Email, "next@acme.example"
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
		"another address that a provider says":   {[2]bool{true, true}, tell(func(u *store.User) { u.SetEmail(next); u.EmailVerifiedBy = corp }), nil, [2]bool{false, false}},
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
}
