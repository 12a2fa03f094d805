package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var organisationChecks = []check{
	{name: "OrganisationUnknown", test: organisationUnknown},
	{name: "OrganisationReadsBack", test: organisationReadsBack},
	{name: "OrganisationsListed", test: organisationsListed},
	{name: "OrganisationIDsAreBytes", test: organisationIDsAreBytes},
	{name: "OrganisationIDTaken", test: organisationIDTaken},
	{name: "OrganisationIDTakenInARace", test: organisationIDTakenInARace},
	{name: "OrganisationHasNoUsersToRemove", test: organisationInUse},
	{name: "OrganisationDeclared", test: organisationDeclared},
	{name: "OrganisationKeepsItsUsersInARace", test: organisationKeepsItsUsersInARace},
}

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
	got, err := s.Organisations(t.Context())
	must(t, err)
	if len(got) != len(want) {
		t.Fatalf("%d organisations are listed, want %d", len(got), len(want))
	}
	for i := range want {
		sameOrganisation(t, got[i], want[i])
	}
}

func sameOrganisation(t *testing.T, got, want *store.Organisation) {
	t.Helper()
	if got.ID != want.ID || got.Name != want.Name || got.Declared != want.Declared || !sameTime(got.CreatedAt, want.CreatedAt) {
		t.Errorf("organisation is\n%+v, want\n%+v", got, want)
	}
}

// organisationUnknown: an unknown id finds no organisation, and adding a user of it leaves nothing behind.
func organisationUnknown(t *testing.T, s store.Store) {
	_, err := s.Users.Organisation(t.Context(), "acme")
	mustBe(t, err, store.ErrNotFound)
	mustBe(t, s.Users.RemoveOrganisation(t.Context(), "acme"), store.ErrNotFound)
	sameOrganisations(t, s.Users)

	mustBe(t, s.Users.AddUser(t.Context(), user("ada"), false), store.ErrNotFound)
	_, err = s.Users.User(t.Context(), "ada")
	mustBe(t, err, store.ErrNotFound)
	must(t, s.Users.AddOrganisation(t.Context(), organisation("acme")))
	must(t, s.Users.AddUser(t.Context(), user("ada"), false)) // the attempt took neither id nor address
	sameUser(t, readUser(t, s.Users, "ada"), user("ada"))
}

