package storetest

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var userChecks = []check{
	{name: "UserUnknown", test: userUnknown},
	{name: "UserReadsBack", test: userReadsBack},
	{name: "UsersListed", test: usersListed},
	{name: "UserIDsAreBytes", test: userIDsAreBytes},
	{name: "UserAddressesAreBytes", test: userAddressesAreBytes},
	{name: "UserOutsideTheRules", test: userOutsideTheRules},
	{name: "UserAddressTaken", test: userAddressTaken},
	{name: "UserAddressTakenInARace", test: userAddressTakenInARace},
	{name: "T68IDGivenOnce", test: idGivenOnce},
	{name: "T68IDGivenOnceInARace", test: idGivenOnceInARace},
	{name: "UserHandedOutStaysAsItWas", test: userHandedOutStaysAsItWas},
}

// user returns a registration in which every field has a distinct value.
func user(id string) *store.User {
	return &store.User{
		ID: id, Email: id + "@example.com", Name: "Zoë “" + id + "” O'Hara 🦊", Organisation: "acme",
		Role: store.RoleGroupManager, Status: store.UserActive, Groups: []string{"staff of " + id, `"Zürich", \ 🦊`, "{}"},
		PasswordHash: hash("m=19456,t=2,p=1", id), CreatedAt: now.Add(-3 * time.Hour),
		UpdatedAt: now.Add(-2 * time.Hour), EmailVerifiedBy: store.VerifiedByOperator, ProviderGroups: []string{"team 🦊", "of corp"}, GroupsBy: "corp 🦊",
		Profile: &store.Profile{
			GivenName: "Zoë 🦊", FamilyName: "O'Hara", PreferredUsername: id, Locale: "de-CH", Zoneinfo: "Europe/Zurich",
			Picture: "https://pictures.example/zoë?a=1", Phone: "+41 44 555 01 23", PhoneVerified: true,
			Address: store.Address{
				Formatted: "Bahnhofstraße 1\n8001 Zürich", StreetAddress: "Bahnhofstraße 1", Locality: "Zürich", Region: "ZH", PostalCode: "8001", Country: "CH",
			},
		},
	}
}

// hash returns a text in the form of an argon2id hash with these costs. No store parses it further.
func hash(costs, text string) oauth.Secret {
	key := digest(text)
	encode := base64.RawStdEncoding.EncodeToString
	return oauth.NewSecret("$argon2id$v=19$" + costs + "$" + encode(key[:16]) + "$" + encode(key[:]))
}

// addUser registers a user of a declared organisation and returns it as the store does.
func addUser(t *testing.T, s store.Store, u *store.User) *store.User {
	t.Helper()
	if err := s.Users.AddUser(t.Context(), u, true); err != nil {
		t.Fatalf("adding user %q: %v", u.ID, err)
	}
	return readUser(t, s.Users, u.ID)
}

// readUser returns a user, who must exist.
func readUser(t *testing.T, s store.UserDirectory, id string) *store.User {
	t.Helper()
	u, err := s.User(t.Context(), id)
	if err != nil {
		t.Fatalf("reading user %q: %v", id, err)
	}
	return u
}

// listUsers returns the users of an organisation, or of all.
func listUsers(t *testing.T, s store.UserStore, organisation string) []*store.User {
	t.Helper()
	list, err := s.Users(t.Context(), organisation)
	must(t, err)
	return list
}

// sameUser compares two users except for the version, which the store sets and must not be empty.
func sameUser(t *testing.T, got, want *store.User) {
	t.Helper()
	if got.ID != want.ID || got.Email != want.Email || got.Name != want.Name || got.Organisation != want.Organisation ||
		got.Role != want.Role || got.Status != want.Status || !slices.Equal(got.Groups, want.Groups) || got.Declared != want.Declared ||
		got.PasswordHash.Reveal() != want.PasswordHash.Reveal() || !sameTime(got.CreatedAt, want.CreatedAt) ||
		!sameTime(got.UpdatedAt, want.UpdatedAt) || got.EmailVerifiedBy != want.EmailVerifiedBy || !slices.Equal(got.ProviderGroups, want.ProviderGroups) || got.GroupsBy != want.GroupsBy || !reflect.DeepEqual(got.Profile, want.Profile) || got.Service != want.Service {
		t.Errorf("user is\n%+v (%s), want\n%+v (%s)", got, got.PasswordHash.Reveal(), want, want.PasswordHash.Reveal())
	}
	if got.Version == "" {
		t.Errorf("user %q has no version", got.ID)
	}
}

