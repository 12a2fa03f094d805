package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var strangeChecks = []check{{name: "I1StrangeIDsAreNobody", test: strangeIDsAreNobody}}

// namesAreBytes adds a record under each of oddIDs. Each must be the one that its name finds, and no other name may find one, even if the
// core rejects it.
func namesAreBytes(t *testing.T, add, want func(name string), find func(name string) error) {
	t.Helper()
	for _, name := range oddIDs {
		add(name)
	}
	for _, name := range oddIDs {
		want(name)
	}
	for _, name := range append(slices.Clone(strangers), outsideTheRules...) {
		if find(name) == nil {
			t.Errorf("%.10q finds the record of another name", name)
		}
	}
}

// strangeIDs are not valid text, although requests may contain them.
var strangeIDs = map[string]string{
	"NUL": "\x00", "NUL in it": "a\x00b", "NUL behind a name": "app\x00", "not UTF-8": "\xff\xfe", "half a letter": "app\xc3",
}

// strangeIDsAreNobody (I1): a query for an id that is not valid text finds nothing, like any unknown id. It is not an outage.
func strangeIDsAreNobody(t *testing.T, s store.Store) {
	ctx := t.Context()
	must(t, s.Clients.AddClient(ctx, client("app")))
	must(t, s.Users.AddOrganisation(ctx, organisation("acme")))
	must(t, s.Users.AddUser(ctx, user("ada"), false))
	end := store.Ending{At: now, Until: now}
	for name, id := range strangeIDs {
		for question, ask := range map[string]func() error{
			"client":                  func() error { return errOf(s.Clients.Client(ctx, id)) },
			"user":                    func() error { return errOf(s.Users.User(ctx, id)) },
			"user by address":         func() error { return errOf(s.Users.UserByEmail(ctx, id)) },
			"family":                  func() error { return errOf(s.Families.Family(ctx, id)) },
			"organisation":            func() error { return errOf(s.Users.Organisation(ctx, id)) },
			"consent of a user":       func() error { return errOf(s.Families.Consent(ctx, id, "app")) },
			"consent for a client":    func() error { return errOf(s.Families.Consent(ctx, "ada", id)) },
			"removed organisation":    func() error { return s.Users.RemoveOrganisation(ctx, id) },
			"changed user":            func() error { return errOf(s.Users.ChangeUser(ctx, id, store.UserChange{}, end)) },
			"removed user":            func() error { return errOf(s.Users.RemoveUser(ctx, id, end)) },
			"user of an organisation": func() error { return s.Users.AddUser(ctx, strangeUser(id), false) },
		} {
			if err := ask(); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s, %s: %v, want not found", question, name, err)
			}
		}
		users, err := s.Users.Users(ctx, id)
		if err != nil || len(users) != 0 {
			t.Errorf("users of an organisation, %s: %d, %v", name, len(users), err)
		}
		if err := s.Families.PutConsent(ctx, "ada", id, nil, time.Time{}); err != nil {
			t.Errorf("dropping a consent, %s: %v", name, err)
		}
		ended, err := s.Families.EndFamilies(ctx, store.FamilyFilter{UserID: "ada", ClientID: id}, end)
		if err != nil || len(ended) != 0 {
			t.Errorf("ending families, %s: %v, %v", name, ended, err)
		}
	}
}

// strangeUser returns a user of an organisation that cannot exist.
func strangeUser(organisation string) *store.User {
	return with(user(fmt.Sprintf("of %q", organisation)), func(u *store.User) { u.Organisation = organisation })
}