// organisationReadsBack: every field comes back, except Declared, which is not stored. Later changes of the caller's copy do not reach
// the store.
func organisationReadsBack(t *testing.T, s store.Store) {
	bare, epoch, quoted := &store.Organisation{ID: "bare"}, organisation("epoch"), organisation(`'"\`)
	epoch.CreatedAt = time.Unix(0, 0)
	for _, want := range []*store.Organisation{organisation("full"), bare, epoch, quoted} {
		must(t, s.Users.AddOrganisation(t.Context(), want))
		sameOrganisation(t, readOrganisation(t, s.Users, want.ID), want)
	}
	declared := organisation("declared")
	declared.Declared = true
	must(t, s.Users.AddOrganisation(t.Context(), declared))
	declared.Name = "scribble"
	sameOrganisation(t, readOrganisation(t, s.Users, "declared"), organisation("declared"))
}

// organisationsListed: the list has every organisation in full, sorted by the bytes of the ids.
func organisationsListed(t *testing.T, s store.Store) {
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
}

// organisationIDsAreBytes (T15): an id is what its bytes are, also where a user names its organisation.
func organisationIDsAreBytes(t *testing.T, s store.Store) {
	for _, id := range oddIDs {
		must(t, s.Users.AddOrganisation(t.Context(), organisation(id)))
	}
	for _, id := range oddIDs {
		sameOrganisation(t, readOrganisation(t, s.Users, id), organisation(id))
	}
	u := user("ada")
	for _, id := range strangers {
		_, err := s.Users.Organisation(t.Context(), id)
		mustBe(t, err, store.ErrNotFound)
		u.Organisation = id
		mustBe(t, s.Users.AddUser(t.Context(), u, false), store.ErrNotFound)
	}
	u.Organisation = "a_p"
	must(t, s.Users.AddUser(t.Context(), u, false))
	mustBe(t, s.Users.RemoveOrganisation(t.Context(), "a_p"), store.ErrInUse)
	must(t, s.Users.RemoveOrganisation(t.Context(), "app"))
	must(t, s.Users.RemoveOrganisation(t.Context(), "%"))
	list, err := s.Users.Organisations(t.Context())
	must(t, err)
	if len(list) != len(oddIDs)-2 {
		t.Errorf("%d organisations are left, want %d", len(list), len(oddIDs)-2)
	}
}

// organisationIDTaken: adding a second organisation with an id changes nothing. Clients and users do not share these ids, and the id of a
// removed organisation is free.
func organisationIDTaken(t *testing.T, s store.Store) {
	must(t, s.Clients.AddClient(t.Context(), client("app")))
	addUser(t, s, user("ada"))
	for _, id := range []string{"acme", "app", "ada"} {
		must(t, s.Users.AddOrganisation(t.Context(), organisation(id)))
	}
	second := organisation("app")
	second.Name = "another"
	mustBe(t, s.Users.AddOrganisation(t.Context(), second), store.ErrTaken)
	sameOrganisations(t, s.Users, organisation("acme"), organisation("ada"), organisation("app"))

	must(t, s.Users.RemoveOrganisation(t.Context(), "app"))
	mustBe(t, s.Users.RemoveOrganisation(t.Context(), "app"), store.ErrNotFound)
	must(t, s.Users.AddOrganisation(t.Context(), second))
	sameOrganisation(t, readOrganisation(t, s.Users, "app"), second)
}

// organisationIDTakenInARace: of concurrent calls with one id exactly one succeeds, and its organisation is stored.
func organisationIDTakenInARace(t *testing.T, s store.Store) {
	mine := func(i int) *store.Organisation {
		o := organisation("acme")
		o.Name = fmt.Sprint("racer ", i)
		return o
	}
	errs := race(racers, func(i int) error { return s.Users.AddOrganisation(t.Context(), mine(i)) })
	oneWinner(t, errs, store.ErrTaken)
	sameOrganisations(t, s.Users, mine(slices.Index(errs, nil)))
	oneWinner(t, race(racers, func(int) error { return s.Users.RemoveOrganisation(t.Context(), "acme") }), store.ErrNotFound)
}

// organisationInUse: an organisation cannot be removed until the last of its users, whatever their status, is removed.
func organisationInUse(t *testing.T, s store.Store) {
	must(t, s.Users.AddOrganisation(t.Context(), organisation("acme")))
	must(t, s.Users.AddOrganisation(t.Context(), organisation("empty")))
	for _, status := range []store.UserStatus{store.UserActive, store.UserDisabled, store.UserLocked} {
		u := user(string(status))
		u.Status = status
		must(t, s.Users.AddUser(t.Context(), u, false))
		mustBe(t, s.Users.RemoveOrganisation(t.Context(), "acme"), store.ErrInUse)
		sameOrganisation(t, readOrganisation(t, s.Users, "acme"), organisation("acme"))
		sameUser(t, readUser(t, s.Users, u.ID), u)
		_, err := s.Users.RemoveUser(t.Context(), u.ID, theEnd)
		must(t, err)
	}
	must(t, s.Users.RemoveOrganisation(t.Context(), "acme"))
	_, err := s.Users.Organisation(t.Context(), "acme")
	mustBe(t, err, store.ErrNotFound)
	mustBe(t, s.Users.AddUser(t.Context(), user("late"), false), store.ErrNotFound)
	sameOrganisations(t, s.Users, organisation("empty"))
}

// organisationDeclared: users of a declared organisation do not need a stored one, and do not create one. A stored one of that id, added
// later, has them as users.
func organisationDeclared(t *testing.T, s store.Store) {
	must(t, s.Users.AddUser(t.Context(), user("ada"), true))
	sameUser(t, readUser(t, s.Users, "ada"), user("ada"))
	_, err := s.Users.Organisation(t.Context(), "acme")
	mustBe(t, err, store.ErrNotFound)
	sameOrganisations(t, s.Users)
	must(t, s.Users.AddOrganisation(t.Context(), organisation("acme")))
	mustBe(t, s.Users.RemoveOrganisation(t.Context(), "acme"), store.ErrInUse)
	must(t, s.Users.AddUser(t.Context(), user("bob"), true)) // declared and stored
	if list := listUsers(t, s.Users, "acme"); len(list) != 2 {
		t.Errorf("%d users are listed, want two", len(list))
	}
}

// organisationKeepsItsUsersInARace: a user and the removal of its organisation never both succeed.
func organisationKeepsItsUsersInARace(t *testing.T, s store.Store) {
	for round := range 100 {
		id := fmt.Sprint("org ", round)
		must(t, s.Users.AddOrganisation(t.Context(), organisation(id)))
		u := user(fmt.Sprint("user ", round))
		u.Organisation = id
		errs := race(2, func(i int) error {
			if i == 0 {
				return s.Users.RemoveOrganisation(t.Context(), id)
			}
			return s.Users.AddUser(t.Context(), u, false)
		})
		_, err := s.Users.User(t.Context(), u.ID)
		switch removed := errs[0] == nil; {
		case removed && (!errors.Is(errs[1], store.ErrNotFound) || !errors.Is(err, store.ErrNotFound)):
			t.Fatalf("the organisation was removed, and its user was added: %v, %v", errs[1], err)
		case !removed && (!errors.Is(errs[0], store.ErrInUse) || errs[1] != nil || err != nil):
			t.Fatalf("the organisation stayed for %v, and its user was not added: %v, %v", errs[0], errs[1], err)
		}
	}
}
