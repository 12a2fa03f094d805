package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var userChangeChecks = []check{
	{name: "ChangeUserChangesWhatIsSet", test: changeUserChangesWhatIsSet},
	{name: "ChangeUserOfWhatTheUserIsCalled", test: changeUserOfWhatTheUserIsCalled},
	{name: "ChangeUserToATakenAddress", test: changeUserToATakenAddress},
	{name: "ChangeUserToAnAddressInARace", test: changeUserToAnAddressInARace},
	{name: "ChangeUserToAnOrganisation", test: changeUserToAnOrganisation},
	{name: "T61ChangeUserEndsFamilies", test: changeUserEndsFamilies},
	{name: "M25ChangeUserIsOneStep", test: changeUserIsOneStep},
	{name: "ChangeUserInARace", test: changeUserInARace},
	{name: "RehashPassword", test: rehashPassword},
	{name: "RehashPasswordLosesToAChange", test: rehashPasswordLosesToAChange},
	{name: "RemoveUser", test: removeUser},
	{name: "M28RemoveUserIsOneStep", test: removeUserIsOneStep},
	{name: "RemoveUserOnce", test: removeUserOnce},
	{name: "PasswordSchemes", test: passwordSchemes},
}

// signIn returns the user, who must be the same by id and by address.
func signIn(t *testing.T, s store.UserDirectory, want *store.User) *store.User {
	t.Helper()
	byID := readUser(t, s, want.ID)
	sameUser(t, byID, want)
	byEmail, err := s.UserByEmail(t.Context(), want.Email)
	must(t, err)
	sameUser(t, byEmail, want)
	if byID.Version != byEmail.Version {
		t.Errorf("user %q has version %q by id and %q by address", want.ID, byID.Version, byEmail.Version)
	}
	return byID
}

// changeUserChangesWhatIsSet: the members that are set change, and no other. Each change sets a version that the user never had before,
// even if nothing else changed.
func changeUserChangesWhatIsSet(t *testing.T, s store.Store) {
	addUser(t, s, user("bob"))
	versions := []string{addUser(t, s, user("ada")).Version}
	bob := readUser(t, s.Users, "bob").Version
	want := user("ada")
	password, none := hash("m=8,t=1,p=1", "new"), oauth.Secret{}
	admin, locked, active := store.RoleAdmin, store.UserLocked, store.UserActive
	groups, fewer, free, name, email := []string{"a", "b c", `"`}, []string{}, "", "Another", "another@example.com"
	for _, c := range []struct {
		name   string
		change store.UserChange
	}{
		{"role", edit(func(u *store.User) { u.Role = admin })},
		{"the same role", edit(func(u *store.User) { u.Role = admin })},
		{"status", edit(func(u *store.User) { u.Status = locked })},
		{"password", edit(func(u *store.User) { u.PasswordHash = password })},
		{"the same password", edit(func(u *store.User) { u.PasswordHash = password })},
		{"status back", edit(func(u *store.User) { u.Status = active })},
		{"no password", edit(func(u *store.User) { u.PasswordHash = none })},
		{"groups", edit(func(u *store.User) { u.Groups = groups })},
		{"no groups", edit(func(u *store.User) { u.Groups = fewer })},
		{"no organisation", edit(func(u *store.User) { u.Organisation = free })},
		{"a name and a role", edit(func(u *store.User) { u.Name = name; u.Role = admin })},
		{"all", store.UserChange{OrganisationDeclared: true, Edit: func(u *store.User) error {
			u.SetEmail(email)
			u.PasswordHash = password
			u.Role = admin
			u.Status = active
			u.Groups = groups
			u.Name = name
			u.Organisation = name
			return nil
		}}},
		{"nothing", store.UserChange{}},
	} {
		ended, err := s.Users.ChangeUser(t.Context(), "ada", c.change, theEnd)
		must(t, err)
		if len(ended) != 0 {
			t.Errorf("%s: a user without families ended %v", c.name, ended)
		}
		_, err = c.change.Apply(want)
		must(t, err)
		want.UpdatedAt = theEnd.At
		got := signIn(t, s.Users, want)
		if slices.Contains(versions, got.Version) {
			t.Errorf("%s: the version is %q, which it was before: %q", c.name, got.Version, versions)
		}
		versions = append(versions, got.Version)
	}
	got := readUser(t, s.Users, "bob")
	sameUser(t, got, user("bob"))
	if got.Version != bob {
		t.Errorf("the version of another user moved from %q to %q", bob, got.Version)
	}
}

