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

var familyUserChecks = []check{
	{name: "T61FamilyOfAStaleUser", test: familyOfAStaleUser},
	{name: "FamilyOfADeclaredUser", test: familyOfADeclaredUser},
	{name: "FamiliesListed", test: familiesListed},
	{name: "ConsentReadsBack", test: consentReadsBack},
	{name: "ConsentNamesAreBytes", test: consentNamesAreBytes},
	{name: "ConsentEndsWithTheUser", test: consentEndsWithTheUser},
}

// familyOfAStaleUser (T61): callers that end a user can rely on AddFamily failing afterwards. A refused family leaves nothing behind, and
// does not decide its request.
func familyOfAStaleUser(t *testing.T, s store.Store) {
	change := func(c store.UserChange) func(id string) error {
		return func(id string) error {
			_, err := s.Users.ChangeUser(t.Context(), id, c, theEnd)
			return err
		}
	}
	disabled, locked, active := store.UserDisabled, store.UserLocked, store.UserActive
	role, password, none := store.RoleAdmin, hash("m=8,t=1,p=1", "new"), oauth.Secret{}
	for _, c := range []struct {
		name  string
		fresh bool // the user is read again after the step
		step  func(id string) error
	}{
		{"disabled since", false, change(edit(func(u *store.User) { u.Status = disabled }))},
		{"disabled", true, change(edit(func(u *store.User) { u.Status = disabled }))},
		{"locked since", false, change(edit(func(u *store.User) { u.Status = locked }))},
		{"locked", true, change(edit(func(u *store.User) { u.Status = locked }))},
		{"password changed", false, change(edit(func(u *store.User) { u.PasswordHash = password }))},
		{"password taken", false, change(edit(func(u *store.User) { u.PasswordHash = none }))},
		{"without password", true, change(edit(func(u *store.User) { u.PasswordHash = none }))},
		{"demoted", false, change(edit(func(u *store.User) { u.Role = role }))},
		{"set to what it was", false, change(edit(func(u *store.User) { u.Status = active }))},
		{"disabled and active again", false, func(id string) error {
			if err := change(edit(func(u *store.User) { u.Status = disabled }))(id); err != nil {
				return err
			}
			return change(edit(func(u *store.User) { u.Status = active }))(id)
		}},
		{"removed", false, func(id string) error { _, err := s.Users.RemoveUser(t.Context(), id, theEnd); return err }},
	} {
		u := addUser(t, s, user(c.name))
		addFamilies(t, s.Families, familyOf(u, c.name+" before"))
		must(t, c.step(u.ID))
		if c.fresh {
			u = readUser(t, s.Users, u.ID)
		}
		refusedAs(t, s, store.UserChanged, c.name, familyOf(u, c.name))
	}
	u := addUser(t, s, user("ada"))
	for _, version := range []string{"", u.Version + " ", "x" + u.Version, "another"} {
		f := familyOf(u, "version "+version)
		f.User.Version = version
		refusedAs(t, s, store.UserChanged, "version "+version, f)
	}
	unknown := familyOf(u, "of nobody")
	unknown.User.ID = "nobody"
	refusedAs(t, s, store.UserChanged, "unknown", unknown)
	unknown.User.Version = ""
	refusedAs(t, s, store.UserChanged, "unknown, without a version", unknown)
	disabledFromBirth := user("born disabled")
	disabledFromBirth.Status = disabled
	refusedAs(t, s, store.UserChanged, "born disabled", familyOf(addUser(t, s, disabledFromBirth), "born disabled"))
	invited := user("invited")
	invited.PasswordHash = none
	refusedAs(t, s, store.UserChanged, "invited", familyOf(addUser(t, s, invited), "invited"))

	addFamilies(t, s.Families, familyOf(u, "good")) // a family of the user's current version is added
	must(t, change(edit(func(u *store.User) { u.Status = active }))(u.ID))
	addFamilies(t, s.Families, familyOf(readUser(t, s.Users, u.ID), "good again"))
}

// refusedAs ends the test unless the family is refused for that reason and nothing of it is stored.
func refusedAs(t *testing.T, s store.Store, why store.Outcome, name string, f *store.TokenFamily) {
	t.Helper()
	f.Code.RequestID = "of " + name
	if err := Done(s.Families.AddFamily(t.Context(), f)); !errors.Is(err, Refused(why)) {
		t.Fatalf("%s: adding the family returned %v, want %v", name, err, why)
	}
	noFamily(t, s.Families, f.ID)
	if err := Done(s.Families.DecideRequest(t.Context(), f.Code.RequestID, now.Add(time.Hour))); err != nil {
		t.Fatalf("%s: the request is decided: %v", name, err)
	}
}

// familyOfADeclaredUser: a declared user need not be stored, and a stored user of that id, whatever its state, is not the family's user.
func familyOfADeclaredUser(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, family("before"))
	shadow := user("ada")
	shadow.Status = store.UserDisabled
	addUser(t, s, shadow)
	addFamilies(t, s.Families, family("beside"))
	withoutVersion := family("without version")
	withoutVersion.User.Version = ""
	addFamilies(t, s.Families, withoutVersion)
	_, err := s.Users.RemoveUser(t.Context(), "ada", theEnd)
	must(t, err)
	addFamilies(t, s.Families, family("after"))
	sameFamily(t, readFamily(t, s.Families, "after"), family("after"))
}

