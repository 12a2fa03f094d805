package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// organisation returns an organisation in which every field has a distinct value.
func organisation(id string) *store.Organisation {
	return &store.Organisation{ID: id, Name: "Größe “" + id + "” & Söhne 🏢", CreatedAt: now.Add(-time.Hour)}
}

// readOrganisation returns an organisation, which must exist.
func readOrganisation(t *testing.T, s store.UserDirectory, id string) *store.Organisation {
	t.Helper()
	o, err := s.Organisation(t.Context(), id)
	if err != nil {
		t.Fatalf("reading organisation %q: %v", id, err)
	}
	return o
}

// sameOrganisations compares the complete list with want.
func sameOrganisations(t *testing.T, s store.UserStore, want ...*store.Organisation) {
	t.Helper()
	same(t, ok(s.Organisations(t.Context()))(t), want)
}

// wantOrganisations compares stored organisations with these.
func wantOrganisations(t *testing.T, s store.UserDirectory, want ...*store.Organisation) {
	t.Helper()
	for _, o := range want {
		same(t, readOrganisation(t, s, o.ID), o)
	}
}

var organisationChecks = []check{
	// An unknown id finds no organisation, and adding a user of it leaves nothing behind.
	{name: "OrganisationUnknown", test: func(t *testing.T, s store.Store) {
		mustBe(t, errOf(s.Users.Organisation(t.Context(), "acme")), store.ErrNotFound)
		mustBe(t, s.Users.RemoveOrganisation(t.Context(), "acme"), store.ErrNotFound)
		sameOrganisations(t, s.Users)

		mustBe(t, s.Users.AddUser(t.Context(), user("ada"), false), store.ErrNotFound)
		mustBe(t, errOf(s.Users.User(t.Context(), "ada")), store.ErrNotFound)
		must(t, s.Users.AddOrganisation(t.Context(), organisation("acme")))
		must(t, s.Users.AddUser(t.Context(), user("ada"), false)) // the attempt took neither id nor address
		wantUsers(t, s.Users, user("ada"))
	}},
	// Every field comes back, except Declared, which is not stored. Later changes of the caller's copy do not reach the store.
	{name: "OrganisationReadsBack", test: func(t *testing.T, s store.Store) {
		bare, epoch, quoted := &store.Organisation{ID: "bare"}, organisation("epoch"), organisation(`'"\`)
		epoch.CreatedAt = time.Unix(0, 0)
		for _, want := range []*store.Organisation{organisation("full"), bare, epoch, quoted} {
			must(t, s.Users.AddOrganisation(t.Context(), want))
			wantOrganisations(t, s.Users, want)
		}
		declared := with(organisation("declared"), func(o *store.Organisation) { o.Declared = true })
		must(t, s.Users.AddOrganisation(t.Context(), declared))
		declared.Name = "scribble"
		wantOrganisations(t, s.Users, organisation("declared"))
	}},
	// The list has every organisation in full, sorted by the bytes of the ids.
	{name: "OrganisationsListed", test: func(t *testing.T, s store.Store) {
		ids := []string{"b", "a", "É", "B", "_", "a b", "a\U0001f4e6", "aé", "Z", "~"}
		for _, id := range ids {
			must(t, s.Users.AddOrganisation(t.Context(), organisation(id)))
		}
		slices.Sort(ids)
		var want []*store.Organisation
		for _, id := range ids {
			want = append(want, organisation(id))
		}
		sameOrganisations(t, s.Users, want...)
	}},
	// T15: an id is what its bytes are, also where a user names its organisation.
	{name: "OrganisationIDsAreBytes", test: func(t *testing.T, s store.Store) {
		namesAreBytes(t, func(id string) { must(t, s.Users.AddOrganisation(t.Context(), organisation(id))) },
			func(id string) { wantOrganisations(t, s.Users, organisation(id)) }, func(id string) error { return errOf(s.Users.Organisation(t.Context(), id)) })
		u := user("ada")
		for _, id := range strangers {
			u.Organisation = id
			mustBe(t, s.Users.AddUser(t.Context(), u, false), store.ErrNotFound)
		}
		u.Organisation = "a_p"
		must(t, s.Users.AddUser(t.Context(), u, false))
		mustBe(t, s.Users.RemoveOrganisation(t.Context(), "a_p"), store.ErrInUse)
		must(t, s.Users.RemoveOrganisation(t.Context(), "app"))
		must(t, s.Users.RemoveOrganisation(t.Context(), "%"))
		wantSize(t, ok(s.Users.Organisations(t.Context()))(t), len(oddIDs)-2)
	}},
	// Adding a second organisation with an id changes nothing. Clients and users do not share these ids, and the id of a removed organisation
	// is free.
	{name: "OrganisationIDTaken", test: func(t *testing.T, s store.Store) {
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		addUser(t, s, user("ada"))
		for _, id := range []string{"acme", "app", "ada"} {
			must(t, s.Users.AddOrganisation(t.Context(), organisation(id)))
		}
		second := with(organisation("app"), func(o *store.Organisation) { o.Name = "another" })
		mustBe(t, s.Users.AddOrganisation(t.Context(), second), store.ErrTaken)
		sameOrganisations(t, s.Users, organisation("acme"), organisation("ada"), organisation("app"))

		must(t, s.Users.RemoveOrganisation(t.Context(), "app"))
		mustBe(t, s.Users.RemoveOrganisation(t.Context(), "app"), store.ErrNotFound)
		must(t, s.Users.AddOrganisation(t.Context(), second))
		wantOrganisations(t, s.Users, second)
	}},
	// Of concurrent calls with one id exactly one succeeds, and its organisation is stored.
	{name: "OrganisationIDTakenInARace", races: func(t *testing.T, s store.Store) {
		mine := func(i int) *store.Organisation {
			return with(organisation("acme"), func(o *store.Organisation) { o.Name = fmt.Sprint("racer ", i) })
		}
		errs := race(racers, func(i int) error { return s.Users.AddOrganisation(t.Context(), mine(i)) })
		oneWinner(t, errs, store.ErrTaken)
		sameOrganisations(t, s.Users, mine(slices.Index(errs, nil)))
		oneWinner(t, race(racers, func(int) error { return s.Users.RemoveOrganisation(t.Context(), "acme") }), store.ErrNotFound)
	}},
	// An organisation cannot be removed until the last of its users, whatever their status, is removed.
	{name: "OrganisationHasNoUsersToRemove", test: func(t *testing.T, s store.Store) {
		must(t, s.Users.AddOrganisation(t.Context(), organisation("acme")))
		must(t, s.Users.AddOrganisation(t.Context(), organisation("empty")))
		for _, status := range []store.UserStatus{store.UserActive, store.UserDisabled, store.UserLocked} {
			u := with(user(string(status)), func(u *store.User) { u.Status = status })
			must(t, s.Users.AddUser(t.Context(), u, false))
			mustBe(t, s.Users.RemoveOrganisation(t.Context(), "acme"), store.ErrInUse)
			wantOrganisations(t, s.Users, organisation("acme"))
			wantUsers(t, s.Users, u)
			ok(s.Users.RemoveUser(t.Context(), u.ID, theEnd))(t)
		}
		must(t, s.Users.RemoveOrganisation(t.Context(), "acme"))
		mustBe(t, errOf(s.Users.Organisation(t.Context(), "acme")), store.ErrNotFound)
		mustBe(t, s.Users.AddUser(t.Context(), user("late"), false), store.ErrNotFound)
		sameOrganisations(t, s.Users, organisation("empty"))
	}},
	// Users of a declared organisation do not need a stored one, and do not create one. A stored one of that id, added later, has them as
	// users.
	{name: "OrganisationDeclared", test: func(t *testing.T, s store.Store) {
		must(t, s.Users.AddUser(t.Context(), user("ada"), true))
		wantUsers(t, s.Users, user("ada"))
		mustBe(t, errOf(s.Users.Organisation(t.Context(), "acme")), store.ErrNotFound)
		sameOrganisations(t, s.Users)
		must(t, s.Users.AddOrganisation(t.Context(), organisation("acme")))
		mustBe(t, s.Users.RemoveOrganisation(t.Context(), "acme"), store.ErrInUse)
		must(t, s.Users.AddUser(t.Context(), user("bob"), true)) // declared and stored
		wantSize(t, listUsers(t, s.Users, "acme"), 2)
	}},
	// A user and the removal of its organisation never both succeed.
	{name: "OrganisationKeepsItsUsersInARace", races: func(t *testing.T, s store.Store) {
		for round := range raceRounds {
			id := fmt.Sprint("org ", round)
			must(t, s.Users.AddOrganisation(t.Context(), organisation(id)))
			u := with(user(fmt.Sprint("user ", round)), func(u *store.User) { u.Organisation = id })
			errs := race(2, func(i int) error {
				if i == 0 {
					return s.Users.RemoveOrganisation(t.Context(), id)
				}
				return s.Users.AddUser(t.Context(), u, false)
			})
			switch exists := errOf(s.Users.User(t.Context(), u.ID)); {
			case errs[0] == nil && (!errors.Is(errs[1], store.ErrNotFound) || !errors.Is(exists, store.ErrNotFound)):
				t.Fatalf("the organisation was removed, and its user was added: %v, %v", errs[1], exists)
			case errs[0] != nil && (!errors.Is(errs[0], store.ErrInUse) || errs[1] != nil || exists != nil):
				t.Fatalf("the organisation stayed for %v, and its user was not added: %v, %v", errs[0], errs[1], exists)
			}
		}
	}},
}