// changeUserOfWhatTheUserIsCalled: another name and another address end nothing. The user is found by the new address and no longer by
// the old one, which another user can have.
func changeUserOfWhatTheUserIsCalled(t *testing.T, s store.Store) {
	u := addUser(t, s, user("ada"))
	f := familyOf(u, "f")
	addFamilies(t, s.Families, f)
	want, name, email := user("ada"), "Ada Lovelace", "lovelace@example.com"
	first, other, no := want.Email, store.VerifiedBy("corp"), ""
	for _, change := range []store.UserChange{
		tell(func(u *store.User) { u.Name = name }), tell(func(u *store.User) { u.SetEmail(email) }), tell(func(u *store.User) { u.SetEmail(email) }), tell(func(u *store.User) { u.SetEmail(email); u.Name = name }),
		{KeepsTokens: true, VerifiesEmail: true}, tell(func(u *store.User) { u.SetEmail(email) }), tell(func(u *store.User) { u.SetEmail(first) }), tell(func(u *store.User) { u.SetEmail(email); u.EmailVerifiedBy = other }), tell(func(u *store.User) { u.EmailVerifiedBy = no }), tell(func(u *store.User) { u.GroupsBy = other }),
		tell(func(u *store.User) { u.Profile = &store.Profile{GivenName: "Ada", Locale: "en"} }), tell(func(u *store.User) { u.Name = name }), tell(func(u *store.User) { u.Profile = new(store.Profile) }),
	} {
		ended, err := s.Users.ChangeUser(t.Context(), "ada", change, theEnd)
		must(t, err)
		_, err = change.Apply(want)
		must(t, err)
		want.UpdatedAt = theEnd.At
		if got := signIn(t, s.Users, want); got.Version != u.Version || len(ended) != 0 {
			t.Errorf("%+v moved the version from %s to %s and ended %v", change, u.Version, got.Version, ended)
		}
	}
	sameFamily(t, readFamily(t, s.Families, "f"), f)
	_, err := s.Users.UserByEmail(t.Context(), "ada@example.com")
	mustBe(t, err, store.ErrNotFound)
	heir := user("heir")
	heir.Email = "ada@example.com"
	addUser(t, s, heir)
	_, err = s.Users.ChangeUser(t.Context(), "nobody", tell(func(u *store.User) { u.SetEmail(email); u.Name = name }), theEnd)
	mustBe(t, err, store.ErrNotFound)
}

// changeUserToATakenAddress: nothing of the change is stored.
func changeUserToATakenAddress(t *testing.T, s store.Store) {
	addUser(t, s, user("bob"))
	u := addUser(t, s, user("ada"))
	f := familyOf(u, "f")
	addFamilies(t, s.Families, f)
	role, email, name := store.RoleAdmin, "bob@example.com", "Bob"
	for _, change := range []store.UserChange{tell(func(u *store.User) { u.SetEmail(email) }), tell(func(u *store.User) { u.SetEmail(email); u.Name = name }), edit(func(u *store.User) { u.SetEmail(email); u.Role = role })} {
		_, err := s.Users.ChangeUser(t.Context(), "ada", change, theEnd)
		mustBe(t, err, store.ErrEmailTaken)
	}
	if got := signIn(t, s.Users, user("ada")); got.Version != u.Version {
		t.Errorf("the version moved from %s to %s", u.Version, got.Version)
	}
	signIn(t, s.Users, user("bob"))
	sameFamily(t, readFamily(t, s.Families, "f"), f)
}

