package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var strangeChecks = []check{{name: "I1StrangeIDsAreNobody", test: strangeIDsAreNobody}}

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
			"client":                  func() error { _, err := s.Clients.Client(ctx, id); return err },
			"user":                    func() error { _, err := s.Users.User(ctx, id); return err },
			"user by address":         func() error { _, err := s.Users.UserByEmail(ctx, id); return err },
			"family":                  func() error { _, err := s.Families.Family(ctx, id); return err },
			"organisation":            func() error { _, err := s.Users.Organisation(ctx, id); return err },
			"consent of a user":       func() error { _, err := s.Families.Consent(ctx, id, "app"); return err },
			"consent for a client":    func() error { _, err := s.Families.Consent(ctx, "ada", id); return err },
			"removed organisation":    func() error { return s.Users.RemoveOrganisation(ctx, id) },
			"changed user":            func() error { _, err := s.Users.ChangeUser(ctx, id, store.UserChange{}, end); return err },
			"removed user":            func() error { _, err := s.Users.RemoveUser(ctx, id, end); return err },
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
	u := user(fmt.Sprintf("of %q", organisation))
	u.Organisation = organisation
	return u
}