// userUnknown: an unknown id or address finds no user, and a step on it leaves nothing behind.
func userUnknown(t *testing.T, s store.Store) {
	ctx := t.Context()
	must(t, Done(s.Families.AddFamily(ctx, family("f")))) // "ada" is declared, and not stored
	_, err := s.Users.User(ctx, "ada")
	mustBe(t, err, store.ErrNotFound)
	_, err = s.Users.UserByEmail(ctx, "ada@example.com")
	mustBe(t, err, store.ErrNotFound)
	_, err = s.Users.ChangeUser(ctx, "ada", store.UserChange{}, theEnd)
	mustBe(t, err, store.ErrNotFound)
	_, err = s.Users.RemoveUser(ctx, "ada", theEnd)
	mustBe(t, err, store.ErrNotFound)
	must(t, s.Users.RehashPassword(ctx, "ada", hash("m=8,t=1,p=1", "old"), hash("m=8,t=1,p=1", "new")))
	if revoked := recorded(t, s.Revocations); len(revoked) != 0 {
		t.Errorf("steps that did not happen recorded %v", revoked)
	}
	sameFamily(t, readFamily(t, s.Families, "f"), family("f"))
	if list := listUsers(t, s.Users, ""); len(list) != 0 {
		t.Errorf("an empty store lists %d users", len(list))
	}
	sameSchemes(t, s.Users)
	addUser(t, s, user("ada")) // the queries took neither id nor address
}

// userReadsBack: every field comes back by id and by address, times to the millisecond and zero times as zero. The store sets the
// version, and does not store Declared.
func userReadsBack(t *testing.T, s store.Store) {
	full := user("full")
	bare := &store.User{
		ID: "bare", Email: "bare@example.com", Status: store.UserActive, // invited: no password, no organisation, no role
	}
	bcrypt := user("bcrypt")
	bcrypt.PasswordHash = oauth.NewSecret("$2b$12$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234")
	bcrypt.Role, bcrypt.Status = store.RoleAdmin, store.UserDisabled
	odd := user("odd")
	odd.Email, odd.Name = "o'hara+%_\"`🦊`\"@exämple.com", `'; DROP TABLE users; -- \ "\u0301`
	odd.Role, odd.Status, odd.CreatedAt = store.RoleBusinessManager, store.UserLocked, time.Unix(0, 0)
	for _, want := range []*store.User{full, bare, bcrypt, odd} {
		must(t, s.Users.AddUser(t.Context(), want, true))
		signIn(t, s.Users, want)
	}
	declared := user("declared")
	declared.Declared, declared.Version = true, "of my own"
	if got := addUser(t, s, declared); got.Declared || got.Version == "of my own" {
		t.Errorf("a stored user is declared (%v) or has the caller's version %q", got.Declared, got.Version)
	}
}

// usersListed: the list has every user in full, whatever its status, sorted by the bytes of the ids, or those of exactly one
// organisation.
func usersListed(t *testing.T, s store.Store) {
	ids := []string{"b", "a", "É", "B", "_", "a b", "a\U0001f4e6", "aé", "Z", "~"}
	statuses := []store.UserStatus{store.UserActive, store.UserDisabled, store.UserLocked}
	organisations := []string{"acme", "Acme", "acme "}
	make := func(id string) *store.User {
		i := slices.Index(ids, id)
		u := user(id)
		u.Status, u.Organisation = statuses[i%3], organisations[i%len(organisations)]
		return u
	}
	for _, id := range ids {
		addUser(t, s, make(id))
	}
	sorted := slices.Sorted(slices.Values(ids))
	for _, organisation := range append(organisations, "", "nobody's") {
		var want []*store.User
		for _, id := range sorted {
			if u := make(id); organisation == "" || u.Organisation == organisation {
				want = append(want, u)
			}
		}
		got := listUsers(t, s.Users, organisation)
		if len(got) != len(want) {
			t.Fatalf("%d users are listed of %q, want %d", len(got), organisation, len(want))
		}
		for i := range want {
			sameUser(t, got[i], want[i])
		}
	}
}

