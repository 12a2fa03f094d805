package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// unchanged is signIn for a user whose version must not have moved either.
func unchanged(t *testing.T, s store.UserDirectory, want *store.User, version string) {
	t.Helper()
	if got := signIn(t, s, want); got.Version != version {
		t.Errorf("the version of %q moved from %q to %q", want.ID, version, got.Version)
	}
}

// signIn returns the user, found by id and by address alike.
func signIn(t *testing.T, s store.UserDirectory, want *store.User) *store.User {
	t.Helper()
	byID := readUser(t, s, want.ID)
	sameUser(t, byID, want)
	byEmail := ok(s.UserByEmail(t.Context(), want.Email))(t)
	sameUser(t, byEmail, want)
	if byID.Version != byEmail.Version {
		t.Errorf("user %q has version %q by id and %q by address", want.ID, byID.Version, byEmail.Version)
	}
	return byID
}

// bequeath adds families of the user in every state and families of others, and returns the ids of those that a change of the user ends.
// One had ended before, and one has expired: its access tokens may still live.
func bequeath(t *testing.T, s store.Store, u *store.User) (living []string) {
	t.Helper()
	of := func(name string) *store.TokenFamily { return familyOf(u, u.ID+" "+name) }
	expired, other, session := of("expired"), of("of another client"), of("session")
	expired.ExpiresAt = now.Add(-48 * time.Hour)
	other.ClientID = "other"
	session.Origin, session.Code = store.BrowserSession, store.CodeBinding{}
	spent, unspent := of("spent"), of("unspent")
	addFamilies(t, s.Families, spent, unspent, expired, other, session, of("ended before"))
	must(t, Used(s.Families.RedeemCode(t.Context(), spent.ID, store.Redemption{At: now, Generation: 1, ExpiresAt: now.Add(time.Hour), MaxFailures: 5})))
	ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: u.ID + " ended before"}, store.Ending{At: now.Add(-time.Hour), Until: theEnd.Until}))(t)
	addFamilies(t, s.Families, with(family("of another user than "+u.ID), func(f *store.TokenFamily) { f.User.ID = u.ID + " " }))
	return []string{spent.ID, unspent.ID, expired.ID, other.ID, session.ID}
}

// sameBequest checks the families of bequeath after a step that ended the user's families.
func sameBequest(t *testing.T, s store.Store, u *store.User, ended []store.Revocation, living []string) {
	t.Helper()
	sameEndings(t, s, slices.DeleteFunc(slices.Clone(ended), func(r store.Revocation) bool {
		return r.ID == u.ID+" ended before" // the contract does not say whether it is recorded again
	}), living...)
	if at := readFamily(t, s.Families, u.ID+" ended before").RevokedAt; !sameTime(at, now.Add(-time.Hour)) {
		t.Errorf("a family that had ended before has ended at %v", at)
	}
	if at := readFamily(t, s.Families, "of another user than "+u.ID).RevokedAt; !at.IsZero() {
		t.Errorf("another user's family has ended at %v", at)
	}
}

// sameSchemes compares the schemes of the stored hashes with want, in any order.
func sameSchemes(t *testing.T, s store.UserStore, want ...string) {
	t.Helper()
	got := ok(s.PasswordSchemes(t.Context()))(t)
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the schemes are %q, want %q", got, want)
	}
}