// changeUserToAnAddressInARace: of several users who are given one address concurrently, one gets it.
func changeUserToAnAddressInARace(t *testing.T, s store.Store) {
	const users = 8
	for i := range users {
		addUser(t, s, user(fmt.Sprint("u", i)))
	}
	email := "the-one@example.com"
	errs := race(users, func(i int) error {
		_, err := s.Users.ChangeUser(t.Context(), fmt.Sprint("u", i), tell(func(u *store.User) { u.SetEmail(email) }), theEnd)
		return err
	})
	oneWinner(t, errs, store.ErrTaken)
	for i, err := range errs {
		want := user(fmt.Sprint("u", i))
		if err == nil {
			want.Email, want.EmailVerifiedBy, want.UpdatedAt = email, "", theEnd.At
		}
		signIn(t, s.Users, want)
	}
}

// changeUserToAnOrganisation: the organisation must be stored or declared. Otherwise nothing is changed.
func changeUserToAnOrganisation(t *testing.T, s store.Store) {
	must(t, s.Users.AddOrganisation(t.Context(), organisation("globex")))
	u := addUser(t, s, user("ada"))
	nowhere, role := "nowhere", store.RoleAdmin
	_, err := s.Users.ChangeUser(t.Context(), "ada", edit(func(u *store.User) { u.Organisation = nowhere; u.Role = role }), theEnd)
	mustBe(t, err, store.ErrNotFound)
	if got := signIn(t, s.Users, user("ada")); got.Version != u.Version {
		t.Errorf("the version moved from %s to %s", u.Version, got.Version)
	}
	want := user("ada")
	for _, name := range []string{"declared", "globex"} {
		change := edit(func(u *store.User) { u.Organisation = name })
		change.OrganisationDeclared = name == "declared"
		_, err := s.Users.ChangeUser(t.Context(), "ada", change, theEnd)
		must(t, err)
		want.Organisation, want.UpdatedAt = name, theEnd.At
		signIn(t, s.Users, want)
	}
	mustBe(t, s.Users.RemoveOrganisation(t.Context(), "globex"), store.ErrInUse)
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
	_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: u.ID + " ended before"},
		store.Ending{At: now.Add(-time.Hour), Until: theEnd.Until})
	must(t, err)
	stranger := family("of another user than " + u.ID)
	stranger.User.ID = u.ID + " "
	addFamilies(t, s.Families, stranger)
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

// changeUserEndsFamilies (T61): every change that ends tokens ends every family of the user.
func changeUserEndsFamilies(t *testing.T, s store.Store) {
	password, role, status := hash("m=8,t=1,p=1", "new"), store.RoleMember, store.UserDisabled
	for _, c := range []struct {
		name   string
		change store.UserChange
	}{
		{"password", edit(func(u *store.User) { u.PasswordHash = password })},
		{"role", edit(func(u *store.User) { u.Role = role })},
		{"status", edit(func(u *store.User) { u.Status = status })},
		{"nothing", store.UserChange{}},
	} {
		u := addUser(t, s, user(c.name))
		living := bequeath(t, s, u)
		ended, err := s.Users.ChangeUser(t.Context(), u.ID, c.change, theEnd)
		must(t, err)
		sameBequest(t, s, u, ended, living)
	}
}

// changeUserIsOneStep (M25): a reader that sees the new version sees no living family of the old one, and finds the revocations in the
// feed. All families end together.
func changeUserIsOneStep(t *testing.T, s store.Store) {
	role := store.RoleMember
	endedWithTheUser(t, s,
		func(id string) error {
			_, err := s.Users.ChangeUser(t.Context(), id, edit(func(u *store.User) { u.Role = role }), theEnd)
			return err
		},
		func(before, now *store.User, err error) bool {
			return err != nil || now.Version != before.Version
		})
}

// removeUserIsOneStep (M28): the same for a removed user.
func removeUserIsOneStep(t *testing.T, s store.Store) {
	endedWithTheUser(t, s,
		func(id string) error { _, err := s.Users.RemoveUser(t.Context(), id, theEnd); return err },
		func(_, _ *store.User, err error) bool { return err != nil })
}

