package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// identity returns an identity in which every field has a distinct value.
func identity(provider, subject, userID string) store.Identity {
	return store.Identity{
		Provider: provider, Subject: subject, UserID: userID, Source: "openid https://" + provider, LinkedAt: now.Add(-48 * time.Hour), LastUsedAt: now.Add(-time.Minute),
		Vouches: true, RefreshToken: "sealed token of " + subject,
	}
}

// declared returns the identity as that of a declared user.
func declared(i store.Identity) store.Identity {
	i.DeclaredEmail = i.UserID + "@declared.example"
	return i
}

func external(id string) *store.User {
	return with(user(id), func(u *store.User) { u.PasswordHash = store.User{}.PasswordHash })
}

// sameIdentities compares a user's stored identities with want, by both reads, and checks whether the user is External.
func sameIdentities(t *testing.T, s store.Store, userID string, want ...store.Identity) {
	t.Helper()
	list := ok(s.Identities.Identities(t.Context(), userID))(t)
	wantSize(t, list, len(want))
	for i := range want {
		same(t, list[i], want[i])
		same(t, ok(s.Identities.UserByIdentity(t.Context(), want[i].Provider, want[i].Subject))(t), want[i])
	}
	u, err := s.Users.User(t.Context(), userID)
	if !errors.Is(err, store.ErrNotFound) && (err != nil || u.External != (len(want) > 0)) {
		t.Errorf("%q is external: %t with %d identities (%v)", userID, u.External, len(want), err)
	}
}

// noIdentity ends the test if the identity exists.
func noIdentity(t *testing.T, s store.Store, provider, subject string) {
	t.Helper()
	mustBe(t, errOf(s.Identities.UserByIdentity(t.Context(), provider, subject)), store.ErrNotFound)
}

func identityCalls(s store.Store) []call {
	return []call{
		{"UserByIdentity", func(ctx context.Context) error { return errOf(s.Identities.UserByIdentity(ctx, "corp", "ada")) }},
		{"Identities", func(ctx context.Context) error { return errOf(s.Identities.Identities(ctx, "ada")) }},
		{"LinkIdentity", func(ctx context.Context) error { return s.Identities.LinkIdentity(ctx, identity("corp", "ada", "ada")) }},
		{"AddExternalUser", func(ctx context.Context) error {
			return s.Users.AddUser(ctx, external("new external"), false, identity("corp", "new external", ""))
		}},
		{"TouchIdentity", func(ctx context.Context) error {
			return s.Identities.TouchIdentity(ctx, identity("corp", "ada", "ada"))
		}},
		{"IdentitiesInUse", func(ctx context.Context) error {
			return errOf(s.Identities.IdentitiesInUse(ctx, "corp", "", now, 10))
		}},
		{"IdentitySources", func(ctx context.Context) error { return errOf(s.Identities.IdentitySources(ctx, "corp")) }},
		{"UnlinkIdentity", func(ctx context.Context) error {
			return errOf(s.Identities.UnlinkIdentity(ctx, unlinking("corp", "ada", "ada"), theEnd))
		}},
	}
}