var userChangeChecks = []check{
	// The members that are set change, and no other. Each change sets a version that the user never had before, even if nothing else changed.
	{name: "ChangeUserChangesWhatIsSet", test: func(t *testing.T, s store.Store) {
		addUser(t, s, user("bob"))
		versions := []string{addUser(t, s, user("ada")).Version}
		bob := readUser(t, s.Users, "bob").Version
		want := user("ada")
		password, groups := hash("m=8,t=1,p=1", "new"), []string{"a", "b c", `"`}
		for _, c := range []struct {
			name   string
			change store.UserChange
		}{
			{"role", edit(func(u *store.User) { u.Role = store.RoleAdmin })},
			{"the same role", edit(func(u *store.User) { u.Role = store.RoleAdmin })},
			{"status", edit(func(u *store.User) { u.Status = store.UserLocked })},
			{"password", edit(func(u *store.User) { u.PasswordHash = password })},
			{"the same password", edit(func(u *store.User) { u.PasswordHash = password })},
			{"status back", edit(func(u *store.User) { u.Status = store.UserActive })},
			{"no password", edit(func(u *store.User) { u.PasswordHash = oauth.Secret{} })},
			{"groups", edit(func(u *store.User) { u.Groups = groups })},
			{"no groups", edit(func(u *store.User) { u.Groups = []string{} })},
			{"no organisation", edit(func(u *store.User) { u.Organisation = "" })},
			{"a name and a role", edit(func(u *store.User) { u.Name = "Another"; u.Role = store.RoleAdmin })},
			{"all", store.UserChange{OrganisationDeclared: true, Edit: func(u *store.User) error {
				u.SetEmail("another@example.com")
				u.PasswordHash, u.Role, u.Status, u.Groups, u.Name, u.Organisation = password, store.RoleAdmin, store.UserActive, groups, "Another", "another"
				return nil
			}}},
			{"nothing", store.UserChange{}},
		} {
			wantSize(t, ok(s.Users.ChangeUser(t.Context(), "ada", c.change, theEnd))(t), 0)
			ok(c.change.Apply(want))(t)
			want.UpdatedAt = theEnd.At
			got := signIn(t, s.Users, want)
			if slices.Contains(versions, got.Version) {
				t.Errorf("%s: the version is %q, which it was before: %q", c.name, got.Version, versions)
			}
			versions = append(versions, got.Version)
		}
		unchanged(t, s.Users, user("bob"), bob)
	}},
	// Another name and another address end nothing. The user is found by the new address and no longer by the old one, which another user can
	// have.
	{name: "ChangeUserOfWhatTheUserIsCalled", test: func(t *testing.T, s store.Store) {
		u := addUser(t, s, user("ada"))
		f := familyOf(u, "f")
		addFamilies(t, s.Families, f)
		want, name, email := user("ada"), "Ada Lovelace", "lovelace@example.com"
		first, other := want.Email, store.VerifiedBy("corp")
		for _, change := range []store.UserChange{
			tell(func(u *store.User) { u.Name = name }),
			tell(func(u *store.User) { u.SetEmail(email) }),
			tell(func(u *store.User) { u.SetEmail(email); u.Name = name }),
			{KeepsTokens: true, VerifiesEmail: true},
			tell(func(u *store.User) { u.SetEmail(email) }),
			tell(func(u *store.User) { u.SetEmail(first) }),
			tell(func(u *store.User) { u.SetEmail(email); u.EmailVerifiedBy = other }),
			tell(func(u *store.User) { u.EmailVerifiedBy = "" }),
			tell(func(u *store.User) { u.GroupsBy = other }),
			tell(func(u *store.User) { u.Profile = &store.Profile{GivenName: "Ada", Locale: "en"} }),
			tell(func(u *store.User) { u.Name = name }),
			tell(func(u *store.User) { u.Profile = new(store.Profile) }),
		} {
			ended := ok(s.Users.ChangeUser(t.Context(), "ada", change, theEnd))(t)
			ok(change.Apply(want))(t)
			want.UpdatedAt = theEnd.At
			if unchanged(t, s.Users, want, u.Version); len(ended) != 0 {
				t.Errorf("%+v ended %v", change, ended)
			}
		}
		wantFamilies(t, s.Families, f)
		mustBe(t, errOf(s.Users.UserByEmail(t.Context(), "ada@example.com")), store.ErrNotFound)
		addUser(t, s, with(user("heir"), func(u *store.User) { u.Email = "ada@example.com" }))
		mustBe(t, errOf(s.Users.ChangeUser(t.Context(), "nobody", tell(func(u *store.User) { u.SetEmail(email); u.Name = name }), theEnd)), store.ErrNotFound)
	}},
	// A change to a taken address is refused whole.
	{name: "ChangeUserToATakenAddress", test: func(t *testing.T, s store.Store) {
		addUser(t, s, user("bob"))
		u := addUser(t, s, user("ada"))
		f := familyOf(u, "f")
		addFamilies(t, s.Families, f)
		for _, change := range []func(func(*store.User)) store.UserChange{tell, edit} {
			taking := change(func(u *store.User) { u.SetEmail("bob@example.com"); u.Name = "Bob"; u.Role = store.RoleAdmin })
			mustBe(t, errOf(s.Users.ChangeUser(t.Context(), "ada", taking, theEnd)), store.ErrEmailTaken)
		}
		unchanged(t, s.Users, user("ada"), u.Version)
		signIn(t, s.Users, user("bob"))
		wantFamilies(t, s.Families, f)
	}},
	// Of several users who are given one address concurrently, one gets it.
	{name: "ChangeUserToAnAddressInARace", races: func(t *testing.T, s store.Store) {
		const email = "the-one@example.com"
		for i := range 8 {
			addUser(t, s, user(fmt.Sprint("u", i)))
		}
		errs := race(8, func(i int) error {
			return errOf(s.Users.ChangeUser(t.Context(), fmt.Sprint("u", i), tell(func(u *store.User) { u.SetEmail(email) }), theEnd))
		})
		oneWinner(t, errs, store.ErrTaken)
		for i, err := range errs {
			want := user(fmt.Sprint("u", i))
			if err == nil {
				want.Email, want.EmailVerifiedBy, want.UpdatedAt = email, "", theEnd.At
			}
			signIn(t, s.Users, want)
		}
	}},
	// The organisation must be stored or declared. Otherwise nothing is changed.
	{name: "ChangeUserToAnOrganisation", test: func(t *testing.T, s store.Store) {
		must(t, s.Users.AddOrganisation(t.Context(), organisation("globex")))
		u := addUser(t, s, user("ada"))
		mustBe(t, errOf(s.Users.ChangeUser(t.Context(), "ada", edit(func(u *store.User) { u.Organisation = "nowhere"; u.Role = store.RoleAdmin }), theEnd)), store.ErrNotFound)
		unchanged(t, s.Users, user("ada"), u.Version)
		want := user("ada")
		for _, name := range []string{"declared", "globex"} {
			change := edit(func(u *store.User) { u.Organisation = name })
			change.OrganisationDeclared = name == "declared"
			ok(s.Users.ChangeUser(t.Context(), "ada", change, theEnd))(t)
			want.Organisation, want.UpdatedAt = name, theEnd.At
			signIn(t, s.Users, want)
		}
		mustBe(t, s.Users.RemoveOrganisation(t.Context(), "globex"), store.ErrInUse)
	}},
	// Every change that ends tokens ends every family of the user.
	{name: "T61ChangeUserEndsFamilies", test: func(t *testing.T, s store.Store) {
		for name, change := range map[string]store.UserChange{
			"password": edit(func(u *store.User) { u.PasswordHash = hash("m=8,t=1,p=1", "new") }),
			"role":     edit(func(u *store.User) { u.Role = store.RoleMember }),
			"status":   edit(func(u *store.User) { u.Status = store.UserDisabled }),
			"nothing":  {},
		} {
			u := addUser(t, s, user(name))
			living := bequeath(t, s, u)
			sameBequest(t, s, u, ok(s.Users.ChangeUser(t.Context(), u.ID, change, theEnd))(t), living)
		}
	}},
	// Of concurrent changes of different members none is lost, and each changes the version.
	{name: "ChangeUserInARace", races: func(t *testing.T, s store.Store) {
		addUser(t, s, user("ada"))
		password := hash("m=8,t=1,p=1", "new")
		changes := []store.UserChange{
			edit(func(u *store.User) { u.PasswordHash = password }),
			edit(func(u *store.User) { u.Role = store.RoleMember }),
			edit(func(u *store.User) { u.Status = store.UserLocked }),
		}
		var versions [racers]string
		all(t, racers, func(i int) error {
			_, err := s.Users.ChangeUser(t.Context(), "ada", changes[i%len(changes)], theEnd)
			if err != nil {
				return err
			}
			u, err := s.Users.User(t.Context(), "ada")
			if err != nil {
				return err
			}
			versions[i] = u.Version
			return nil
		})
		want := with(user("ada"), func(u *store.User) {
			u.PasswordHash, u.Role, u.Status, u.UpdatedAt = password, store.RoleMember, store.UserLocked, theEnd.At
		})
		got := readUser(t, s.Users, "ada")
		sameUser(t, got, want)
		if !slices.Contains(versions[:], got.Version) {
			t.Errorf("the version is %q, which nobody saw after the change that made it", got.Version)
		}
	}},
	// A hash is replaced by another of the same password. Neither the version nor the families change.
	{name: "RehashPassword", test: func(t *testing.T, s store.Store) {
		u := addUser(t, s, user("ada"))
		addUser(t, s, user("bob"))
		addFamilies(t, s.Families, familyOf(u, "f"))
		fresh := hash("m=65536,t=3,p=2", "ada")
		must(t, s.Users.RehashPassword(t.Context(), "ada", u.PasswordHash, fresh))
		unchanged(t, s.Users, with(user("ada"), func(u *store.User) { u.PasswordHash = fresh }), u.Version)
		wantFamilies(t, s.Families, familyOf(u, "f"))
		addFamilies(t, s.Families, familyOf(u, "later"))
		nothingRevoked(t, s.Revocations)
		wantUsers(t, s.Users, user("bob"))
	}},
	// A hash other than the verified one stays, without an error: a sign-in with the old password must not undo a change of the password.
	{name: "RehashPasswordLosesToAChange", races: func(t *testing.T, s store.Store) {
		old, changed := user("ada").PasswordHash, hash("m=8,t=1,p=1", "changed")
		addUser(t, s, user("ada"))
		ok(s.Users.ChangeUser(t.Context(), "ada", edit(func(u *store.User) { u.PasswordHash = changed }), theEnd))(t)
		version := readUser(t, s.Users, "ada").Version
		must(t, s.Users.RehashPassword(t.Context(), "ada", old, hash("m=8,t=1,p=1", "rehashed")))
		unchanged(t, s.Users, with(user("ada"), func(u *store.User) { u.PasswordHash, u.UpdatedAt = changed, theEnd.At }), version)
		for round := range raceRounds { // in either order, the new password is stored in the end
			u := addUser(t, s, user(fmt.Sprint("user ", round)))
			all(t, 2, func(i int) error {
				if i == 0 {
					return s.Users.RehashPassword(t.Context(), u.ID, u.PasswordHash, hash("m=8,t=1,p=1", "rehashed"))
				}
				return errOf(s.Users.ChangeUser(t.Context(), u.ID, edit(func(u *store.User) { u.PasswordHash = changed }), theEnd))
			})
			if got := readUser(t, s.Users, u.ID).PasswordHash.Reveal(); got != changed.Reveal() {
				t.Fatalf("round %d: the hash is %q, want the changed one", round, got)
			}
		}
	}},
	// No read returns the user, and the user's families have ended and can still be read.
	{name: "RemoveUser", test: func(t *testing.T, s store.Store) {
		u := addUser(t, s, user("ada"))
		addUser(t, s, user("bob"))
		living := bequeath(t, s, u)
		sameBequest(t, s, u, ok(s.Users.RemoveUser(t.Context(), "ada", theEnd))(t), living)
		mustBe(t, errOf(s.Users.User(t.Context(), "ada")), store.ErrNotFound)
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		for id, want := range map[string]bool{"ada": true, "bob": true, "app": false, "nobody": false, "": false, "\x00": false} {
			if had, err := s.Users.HadUser(t.Context(), id); had != want || err != nil {
				t.Errorf("there was a user %q: %t, %v", id, had, err)
			}
		}
		mustBe(t, errOf(s.Users.UserByEmail(t.Context(), "ada@example.com")), store.ErrNotFound)
		for _, organisation := range []string{"", "acme"} {
			list := listUsers(t, s.Users, organisation)
			wantSize(t, list, 1)
			sameUser(t, list[0], user("bob"))
		}
		mustBe(t, errOf(s.Users.ChangeUser(t.Context(), "ada", store.UserChange{}, theEnd)), store.ErrNotFound)
		must(t, s.Users.RehashPassword(t.Context(), "ada", user("ada").PasswordHash, hash("m=8,t=1,p=1", "new")))
		mustBe(t, errOf(s.Users.User(t.Context(), "ada")), store.ErrNotFound)
	}},
	// Of concurrent removals one finds the user, and ends the families.
	{name: "RemoveUserOnce", races: func(t *testing.T, s store.Store) {
		u := addUser(t, s, user("ada"))
		addFamilies(t, s.Families, familyOf(u, "f"))
		ended := make([][]store.Revocation, racers)
		errs := race(racers, func(i int) (err error) {
			ended[i], err = s.Users.RemoveUser(t.Context(), "ada", theEnd)
			return err
		})
		oneWinner(t, errs, store.ErrNotFound)
		sameEndings(t, s, slices.Concat(ended...), "f")
	}},
	// Every scheme of a stored hash is listed once, as passwords.SchemeOf names it. Users without a password have none.
	{name: "PasswordSchemes", test: func(t *testing.T, s store.Store) {
		const weak, strong, bcrypt = "$argon2id$v=19$m=8,t=1,p=1", "$argon2id$v=19$m=19456,t=2,p=1", "$2b$12"
		for id, password := range map[string]oauth.Secret{
			"a": hash("m=8,t=1,p=1", "a"), "b": hash("m=19456,t=2,p=1", "b"), "c": hash("m=19456,t=2,p=1", "c"), "d": {},
			"e": oauth.NewSecret("$2b$12$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234"),
		} {
			addUser(t, s, with(user(id), func(u *store.User) { u.PasswordHash = password }))
		}
		sameSchemes(t, s.Users, weak, strong, bcrypt)
		must(t, s.Users.RehashPassword(t.Context(), "a", hash("m=8,t=1,p=1", "a"), hash("m=19456,t=2,p=1", "a")))
		sameSchemes(t, s.Users, strong, bcrypt)
		ok(s.Users.RemoveUser(t.Context(), "e", theEnd))(t)
		sameSchemes(t, s.Users, strong)
		password := hash("m=8,t=1,p=1", "d")
		ok(s.Users.ChangeUser(t.Context(), "d", edit(func(u *store.User) { u.PasswordHash = password; u.Status = store.UserDisabled }), theEnd))(t)
		sameSchemes(t, s.Users, weak, strong)
	}},
}