// endedWithTheUser watches a user and its families while end runs: once the user looks ended, its families must be.
func endedWithTheUser(t *testing.T, s store.Store, end func(id string) error, ended func(before, now *store.User, err error) bool) {
	t.Helper()
	const families = 3
	for round := range 8 {
		before := addUser(t, s, user(fmt.Sprint("user ", round)))
		for i := range families {
			addFamilies(t, s.Families, familyOf(before, fmt.Sprint(before.ID, " family ", i)))
		}
		watched := watch(t, s, before.ID, families, func() error { return end(before.ID) }, func() bool {
			now, err := s.Users.User(t.Context(), before.ID)
			return ended(before, now, err)
		})
		must(t, errors.Join(watched...))
	}
}

// changeUserInARace: of concurrent changes of different members none is lost, and each changes the version.
func changeUserInARace(t *testing.T, s store.Store) {
	addUser(t, s, user("ada"))
	password, role, status := hash("m=8,t=1,p=1", "new"), store.RoleMember, store.UserLocked
	changes := []store.UserChange{edit(func(u *store.User) { u.PasswordHash = password }), edit(func(u *store.User) { u.Role = role }), edit(func(u *store.User) { u.Status = status })}
	var versions [racers]string
	errs := race(racers, func(i int) error {
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
	must(t, errors.Join(errs...))
	want := user("ada")
	want.PasswordHash, want.Role, want.Status, want.UpdatedAt = password, role, status, theEnd.At
	got := readUser(t, s.Users, "ada")
	sameUser(t, got, want)
	if !slices.Contains(versions[:], got.Version) {
		t.Errorf("the version is %q, which nobody saw after the change that made it", got.Version)
	}
}

// rehashPassword: a hash is replaced by another of the same password. Neither the version nor the families change.
func rehashPassword(t *testing.T, s store.Store) {
	u := addUser(t, s, user("ada"))
	addUser(t, s, user("bob"))
	addFamilies(t, s.Families, familyOf(u, "f"))
	fresh := hash("m=65536,t=3,p=2", "ada")
	must(t, s.Users.RehashPassword(t.Context(), "ada", u.PasswordHash, fresh))
	want := user("ada")
	want.PasswordHash = fresh
	got := signIn(t, s.Users, want)
	if got.Version != u.Version {
		t.Errorf("the version moved from %q to %q", u.Version, got.Version)
	}
	sameFamily(t, readFamily(t, s.Families, "f"), familyOf(u, "f"))
	addFamilies(t, s.Families, familyOf(u, "later"))
	if revoked := recorded(t, s.Revocations); len(revoked) != 0 {
		t.Errorf("revoked is %v, want nothing", revoked)
	}
	sameUser(t, readUser(t, s.Users, "bob"), user("bob"))
}

// rehashPasswordLosesToAChange: a hash other than the verified one stays, without an error: a sign-in with the old password must not undo
// a change of the password.
func rehashPasswordLosesToAChange(t *testing.T, s store.Store) {
	old, changed := user("ada").PasswordHash, hash("m=8,t=1,p=1", "changed")
	addUser(t, s, user("ada"))
	_, err := s.Users.ChangeUser(t.Context(), "ada", edit(func(u *store.User) { u.PasswordHash = changed }), theEnd)
	must(t, err)
	version := readUser(t, s.Users, "ada").Version
	must(t, s.Users.RehashPassword(t.Context(), "ada", old, hash("m=8,t=1,p=1", "rehashed")))
	want := user("ada")
	want.PasswordHash, want.UpdatedAt = changed, theEnd.At
	got := signIn(t, s.Users, want)
	if got.Version != version {
		t.Errorf("the version moved from %q to %q", version, got.Version)
	}
	for round := range 50 { // in either order, the new password is stored in the end
		u := addUser(t, s, user(fmt.Sprint("user ", round)))
		must(t, errors.Join(race(2, func(i int) error {
			if i == 0 {
				return s.Users.RehashPassword(t.Context(), u.ID, u.PasswordHash, hash("m=8,t=1,p=1", "rehashed"))
			}
			_, err := s.Users.ChangeUser(t.Context(), u.ID, edit(func(u *store.User) { u.PasswordHash = changed }), theEnd)
			return err
		})...))
		if got := readUser(t, s.Users, u.ID).PasswordHash.Reveal(); got != changed.Reveal() {
			t.Fatalf("round %d: the hash is %q, want the changed one", round, got)
		}
	}
}

// removeUser: no read returns the user, and the user's families have ended and can still be read.
func removeUser(t *testing.T, s store.Store) {
	u := addUser(t, s, user("ada"))
	addUser(t, s, user("bob"))
	living := bequeath(t, s, u)
	ended, err := s.Users.RemoveUser(t.Context(), "ada", theEnd)
	must(t, err)
	sameBequest(t, s, u, ended, living)
	_, err = s.Users.User(t.Context(), "ada")
	mustBe(t, err, store.ErrNotFound)
	must(t, s.Clients.AddClient(t.Context(), client("app")))
	for id, want := range map[string]bool{"ada": true, "bob": true, "app": false, "nobody": false, "": false, "\x00": false} {
		if had, err := s.Users.HadUser(t.Context(), id); had != want || err != nil {
			t.Errorf("there was a user %q: %t, %v", id, had, err)
		}
	}
	_, err = s.Users.UserByEmail(t.Context(), "ada@example.com")
	mustBe(t, err, store.ErrNotFound)
	for _, organisation := range []string{"", "acme"} {
		list := listUsers(t, s.Users, organisation)
		if len(list) != 1 {
			t.Fatalf("%d users are listed, want the other one alone", len(list))
		}
		sameUser(t, list[0], user("bob"))
	}
	_, err = s.Users.ChangeUser(t.Context(), "ada", store.UserChange{}, theEnd)
	mustBe(t, err, store.ErrNotFound)
	must(t, s.Users.RehashPassword(t.Context(), "ada", user("ada").PasswordHash, hash("m=8,t=1,p=1", "new")))
	_, err = s.Users.User(t.Context(), "ada")
	mustBe(t, err, store.ErrNotFound)
}

// removeUserOnce: of concurrent removals one finds the user, and ends the families.
func removeUserOnce(t *testing.T, s store.Store) {
	u := addUser(t, s, user("ada"))
	addFamilies(t, s.Families, familyOf(u, "f"))
	ended := make([][]store.Revocation, racers)
	errs := race(racers, func(i int) (err error) {
		ended[i], err = s.Users.RemoveUser(t.Context(), "ada", theEnd)
		return err
	})
	oneWinner(t, errs, store.ErrNotFound)
	sameEndings(t, s, slices.Concat(ended...), "f")
}

// sameSchemes compares the schemes of the stored hashes with want, in any order.
func sameSchemes(t *testing.T, s store.UserStore, want ...string) {
	t.Helper()
	got, err := s.PasswordSchemes(t.Context())
	must(t, err)
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the schemes are %q, want %q", got, want)
	}
}

// passwordSchemes: every scheme of a stored hash is listed once, as passwords.SchemeOf names it. Users without a password have none.
func passwordSchemes(t *testing.T, s store.Store) {
	const weak, strong, bcrypt = "$argon2id$v=19$m=8,t=1,p=1", "$argon2id$v=19$m=19456,t=2,p=1", "$2b$12"
	for id, password := range map[string]oauth.Secret{
		"a": hash("m=8,t=1,p=1", "a"), "b": hash("m=19456,t=2,p=1", "b"), "c": hash("m=19456,t=2,p=1", "c"), "d": {},
		"e": oauth.NewSecret("$2b$12$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234"),
	} {
		u := user(id)
		u.PasswordHash = password
		addUser(t, s, u)
	}
	sameSchemes(t, s.Users, weak, strong, bcrypt)
	must(t, s.Users.RehashPassword(t.Context(), "a", hash("m=8,t=1,p=1", "a"), hash("m=19456,t=2,p=1", "a")))
	sameSchemes(t, s.Users, strong, bcrypt)
	_, err := s.Users.RemoveUser(t.Context(), "e", theEnd)
	must(t, err)
	sameSchemes(t, s.Users, strong)
	password := hash("m=8,t=1,p=1", "d")
	disabled := store.UserDisabled
	_, err = s.Users.ChangeUser(t.Context(), "d", edit(func(u *store.User) { u.PasswordHash = password; u.Status = disabled }), theEnd)
	must(t, err)
	sameSchemes(t, s.Users, weak, strong)
}
