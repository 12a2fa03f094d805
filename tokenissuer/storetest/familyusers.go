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

// refusedWhenStale changes and removes users, and checks that families which depend on them, as birth makes them, are refused afterwards.
func refusedWhenStale(t *testing.T, s store.Store, birth func(u *store.User, id string) *store.TokenFamily) {
	t.Helper()
	status := func(to store.UserStatus) store.UserChange { return edit(func(u *store.User) { u.Status = to }) }
	password := func(to oauth.Secret) store.UserChange { return edit(func(u *store.User) { u.PasswordHash = to }) }
	for _, c := range []struct {
		name    string
		fresh   bool // the user is read again after the changes
		changes []store.UserChange
	}{
		{"disabled since", false, []store.UserChange{status(store.UserDisabled)}},
		{"disabled", true, []store.UserChange{status(store.UserDisabled)}},
		{"locked since", false, []store.UserChange{status(store.UserLocked)}},
		{"locked", true, []store.UserChange{status(store.UserLocked)}},
		{"password changed", false, []store.UserChange{password(hash("m=8,t=1,p=1", "new"))}},
		{"password taken", false, []store.UserChange{password(oauth.Secret{})}},
		{"without password", true, []store.UserChange{password(oauth.Secret{})}},
		{"demoted", false, []store.UserChange{edit(func(u *store.User) { u.Role = store.RoleMember })}},
		{"set to what it was", false, []store.UserChange{status(store.UserActive)}},
		{"disabled and active again", false, []store.UserChange{status(store.UserDisabled), status(store.UserActive)}},
		{"removed", false, nil},
	} {
		u := addUser(t, s, user(c.name))
		addFamilies(t, s.Families, birth(u, c.name+" before"))
		for _, change := range c.changes {
			ok(s.Users.ChangeUser(t.Context(), u.ID, change, theEnd))(t)
		}
		if len(c.changes) == 0 {
			ok(s.Users.RemoveUser(t.Context(), u.ID, theEnd))(t)
		}
		if c.fresh {
			u = readUser(t, s.Users, u.ID)
		}
		refusedAs(t, s, store.UserChanged, c.name, birth(u, c.name))
	}
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

var familyUserChecks = []check{
	// Callers that end a user can rely on AddFamily failing afterwards. A refused family leaves nothing behind, and does not decide its
	// request.
	{name: "T61FamilyOfAStaleUser", test: func(t *testing.T, s store.Store) {
		refusedWhenStale(t, s, familyOf)
		u := addUser(t, s, user("ada"))
		for _, version := range []string{"", u.Version + " ", "x" + u.Version, "another"} {
			f := with(familyOf(u, "version "+version), func(f *store.TokenFamily) { f.User.Version = version })
			refusedAs(t, s, store.UserChanged, "version "+version, f)
		}
		unknown := with(familyOf(u, "of nobody"), func(f *store.TokenFamily) { f.User.ID = "nobody" })
		refusedAs(t, s, store.UserChanged, "unknown", unknown)
		unknown.User.Version = ""
		refusedAs(t, s, store.UserChanged, "unknown, without a version", unknown)
		disabledFromBirth := with(user("born disabled"), func(u *store.User) { u.Status = store.UserDisabled })
		refusedAs(t, s, store.UserChanged, "born disabled", familyOf(addUser(t, s, disabledFromBirth), "born disabled"))
		invited := with(user("invited"), func(u *store.User) { u.PasswordHash = oauth.Secret{} })
		refusedAs(t, s, store.UserChanged, "invited", familyOf(addUser(t, s, invited), "invited"))

		addFamilies(t, s.Families, familyOf(u, "good")) // a family of the user's current version is added
		ok(s.Users.ChangeUser(t.Context(), u.ID, store.UserChange{}, theEnd))(t)
		addFamilies(t, s.Families, familyOf(readUser(t, s.Users, u.ID), "good again"))
	}},
	// A declared user need not be stored, and a stored user of that id, whatever its state, is not the family's user.
	{name: "FamilyOfADeclaredUser", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, family("before"))
		addUser(t, s, with(user("ada"), func(u *store.User) { u.Status = store.UserDisabled }))
		addFamilies(t, s.Families, family("beside"))
		addFamilies(t, s.Families, with(family("without version"), func(f *store.TokenFamily) { f.User.Version = "" }))
		ok(s.Users.RemoveUser(t.Context(), "ada", theEnd))(t)
		addFamilies(t, s.Families, family("after"))
		wantFamilies(t, s.Families, family("after"))
	}},
	// The list has the user's families that are not revoked and expire after the given time, newest first, in full, with an unspent code, a
	// spent one or none.
	{name: "FamiliesListed", test: func(t *testing.T, s store.Store) {
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
		ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "revoked"}, theEnd))(t)
		list := ok(s.Families.FamiliesOf(t.Context(), "ada", limit))(t)
		sameFamilies(t, list, newest, spent, coded, oldest)
		for _, none := range []string{"", "nobody", "ad", "ada "} {
			sameFamilies(t, ok(s.Families.FamiliesOf(t.Context(), none, limit))(t))
		}
		list = ok(s.Families.FamiliesOf(t.Context(), "ada", now.AddDate(1, 0, 0)))(t)
		sameFamilies(t, list)
	}},
	// PutConsent replaces a consent, and DropConsent deletes it. Neither user nor client need be stored.
	{name: "ConsentReadsBack", test: func(t *testing.T, s store.Store) {
		ctx := t.Context()
		sameConsent(t, s.Families, "ada", "app")
		must(t, s.Families.PutConsent(ctx, "ada", "app", nil, time.Time{}))
		must(t, s.Families.PutConsent(ctx, "ada", "app", oauth.Scopes{"public", "trusted", "read:<things>'&"}, now))
		must(t, s.Families.PutConsent(ctx, "bob", "app", oauth.Scopes{"public"}, now))
		must(t, s.Families.PutConsent(ctx, "ada", "web", oauth.Scopes{"public"}, now))
		sameConsent(t, s.Families, "ada", "app", "public", "trusted", "read:<things>'&")
		must(t, s.Families.PutConsent(ctx, "ada", "app", oauth.Scopes{"trusted"}, now.Add(-time.Hour)))
		sameConsent(t, s.Families, "ada", "app", "trusted")
		must(t, s.Families.PutConsent(ctx, "ada", "app", nil, time.Time{}))
		sameConsent(t, s.Families, "ada", "app")
		sameConsent(t, s.Families, "bob", "app", "public")
		sameConsent(t, s.Families, "ada", "web", "public")
		must(t, s.Families.PutConsent(ctx, "ada", "app", oauth.Scopes{"public"}, now))
		sameConsent(t, s.Families, "ada", "app", "public")
	}},
	// T15: a consent belongs to exactly one user and one client, even if the concatenation of their ids is ambiguous.
	{name: "ConsentNamesAreBytes", test: func(t *testing.T, s store.Store) {
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
	}},
	// Removing a user deletes its consents, and no other user's. A change of the user keeps them.
	{name: "ConsentEndsWithTheUser", test: func(t *testing.T, s store.Store) {
		for _, id := range []string{"ada", "Ada", "bob"} {
			addUser(t, s, user(id))
			must(t, s.Families.PutConsent(t.Context(), id, "app", oauth.Scopes{"public"}, now))
			must(t, s.Families.PutConsent(t.Context(), id, "App", oauth.Scopes{"trusted"}, now))
		}
		ok(s.Users.ChangeUser(t.Context(), "bob", edit(func(u *store.User) { u.Status = store.UserLocked }), theEnd))(t)
		ok(s.Users.RemoveUser(t.Context(), "ada", theEnd))(t)
		sameConsent(t, s.Families, "ada", "app")
		sameConsent(t, s.Families, "ada", "App")
		for _, id := range []string{"Ada", "bob"} {
			sameConsent(t, s.Families, id, "app", "public")
			sameConsent(t, s.Families, id, "App", "trusted")
		}
	}},
}