// userIDsAreBytes (T15): an id is what its bytes are. No pattern, no folding, no trimming, no normal form.
func userIDsAreBytes(t *testing.T, s store.Store) {
	for _, id := range append(slices.Clone(strangers), oddIDs...) {
		_, err := s.Users.User(t.Context(), id)
		mustBe(t, err, store.ErrNotFound)
	}
	for _, id := range oddIDs {
		addUser(t, s, user(id))
	}
	// A step changes the user that it names and no other.
	locked := store.UserLocked
	_, err := s.Users.ChangeUser(t.Context(), "%", edit(func(u *store.User) { u.Status = locked }), theEnd)
	must(t, err)
	_, err = s.Users.RemoveUser(t.Context(), "a_p", theEnd)
	must(t, err)
	for _, id := range oddIDs {
		if id == "a_p" {
			continue
		}
		want := user(id)
		if id == "%" {
			want.Status, want.UpdatedAt = locked, theEnd.At
		}
		sameUser(t, readUser(t, s.Users, id), want)
	}
	for _, id := range append(slices.Clone(strangers), "a_p") {
		if got, err := s.Users.User(t.Context(), id); err == nil {
			t.Errorf("asking for %q gave user %q", id, got.ID)
		}
	}
}

// userAddressesAreBytes (T71): the core makes addresses canonical, and the store compares them byte for byte. Another notion of equality
// would mean a second account or a second bucket.
func userAddressesAreBytes(t *testing.T, s store.Store) {
	for i, id := range oddIDs {
		u := user(fmt.Sprint("user ", i))
		u.Email = id + "@example.com"
		addUser(t, s, u)
	}
	for i, id := range oddIDs {
		got, err := s.Users.UserByEmail(t.Context(), id+"@example.com")
		must(t, err)
		if want := fmt.Sprint("user ", i); got.ID != want {
			t.Errorf("the address %q is that of %q, want %q", id, got.ID, want)
		}
	}
	for _, id := range strangers {
		if got, err := s.Users.UserByEmail(t.Context(), id+"@example.com"); err == nil {
			t.Errorf("asking for the address %q gave %q", id, got.Email)
		}
	}
}

// userOutsideTheRules: the core rejects such ids and addresses, but a query for one must not crash the program.
func userOutsideTheRules(t *testing.T, s store.Store) {
	addUser(t, s, user("app"))
	for _, id := range outsideTheRules {
		if got, err := s.Users.User(t.Context(), id); err == nil {
			t.Errorf("asking for %.10q gave user %q", id, got.ID)
		}
		if got, err := s.Users.UserByEmail(t.Context(), id); err == nil {
			t.Errorf("asking for the address %.10q gave user %q", id, got.ID)
		}
		if got, err := s.Users.Organisation(t.Context(), id); err == nil {
			t.Errorf("asking for organisation %.10q gave %q", id, got.ID)
		}
	}
}

// userAddressTaken: adding a second user with an address changes nothing and does not take the id. A removed user frees the address.
func userAddressTaken(t *testing.T, s store.Store) {
	addUser(t, s, user("ada"))
	second := user("bob")
	second.Email = "ada@example.com"
	mustBe(t, s.Users.AddUser(t.Context(), second, true), store.ErrTaken)
	sameUser(t, readUser(t, s.Users, "ada"), user("ada"))
	_, err := s.Users.User(t.Context(), "bob")
	mustBe(t, err, store.ErrNotFound)
	must(t, s.Clients.AddClient(t.Context(), client("bob")))

	_, err = s.Users.RemoveUser(t.Context(), "ada", theEnd)
	must(t, err)
	second.ID = "cyd"
	addUser(t, s, second)
	got, err := s.Users.UserByEmail(t.Context(), "ada@example.com")
	must(t, err)
	sameUser(t, got, second)
}