var identityChecks = []check{
	// An identity linked to a stored or declared user → reads back; linked again its last use moves and the user's version stays; to a second
	// user → refused. Grants of the user therefore stay valid.
	{name: "P100IdentitiesReadBack", test: func(t *testing.T, s store.Store) {
		noIdentity(t, s, "corp", "1")
		sameIdentities(t, s, "ada")
		u := addUser(t, s, user("ada"))
		first, second, third := identity("corp", "1", "ada"), identity("corp", "0", "ada"), identity("acme é'", "Subject \U0001F98A \"'", "ada")
		for _, i := range []store.Identity{first, second, third} {
			must(t, s.Identities.LinkIdentity(t.Context(), i))
		}
		sameIdentities(t, s, "ada", third, second, first)
		again := first
		again.LinkedAt, again.LastUsedAt, again.Created, again.Vouches = now, now.Add(time.Hour), true, false
		again.RefreshToken = "another token"
		must(t, s.Identities.LinkIdentity(t.Context(), again))
		first.LastUsedAt, first.Vouches, first.RefreshToken = again.LastUsedAt, false, again.RefreshToken
		sameIdentities(t, s, "ada", third, second, first)
		after := readUser(t, s.Users, "ada")
		if after.Version != u.Version || !after.External || u.External {
			t.Errorf("the user was\n%+v and is\n%+v", u, after)
		}
		sameUser(t, after, user("ada"))
		byEmail, err := s.Users.UserByEmail(t.Context(), u.Email)
		if err != nil || !byEmail.External || !listUsers(t, s.Users, "")[0].External {
			t.Errorf("by another read the user is not external: %v", err)
		}

		must(t, s.Identities.LinkIdentity(t.Context(), declared(identity("corp", "eve", "eve"))))
		sameIdentities(t, s, "eve", declared(identity("corp", "eve", "eve")))
		mustBe(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "2", "nobody")), store.ErrNotFound)
		noIdentity(t, s, "corp", "2")
	}},
	// The identities in use → those of the provider whose users have a session from there or a token of their own that lives, in pages.
	{name: "P190IdentitiesInUse", test: func(t *testing.T, s store.Store) {
		inUse := func(after string, limit int) (subjects []string) {
			t.Helper()
			for _, i := range ok(s.Identities.IdentitiesInUse(t.Context(), "corp", after, now, limit))(t) {
				same(t, i, declared(identity("corp", i.Subject, i.UserID)))
				subjects = append(subjects, i.Subject)
			}
			return subjects
		}
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			must(t, s.Identities.LinkIdentity(t.Context(), declared(identity("corp", id, id))))
			must(t, s.Identities.LinkIdentity(t.Context(), declared(identity("other", id, id))))
		}
		wantSize(t, inUse("", 10), 0)
		lives := func(id string, edit func(*store.TokenFamily)) {
			t.Helper()
			must(t, Done(s.Families.AddFamily(t.Context(), with(family(id), func(f *store.TokenFamily) {
				f.User.ID, f.SignIn.Provider, f.Actor = id, "corp", store.Actor{}
				edit(f)
			}))))
		}
		lives("a", func(*store.TokenFamily) {})
		lives("b", func(*store.TokenFamily) {})
		lives("c", func(f *store.TokenFamily) { f.SignIn.Provider = "other" })
		lives("d", func(f *store.TokenFamily) { f.ExpiresAt = now })
		lives("e", func(*store.TokenFamily) {})
		ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: "e"}, theEnd))(t)
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), declaredToken("of f", "f"), ""))
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), with(declaredToken("of g", "g"), func(p *store.PersonalToken) { p.ExpiresAt = now }), ""))
		same(t, inUse("", 10), []string{"a", "b", "f"})
		same(t, inUse("", 2), []string{"a", "b"})
		same(t, inUse("b", 2), []string{"f"})
		wantSize(t, inUse("f", 2), 0)
	}},
	// An identity stays with its user, and another user cannot take it.
	{name: "P100IdentityOfAnother", test: func(t *testing.T, s store.Store) {
		addUser(t, s, user("ada"))
		addUser(t, s, user("bob"))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "1", "ada")))
		taken := identity("corp", "1", "bob")
		taken.LastUsedAt = now.Add(time.Hour)
		mustBe(t, s.Identities.LinkIdentity(t.Context(), taken), store.ErrTaken)
		mustBe(t, s.Identities.LinkIdentity(t.Context(), declared(identity("corp", "1", "eve"))), store.ErrTaken)
		sameIdentities(t, s, "ada", identity("corp", "1", "ada"))
		sameIdentities(t, s, "bob")
		sameIdentities(t, s, "eve")
		must(t, s.Identities.LinkIdentity(t.Context(), identity("other", "1", "bob")))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "2", "bob")))
		sameIdentities(t, s, "bob", identity("corp", "2", "bob"), identity("other", "1", "bob"))
	}},
	// One identity for many users at once, on one node or two → one has it.
	{name: "P101IdentityLinkedOnceInARace", beside: func(t *testing.T, a, b store.Store) {
		stores := []store.Store{a, b}
		for round := range 2 {
			subject := fmt.Sprint("subject ", round)
			for i := range racers {
				addUser(t, a, user(fmt.Sprint(round, " ", i)))
			}
			errs := race(racers, func(i int) error {
				return stores[i%2].Identities.LinkIdentity(t.Context(), identity("corp", subject, fmt.Sprint(round, " ", i)))
			})
			oneWinner(t, errs, store.ErrTaken)
			for i, err := range errs {
				id := fmt.Sprint(round, " ", i)
				if err != nil {
					sameIdentities(t, b, id)
					continue
				}
				sameIdentities(t, b, id, identity("corp", subject, id))
			}
		}
	}},
	// A user created with a taken id, address or identity → refused whole: no user, no identity.
	{name: "P102ExternalUserIsOneStep", test: func(t *testing.T, s store.Store) {
		must(t, s.Users.AddOrganisation(t.Context(), organisation("acme")))
		first := identity("corp", "1", "somebody else")
		first.Created = true
		must(t, s.Users.AddUser(t.Context(), external("ada"), false, first))
		want := external("ada")
		wantUsers(t, s.Users, want)
		first.UserID = "ada"
		sameIdentities(t, s, "ada", first)

		sameAddress, nowhere := external("bob"), external("eve")
		sameAddress.Email = user("ada").Email
		nowhere.Organisation = "nowhere"
		for _, c := range []struct {
			name    string
			user    *store.User
			subject string
			want    error
		}{
			{"id", external("ada"), "2", store.ErrTaken}, {"address", sameAddress, "2", store.ErrEmailTaken},
			{"identity", external("bob"), "1", store.ErrTaken}, {"organisation", nowhere, "2", store.ErrNotFound},
		} {
			if err := s.Users.AddUser(t.Context(), c.user, false, identity("corp", c.subject, "")); !errors.Is(err, c.want) {
				t.Fatalf("%s: got error %v, want %v", c.name, err, c.want)
			}
			noIdentity(t, s, "corp", "2")
			sameIdentities(t, s, "ada", first)
			wantSize(t, listUsers(t, s.Users, ""), 1)
		}
		must(t, s.Users.AddUser(t.Context(), external("bob"), false, identity("corp", "2", "")))
		ok(s.Users.RemoveUser(t.Context(), "bob", theEnd))(t)
		if err := s.Users.AddUser(t.Context(), external("bob"), false, identity("corp", "2", "")); !errors.As(err, new(store.RemovedError)) {
			t.Errorf("the id of a user who was removed: %v", err)
		}
		noIdentity(t, s, "corp", "2")
	}},
	// A person's first visit in several tabs at once → one user.
	{name: "P103ExternalUserAddedOnceInARace", beside: func(t *testing.T, a, b store.Store) {
		stores := []store.Store{a, b}
		for round := range 2 {
			subject := fmt.Sprint("subject ", round)
			errs := race(racers, func(i int) error {
				id := fmt.Sprint(round, " ", i)
				return stores[i%2].Users.AddUser(t.Context(), external(id), true, identity("corp", subject, id))
			})
			oneWinner(t, errs, store.ErrTaken)
			id := fmt.Sprint(round, " ", slices.Index(errs, nil))
			sameIdentities(t, b, id, identity("corp", subject, id))
			wantSize(t, listUsers(t, a.Users, ""), round+1)
		}
	}},
	// The next owner of an id does not get the identities of the former one.
	{name: "P104IdentitiesGoWithTheirUser", test: func(t *testing.T, s store.Store) {
		addUser(t, s, user("ada"))
		addUser(t, s, user("bob"))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "1", "ada")))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "2", "ada")))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "3", "bob")))
		ok(s.Users.RemoveUser(t.Context(), "ada", theEnd))(t)
		sameIdentities(t, s, "ada")
		noIdentity(t, s, "corp", "1")
		sameIdentities(t, s, "bob", identity("corp", "3", "bob"))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "1", "bob")))

		// A user who had been declared, and is added now.
		must(t, s.Identities.LinkIdentity(t.Context(), declared(identity("corp", "eve", "eve"))))
		addUser(t, s, user("eve"))
		sameIdentities(t, s, "eve")
		noIdentity(t, s, "corp", "eve")
	}},
	// An identity linked while its user is removed → refused, or gone with the user; the next owner of the id has none.
	{name: "P104LinkedBesideTheRemoval", beside: func(t *testing.T, removing, linking store.Store) {
		for round := range raceRounds {
			u := addUser(t, removing, user(fmt.Sprint("user ", round)))
			link := func(subject string) func() error {
				return func() error {
					return linking.Identities.LinkIdentity(t.Context(), identity("corp", subject+u.ID, u.ID))
				}
			}
			besideTheEnd(t, store.ErrNotFound, func() ([]store.Revocation, error) { return removing.Users.RemoveUser(t.Context(), u.ID, theEnd) },
				link("1 of "), link("2 of "))
			noIdentity(t, removing, "corp", "1 of "+u.ID)
			noIdentity(t, removing, "corp", "2 of "+u.ID)
		}
	}},
	// A user without a password → codes and refreshes while an identity is linked, none without.
	{name: "P105FamiliesOfExternalUsers", test: func(t *testing.T, s store.Store) {
		invited := addUser(t, s, external("invited"))
		if invited.IsActive() {
			t.Errorf("%+v is active", invited)
		}
		refusedAs(t, s, store.UserChanged, "without a password", familyOf(invited, "too early"))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "invited", "invited")))
		u := readUser(t, s.Users, "invited")
		if !u.IsActive() {
			t.Errorf("%+v is not active", u)
		}
		coded, rotated := familyOf(u, "coded"), ownedBy(u, refreshed("rotated"))
		coded.SignIn.Provider = "corp"
		addFamilies(t, s.Families, coded, rotated, createdBy(u, "created"), familyOf(u, "late"))
		wantFamilies(t, s.Families, coded)
		must(t, redeem(t, s.Families, "coded", 1))
		must(t, rotate(t, s.Families, "rotated", 1, store.Rotation{At: now}))

		sameEndings(t, s, ok(s.Identities.UnlinkIdentity(t.Context(), unlinking("corp", "invited", "invited"), theEnd))(t), "coded")
		mustBe(t, redeem(t, s.Families, "late", 1), Refused(store.UserChanged))
		mustBe(t, rotate(t, s.Families, "rotated", 2, store.Rotation{At: now}), Refused(store.UserChanged))
		refusedAs(t, s, store.UserChanged, "of nobody", familyOf(u, "of nobody"))
		refusedAs(t, s, store.UserChanged, "by nobody", createdBy(u, "by nobody"))

		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "invited", "invited")))
		ok(s.Users.ChangeUser(t.Context(), "invited", edit(func(u *store.User) { u.Status = store.UserDisabled }), theEnd))(t)
		if u = readUser(t, s.Users, "invited"); u.IsActive() || !u.External {
			t.Errorf("the disabled user is %+v", u)
		}
		refusedAs(t, s, store.UserChanged, "of a disabled user", familyOf(u, "of a disabled user"))
	}},
	// One of two identities unlinked → the user stays External; the last one → no longer.
	{name: "P106UnlinkIdentity", test: func(t *testing.T, s store.Store) {
		addUser(t, s, user("ada"))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", "1", "ada")))
		must(t, s.Identities.LinkIdentity(t.Context(), identity("other", "1", "ada")))
		must(t, s.Identities.LinkIdentity(t.Context(), declared(identity("corp", "eve", "eve"))))
		noneToUnlink(t, s, "corp", "unknown", "ada")
		noneToUnlink(t, s, "corp", "1", "bob")
		unlink(t, s, "corp", "1", "ada")
		sameIdentities(t, s, "ada", identity("other", "1", "ada"))
		noneToUnlink(t, s, "corp", "1", "ada")
		unlink(t, s, "other", "1", "ada")
		sameIdentities(t, s, "ada")
		unlink(t, s, "corp", "eve", "eve")
		sameIdentities(t, s, "eve")
		wantUsers(t, s.Users, user("ada"))
	}},
	// A user who gets one identity while another is unlinked is External.
	{name: "P106UnlinkedBesideALink", beside: func(t *testing.T, a, b store.Store) {
		addUser(t, a, user("ada"))
		must(t, a.Identities.LinkIdentity(t.Context(), identity("corp", "0", "ada")))
		for round := range raceRounds {
			old, next := identity("corp", fmt.Sprint(round), "ada"), identity("corp", fmt.Sprint(round+1), "ada")
			all(t, 2, func(i int) error {
				if i == 0 {
					return errOf(a.Identities.UnlinkIdentity(t.Context(), unlinking(old.Provider, old.Subject, "ada"), theEnd))
				}
				return b.Identities.LinkIdentity(t.Context(), next)
			})
			sameIdentities(t, b, "ada", next)
		}
	}},
	// A provider or subject in another case, form or spelling, or as a pattern → matches nothing.
	{name: "P107IdentitiesAreBytes", test: func(t *testing.T, s store.Store) {
		subjects := []string{"ada", "Ada", "ada ", " ada", "ada.", "adá", "ada\u0301", "%", "_da", "ad_", "", strings.Repeat("s", 255)}
		for i, subject := range subjects {
			id := fmt.Sprint("user ", i)
			must(t, s.Identities.LinkIdentity(t.Context(), declared(identity("corp", subject, id))))
		}
		for i, subject := range subjects {
			id := fmt.Sprint("user ", i)
			sameIdentities(t, s, id, declared(identity("corp", subject, id)))
			for _, provider := range []string{"Corp", "corp ", "cor", "", "corp%"} {
				noIdentity(t, s, provider, subject)
			}
		}
		for _, strange := range []string{"\x00", "ada\x00", "\xff", "ada\xff"} {
			noIdentity(t, s, "corp", strange)
			noIdentity(t, s, strange, "ada")
			sameIdentities(t, s, strange)
			noneToUnlink(t, s, "corp", strange, "ada")
		}
	}},
	// A store lists the providers that have had a name.
	{name: "P150SourcesOfIdentities", test: func(t *testing.T, s store.Store) {
		holdSources := func(provider string, want ...string) {
			t.Helper()
			got := ok(s.Identities.IdentitySources(t.Context(), provider))(t)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("the sources of %q are %q, want %q", provider, got, want)
			}
		}
		at := func(provider, subject, source string) store.Identity {
			i := declared(identity(provider, subject, "ada"))
			i.Source = source
			return i
		}
		holdSources("corp")
		const gitHub, before, after = "github https://github.com", "openid https://old.example", "openid https://new.example"
		touched, linked, other := at("corp", "1", gitHub), at("corp", "2", before), at("other", "3", gitHub)
		for _, i := range []store.Identity{touched, linked, other, at("corp", "4", before)} {
			must(t, s.Identities.LinkIdentity(t.Context(), i))
		}
		holdSources("corp", gitHub, before)
		holdSources("other", gitHub)
		for _, strange := range []string{"Corp", "", "\x00", "\xff"} {
			holdSources(strange)
		}
		touched.Source, linked.Source = after, after
		must(t, s.Identities.TouchIdentity(t.Context(), touched))
		must(t, s.Identities.LinkIdentity(t.Context(), linked))
		holdSources("corp", after, before)
		sameIdentities(t, s, "ada", touched, linked, at("corp", "4", before), other)
	}},
}
