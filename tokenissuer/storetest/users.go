package storetest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

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
	return ok(s.Users(t.Context(), organisation))(t)
}

// sameUser is same except for External and for the version, which the store sets and must not be empty.
func sameUser(t *testing.T, got, want *store.User) {
	t.Helper()
	if got.Version == "" {
		t.Errorf("user %q has no version", got.ID)
	}
	same(t, got, with(new(*want), func(u *store.User) { u.External, u.Version = got.External, got.Version }))
}

// wantUsers compares stored users with these.
func wantUsers(t *testing.T, s store.UserDirectory, want ...*store.User) {
	t.Helper()
	for _, u := range want {
		sameUser(t, readUser(t, s, u.ID), u)
	}
}

var userChecks = []check{
	// An unknown id or address finds no user, and a step on it leaves nothing behind.
	{name: "UserUnknown", test: func(t *testing.T, s store.Store) {
		ctx := t.Context()
		must(t, Done(s.Families.AddFamily(ctx, family("f")))) // "ada" is declared, and not stored
		mustBe(t, errOf(s.Users.User(ctx, "ada")), store.ErrNotFound)
		mustBe(t, errOf(s.Users.UserByEmail(ctx, "ada@example.com")), store.ErrNotFound)
		mustBe(t, errOf(s.Users.ChangeUser(ctx, "ada", store.UserChange{}, theEnd)), store.ErrNotFound)
		mustBe(t, errOf(s.Users.RemoveUser(ctx, "ada", theEnd)), store.ErrNotFound)
		must(t, s.Users.RehashPassword(ctx, "ada", hash("m=8,t=1,p=1", "old"), hash("m=8,t=1,p=1", "new")))
		nothingRevoked(t, s.Revocations)
		wantFamilies(t, s.Families, family("f"))
		wantSize(t, listUsers(t, s.Users, ""), 0)
		sameSchemes(t, s.Users)
		addUser(t, s, user("ada")) // the queries took neither id nor address
	}},
	// Every field comes back by id and by address, times to the millisecond and zero times as zero. The store sets the version, and does not
	// store Declared.
	{name: "UserReadsBack", test: func(t *testing.T, s store.Store) {
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
		declared := with(user("declared"), func(u *store.User) { u.Declared, u.Version = true, "of my own" })
		if got := addUser(t, s, declared); got.Declared || got.Version == "of my own" {
			t.Errorf("a stored user is declared (%v) or has the caller's version %q", got.Declared, got.Version)
		}
	}},
	// Ids of users and clients, some of them of nothing or of no store → the names of those that are there, of a user without one the address.
	{name: "NamesById", test: func(t *testing.T, s store.Store) {
		addUser(t, s, user("zoë"))
		addUser(t, s, with(user("bare"), func(u *store.User) { u.Name = "" }))
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		ids := []string{"zoë", "app", "bare", "nobody", "", "\x00", "\xff", "x' OR 1=1 --", "zoë"}
		want := map[string]string{"zoë": user("zoë").Name, "app": client("app").Name, "bare": "bare@example.com"}
		if got := ok(s.Clients.Names(t.Context(), ids))(t); !maps.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for i := len(ids); i < store.MaxPage; i++ {
			ids = append(ids, fmt.Sprint("id ", i))
		}
		if got := ok(s.Clients.Names(t.Context(), ids))(t); !maps.Equal(got, want) {
			t.Errorf("among many: %q, want %q", got, want)
		}
		if got := ok(s.Clients.Names(t.Context(), nil))(t); len(got) != 0 {
			t.Errorf("of no ids: %q", got)
		}
	}},
	// The list has every user in full, whatever its status, sorted by the bytes of the ids, or those of exactly one organisation.
	{name: "UsersListed", test: func(t *testing.T, s store.Store) {
		ids := []string{"b", "a", "É", "B", "_", "a b", "a\U0001f4e6", "aé", "Z", "~"}
		statuses := []store.UserStatus{store.UserActive, store.UserDisabled, store.UserLocked}
		organisations := []string{"acme", "Acme", "acme "}
		make := func(id string) *store.User {
			i := slices.Index(ids, id)
			return with(user(id), func(u *store.User) { u.Status, u.Organisation = statuses[i%3], organisations[i%len(organisations)] })
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
			wantSize(t, got, len(want))
			for i := range want {
				sameUser(t, got[i], want[i])
			}
		}
	}},
	// T15: an id is what its bytes are. No pattern, no folding, no trimming, no normal form.
	{name: "UserIDsAreBytes", test: func(t *testing.T, s store.Store) {
		find := func(id string) error { return errOf(s.Users.User(t.Context(), id)) }
		namesAreBytes(t, func(id string) { addUser(t, s, user(id)) }, func(id string) { wantUsers(t, s.Users, user(id)) }, find)
		// A step changes the user that it names and no other.
		ok(s.Users.ChangeUser(t.Context(), "%", edit(func(u *store.User) { u.Status = store.UserLocked }), theEnd))(t)
		ok(s.Users.RemoveUser(t.Context(), "a_p", theEnd))(t)
		mustBe(t, find("a_p"), store.ErrNotFound)
		for _, id := range oddIDs {
			if id == "a_p" {
				continue
			}
			want := user(id)
			if id == "%" {
				want.Status, want.UpdatedAt = store.UserLocked, theEnd.At
			}
			wantUsers(t, s.Users, want)
		}
	}},
	// T71: the core makes addresses canonical, and the store compares them byte for byte. Another notion of equality would mean a second
	// account or a second bucket.
	{name: "UserAddressesAreBytes", test: func(t *testing.T, s store.Store) {
		namesAreBytes(t, func(name string) {
			addUser(t, s, with(user("user "+name), func(u *store.User) { u.Email = name + "@example.com" }))
		}, func(name string) {
			if got := ok(s.Users.UserByEmail(t.Context(), name+"@example.com"))(t); got.ID != "user "+name {
				t.Errorf("the address %q is that of %q", name, got.ID)
			}
		}, func(name string) error { return errOf(s.Users.UserByEmail(t.Context(), name+"@example.com")) })
	}},
	// Adding a second user with an address changes nothing and does not take the id. A removed user frees the address.
	{name: "UserAddressTaken", test: func(t *testing.T, s store.Store) {
		addUser(t, s, user("ada"))
		second := with(user("bob"), func(u *store.User) { u.Email = "ada@example.com" })
		mustBe(t, s.Users.AddUser(t.Context(), second, true), store.ErrTaken)
		wantUsers(t, s.Users, user("ada"))
		mustBe(t, errOf(s.Users.User(t.Context(), "bob")), store.ErrNotFound)
		must(t, s.Clients.AddClient(t.Context(), client("bob")))

		ok(s.Users.RemoveUser(t.Context(), "ada", theEnd))(t)
		second.ID = "cyd"
		addUser(t, s, second)
		sameUser(t, ok(s.Users.UserByEmail(t.Context(), "ada@example.com"))(t), second)
	}},
	// Of concurrent users with one address exactly one is added, completely.
	{name: "UserAddressTakenInARace", races: func(t *testing.T, s store.Store) {
		mine := func(i int) *store.User {
			return with(user(fmt.Sprint("racer ", i)), func(u *store.User) { u.Email = "ada@example.com" })
		}
		errs := race(racers, func(i int) error { return s.Users.AddUser(t.Context(), mine(i), true) })
		oneWinner(t, errs, store.ErrTaken)
		winner := mine(slices.Index(errs, nil))
		sameUser(t, ok(s.Users.UserByEmail(t.Context(), "ada@example.com"))(t), winner)
		wantSize(t, listUsers(t, s.Users, ""), 1)
	}},
	// An id of a client or a user is not given to another, even when its owner was removed: tokens of the first owner would pass for tokens
	// of the second.
	{name: "T68IDGivenOnce", test: func(t *testing.T, s store.Store) {
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
			}, func(id string) error { return errOf(s.Users.RemoveUser(t.Context(), id, theEnd)) }},
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
		again := with(user("removed user then user"), func(u *store.User) { u.CreatedAt = theEnd.Until })
		must(t, s.Users.AddUser(t.Context(), again, true))
		ok(s.Users.RemoveUser(t.Context(), again.ID, theEnd))(t)
		clients := ok(s.Clients.Clients(t.Context()))(t)
		if users := listUsers(t, s.Users, ""); len(clients) != len(owners) || len(users) != len(owners) {
			t.Errorf("%d clients and %d users are stored, want %d of each", len(clients), len(users), len(owners))
		}
	}},
	// Of concurrent clients and users with one id exactly one is added.
	{name: "T68IDGivenOnceInARace", races: func(t *testing.T, s store.Store) {
		for round := range 3 {
			id := fmt.Sprint("both ", round)
			oneWinner(t, race(racers, func(i int) error {
				if i%2 == 0 {
					return s.Clients.AddClient(t.Context(), client(id))
				}
				return s.Users.AddUser(t.Context(), with(user(id), func(u *store.User) { u.Email = fmt.Sprint(id, i, "@example.com") }), true)
			}), store.ErrTaken)
			_, noClient := s.Clients.Client(t.Context(), id)
			_, noUser := s.Users.User(t.Context(), id)
			oneWinner(t, []error{noClient, noUser}, store.ErrNotFound)
		}
	}},
}