// userAddressTakenInARace: of concurrent users with one address exactly one is added, completely.
func userAddressTakenInARace(t *testing.T, s store.Store) {
	mine := func(i int) *store.User {
		u := user(fmt.Sprint("racer ", i))
		u.Email = "ada@example.com"
		return u
	}
	errs := race(racers, func(i int) error { return s.Users.AddUser(t.Context(), mine(i), true) })
	oneWinner(t, errs, store.ErrTaken)
	winner := mine(slices.Index(errs, nil))
	got, err := s.Users.UserByEmail(t.Context(), "ada@example.com")
	must(t, err)
	sameUser(t, got, winner)
	if list := listUsers(t, s.Users, ""); len(list) != 1 {
		t.Errorf("%d users are stored, want the winner alone", len(list))
	}
}

// idGivenOnce (T68): an id of a client or a user is not given to another, even when its owner was removed: tokens of the first owner
// would pass for tokens of the second.
func idGivenOnce(t *testing.T, s store.Store) {
	owners := []struct {
		name        string
		add, remove func(id string) error
	}{
		{"client", func(id string) error { return s.Clients.AddClient(t.Context(), client(id)) },
			func(id string) error { return s.Clients.RemoveClient(t.Context(), id, revocation(id)) }},
		{"user", func(id string) error {
			u := user(id)
			u.Email = oauth.NewID() + "@example.com" // the id is taken, not the address
			return s.Users.AddUser(t.Context(), u, true)
		}, func(id string) error { _, err := s.Users.RemoveUser(t.Context(), id, theEnd); return err }},
	}
	for _, first := range owners {
		for _, second := range owners {
			living, removed := first.name+" then "+second.name, "removed "+first.name+" then "+second.name
			must(t, first.add(living))
			mustBe(t, second.add(living), store.ErrTaken)
			must(t, first.add(removed))
			must(t, first.remove(removed))
			takenUntil(t, second.add(removed), map[string]time.Time{"client": revocation(removed).FreeAt(), "user": theEnd.Until}[first.name])
			mustBe(t, second.remove(removed), store.ErrNotFound)
		}
	}
	again := user("removed user then user")
	again.CreatedAt = theEnd.Until
	must(t, s.Users.AddUser(t.Context(), again, true))
	_, err := s.Users.RemoveUser(t.Context(), again.ID, theEnd)
	must(t, err)
	clients, err := s.Clients.Clients(t.Context())
	must(t, err)
	if users := listUsers(t, s.Users, ""); len(clients) != len(owners) || len(users) != len(owners) {
		t.Errorf("%d clients and %d users are stored, want %d of each", len(clients), len(users), len(owners))
	}
}

// idGivenOnceInARace (T68): of concurrent clients and users with one id exactly one is added.
func idGivenOnceInARace(t *testing.T, s store.Store) {
	for round := range 8 {
		id := fmt.Sprint("both ", round)
		oneWinner(t, race(racers, func(i int) error {
			if i%2 == 0 {
				return s.Clients.AddClient(t.Context(), client(id))
			}
			u := user(id)
			u.Email = fmt.Sprint(id, i, "@example.com")
			return s.Users.AddUser(t.Context(), u, true)
		}), store.ErrTaken)
		_, noClient := s.Clients.Client(t.Context(), id)
		_, noUser := s.Users.User(t.Context(), id)
		oneWinner(t, []error{noClient, noUser}, store.ErrNotFound)
	}
}

// userHandedOutStaysAsItWas: a user that was read is a snapshot, shared and never changed.
func userHandedOutStaysAsItWas(t *testing.T, s store.Store) {
	before := addUser(t, s, user("ada"))
	version := before.Version
	list := listUsers(t, s.Users, "")
	byEmail, err := s.Users.UserByEmail(t.Context(), "ada@example.com")
	must(t, err)
	locked := store.UserLocked
	_, err = s.Users.ChangeUser(t.Context(), "ada", edit(func(u *store.User) { u.Status = locked }), theEnd)
	must(t, err)
	must(t, s.Users.RehashPassword(t.Context(), "ada", user("ada").PasswordHash, hash("m=8,t=1,p=1", "new")))
	_, err = s.Users.RemoveUser(t.Context(), "ada", theEnd)
	must(t, err)
	for _, u := range []*store.User{before, list[0], byEmail} {
		sameUser(t, u, user("ada"))
		if u.Version != version {
			t.Errorf("the version became %q, want %q", u.Version, version)
		}
	}
}