// familiesListed: the list has the user's families that are not revoked and expire after the given time, newest first, in full, with an
// unspent code, a spent one or none.
func familiesListed(t *testing.T, s store.Store) {
	made := func(f *store.TokenFamily, minutes int) *store.TokenFamily {
		f.CreatedAt = now.Add(time.Duration(minutes) * time.Minute)
		return f
	}
	newest, spent, coded, oldest := made(refreshed("a"), 3), made(family("c"), 2), made(family("d"), 1), made(refreshed("b"), 0)
	revoked, foreign, edge, late := refreshed("revoked"), refreshed("foreign"), refreshed("edge"), refreshed("late")
	foreign.User.ID = "Ada"
	limit := now.Add(30 * time.Minute).Truncate(time.Millisecond)
	edge.ExpiresAt, late.ExpiresAt = limit, limit.Add(-time.Millisecond)
	addFamilies(t, s.Families, coded, newest, revoked, foreign, edge, oldest, spent, late)
	spent.Code.SpentAt, spent.Refresh.RotatedAt, spent.Refresh.Generation, spent.ExpiresAt = now, now, 1, limit.Add(time.Millisecond)
	must(t, Used(s.Families.RedeemCode(t.Context(), "c", store.Redemption{At: now, Generation: 1, ExpiresAt: spent.ExpiresAt, MaxFailures: 5})))
	_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "revoked"}, theEnd)
	must(t, err)
	list, err := s.Families.FamiliesOf(t.Context(), "ada", limit)
	must(t, err)
	sameFamilies(t, list, newest, spent, coded, oldest)
	for _, none := range []string{"", "nobody", "ad", "ada "} {
		list, err := s.Families.FamiliesOf(t.Context(), none, limit)
		must(t, err)
		sameFamilies(t, list)
	}
	list, err = s.Families.FamiliesOf(t.Context(), "ada", now.AddDate(1, 0, 0))
	must(t, err)
	sameFamilies(t, list)
}

// sameConsent ends the test unless the consent has exactly these scopes; none: ErrNotFound.
func sameConsent(t *testing.T, s store.FamilyStore, userID, clientID string, want ...string) {
	t.Helper()
	got, err := s.Consent(t.Context(), userID, clientID)
	if len(want) == 0 {
		mustBe(t, err, store.ErrNotFound)
		return
	}
	must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("user %q allows client %q %s, want %s", userID, clientID, got, oauth.Scopes(want))
	}
}

// consentReadsBack: PutConsent replaces a consent, or deletes it when there are no scopes. Neither user nor client need be stored.
func consentReadsBack(t *testing.T, s store.Store) {
	ctx := t.Context()
	sameConsent(t, s.Families, "ada", "app")
	must(t, s.Families.PutConsent(ctx, "ada", "app", nil, time.Time{}))
	must(t, s.Families.PutConsent(ctx, "ada", "app", oauth.Scopes{"public", "trusted", "read:<things>'&"}, now))
	must(t, s.Families.PutConsent(ctx, "bob", "app", oauth.Scopes{"public"}, now))
	sameConsent(t, s.Families, "ada", "app", "public", "trusted", "read:<things>'&")
	must(t, s.Families.PutConsent(ctx, "ada", "app", oauth.Scopes{"trusted"}, now.Add(-time.Hour)))
	sameConsent(t, s.Families, "ada", "app", "trusted")
	must(t, s.Families.PutConsent(ctx, "ada", "app", nil, time.Time{}))
	sameConsent(t, s.Families, "ada", "app")
	sameConsent(t, s.Families, "bob", "app", "public")
	must(t, s.Families.PutConsent(ctx, "ada", "app", oauth.Scopes{"public"}, now))
	sameConsent(t, s.Families, "ada", "app", "public")
}

// consentNamesAreBytes (T15): a consent belongs to exactly one user and one client, even if the concatenation of their ids is ambiguous.
func consentNamesAreBytes(t *testing.T, s store.Store) {
	pairs := [][2]string{{"a", "bc"}, {"ab", "c"}, {"a b", "c"}, {"a", "b c"}, {"a:b", "c"}, {"a", "b:c"}, {"a|b", "c"}, {"a", "b|c"},
		{"a/b", "c"}, {"a", "b/c"}, {"a,b", "c"}, {"a", "b,c"}, {"bc", "a"}, {"A", "bc"}, {"a ", "bc"}, {"%", "%"}, {"_", "bc"}}
	for i, p := range pairs {
		must(t, s.Families.PutConsent(t.Context(), p[0], p[1], oauth.Scopes{fmt.Sprint("scope", i)}, now))
	}
	must(t, s.Families.PutConsent(t.Context(), "%", "%", nil, time.Time{}))
	for i, p := range pairs {
		if p[0] != "%" {
			sameConsent(t, s.Families, p[0], p[1], fmt.Sprint("scope", i))
		}
	}
	sameConsent(t, s.Families, "%", "%")
	sameConsent(t, s.Families, "a", "c")
}

// consentEndsWithTheUser: removing a user deletes its consents, and no other user's. A change of the user keeps them.
func consentEndsWithTheUser(t *testing.T, s store.Store) {
	for _, id := range []string{"ada", "Ada", "bob"} {
		addUser(t, s, user(id))
		must(t, s.Families.PutConsent(t.Context(), id, "app", oauth.Scopes{"public"}, now))
		must(t, s.Families.PutConsent(t.Context(), id, "App", oauth.Scopes{"trusted"}, now))
	}
	locked := store.UserLocked
	_, err := s.Users.ChangeUser(t.Context(), "bob", edit(func(u *store.User) { u.Status = locked }), theEnd)
	must(t, err)
	_, err = s.Users.RemoveUser(t.Context(), "ada", theEnd)
	must(t, err)
	sameConsent(t, s.Families, "ada", "app")
	sameConsent(t, s.Families, "ada", "App")
	for _, id := range []string{"Ada", "bob"} {
		sameConsent(t, s.Families, id, "app", "public")
		sameConsent(t, s.Families, id, "App", "trusted")
	}
}
