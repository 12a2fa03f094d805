package memstore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

var now = time.Unix(1_700_000_000, 0)

// withUser returns a store in which that user can be acted for.
func withUser(tb testing.TB, id string) *Store {
	tb.Helper()
	s := New()
	err := s.AddUser(tb.Context(), &store.User{
		ID: id, Email: id + "@example.com", Organisation: "acme", Status: store.UserActive,
		PasswordHash: oauth.NewSecret("hash"),
	}, true)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// family returns a family of the user's first version, with a code.
func family(id, userID string) *store.TokenFamily {
	return &store.TokenFamily{
		ID: id, UserID: userID, UserVersion: "1", ClientID: "app", Origin: oauth.AuthorizationCode,
		Scopes: oauth.Scopes{"public"}, CreatedAt: now, ExpiresAt: now.Add(time.Minute),
		Code: store.CodeBinding{RequestID: "request of " + id, ExpiresAt: now.Add(time.Minute)},
	}
}

// checkIndexes holds what finds families against the families themselves.
func checkIndexes(t *testing.T, s *Store) {
	t.Helper()
	listed, live := 0, 0
	for userID, ids := range s.live {
		if len(ids) == 0 {
			t.Errorf("an empty list is kept for user %q", userID)
		}
		listed += len(ids)
	}
	due := make(map[string]bool)
	for _, e := range s.expiries {
		if !e.request {
			due[e.id+e.at.String()] = true
		}
	}
	for id, item := range s.families.Items() {
		f := item.Object.(store.TokenFamily)
		if _, ok := s.live[f.UserID][id]; ok != f.RevokedAt.IsZero() {
			t.Errorf("family %q, revoked at %v: listed is %v", id, f.RevokedAt, ok)
		}
		if f.RevokedAt.IsZero() {
			live++
		}
		if !due[id+f.ExpiresAt.String()] {
			t.Errorf("family %q is never dropped", id)
		}
	}
	if listed != live {
		t.Errorf("%d families are listed, %d are live", listed, live)
	}
}

// TestDroppedFamiliesLeaveNothing proves that memory does not grow for ever: whatever became of a family, and of the
// request it came from, nothing of them is held in the end. No call drops more than its share.
func TestDroppedFamiliesLeaveNothing(t *testing.T) {
	s := withUser(t, "ada")
	const families = 1500
	for i := range families {
		id := fmt.Sprint(i)
		err := storetest.Done(s.AddFamily(t.Context(), family(id, "ada")))
		switch i % 3 {
		case 1:
			err = errors.Join(err, storetest.Used(s.RedeemCode(t.Context(), id, store.Redemption{At: now, Generation: 1, ExpiresAt: now.Add(24 * time.Hour), MaxFailures: 5})))
		case 2:
			_, endErr := s.EndFamilies(t.Context(), store.FamilyFilter{ID: id}, store.Ending{At: now, Until: now})
			err = errors.Join(err, endErr)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	checkIndexes(t, s)
	drop := func(before time.Time, families, requests int) {
		t.Helper()
		for more := true; more; {
			held := s.families.ItemCount() + s.decided.ItemCount()
			var err error
			if more, err = s.DropFamilies(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			if dropped := held - s.families.ItemCount() - s.decided.ItemCount(); dropped > maxDropped {
				t.Errorf("one call dropped %d", dropped)
			}
		}
		if f, r := s.families.ItemCount(), s.decided.ItemCount(); f != families || r != requests {
			t.Errorf("%d families and %d requests are left, want %d and %d", f, r, families, requests)
		}
		checkIndexes(t, s)
	}
	drop(now.Add(time.Minute), families, families) // nothing expired before that moment
	drop(now.Add(time.Minute+1), families/3, families)
	drop(now.Add(decidedRequestRetention+time.Minute), families/3, families)
	drop(now.Add(decidedRequestRetention+time.Minute+1), families/3, 0)
	drop(now.Add(24*time.Hour+1), 0, 0)
	if len(s.live) != 0 || len(s.expiries) != 0 {
		t.Errorf("%d lists and %d expiries are left of nothing", len(s.live), len(s.expiries))
	}
}

// TestNothingIsBornAfterTheEnd lets families come to be while their user changes. Each is refused or ended, and each
// that was ended stands in the feed: what slipped between the two would be a session that a password change left alive.
func TestNothingIsBornAfterTheEnd(t *testing.T) {
	const callers, each = 8, 50
	end := store.Ending{At: now, Until: time.Now().Add(time.Hour)}
	disabled := store.UserDisabled
	for _, c := range []struct {
		name string
		end  func(*Store) ([]store.Revocation, error)
	}{
		{"change", func(s *Store) ([]store.Revocation, error) {
			return s.ChangeUser(t.Context(), "ada", store.UserChange{Status: &disabled}, end)
		}},
		{"removal", func(s *Store) ([]store.Revocation, error) { return s.RemoveUser(t.Context(), "ada", end) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := withUser(t, "ada")
			var group sync.WaitGroup
			for i := range callers {
				group.Go(func() {
					for n := range each {
						id := fmt.Sprint(i, " ", n)
						if err := storetest.Done(s.AddFamily(t.Context(), family(id, "ada"))); err != nil && !errors.Is(err, storetest.Refused(store.UserChanged)) {
							t.Error(err)
						}
						if err := storetest.Used(s.RotateRefreshToken(t.Context(), id, 0, store.Rotation{At: now})); err != nil && !errors.As(err, new(storetest.Refused)) {
							t.Error(err)
						}
					}
				})
			}
			var ended []store.Revocation
			group.Go(func() {
				for s.families.ItemCount() < each { // let some be born first
					if t.Context().Err() != nil {
						return
					}
				}
				var err error
				if ended, err = c.end(s); err != nil {
					t.Error(err)
				}
			})
			group.Wait()
			checkIndexes(t, s)
			if len(s.live) != 0 {
				t.Errorf("%d families outlive their user's end", len(s.live["ada"]))
			}
			feed, _, err := s.Revocations(t.Context(), store.FeedPosition{})
			if err != nil || len(feed) != s.families.ItemCount() || len(feed) != len(ended) {
				t.Errorf("%d families were stored, %d ended, %d are in the feed (%v)",
					s.families.ItemCount(), len(ended), len(feed), err)
			}
		})
	}
}

// TestFamiliesAreCopied scribbles on what went in and on what came out.
func TestFamiliesAreCopied(t *testing.T) {
	s := withUser(t, "ada")
	mine := family("f", "ada")
	if err := storetest.Done(s.AddFamily(t.Context(), mine)); err != nil {
		t.Fatal(err)
	}
	granted := oauth.Scopes{"public"}
	if err := s.PutConsent(t.Context(), "ada", "app", granted, now); err != nil {
		t.Fatal(err)
	}
	mine.Scopes[0], granted[0] = "scribble", "scribble"
	read := func() []oauth.Scopes {
		t.Helper()
		one, oneErr := s.Family(t.Context(), "f")
		list, listErr := s.FamiliesOf(t.Context(), "ada", now)
		consent, consentErr := s.Consent(t.Context(), "ada", "app")
		if err := errors.Join(oneErr, listErr, consentErr); err != nil {
			t.Fatal(err)
		}
		return []oauth.Scopes{one.Scopes, list[0].Scopes, consent}
	}
	for _, scopes := range read() {
		scopes[0] = "scribble"
	}
	for i, scopes := range read() {
		if !slices.Equal(scopes, oauth.Scopes{"public"}) {
			t.Errorf("reading %d: the scopes are %q", i, scopes)
		}
	}
}

// TestEndFamiliesOfAnother asks for a family by its id and the wrong owner: who guesses an id ends nothing.
func TestEndFamiliesOfAnother(t *testing.T) {
	end := store.Ending{At: now, Until: time.Now().Add(time.Hour)}
	for _, c := range []struct {
		name  string
		which store.FamilyFilter
		ends  int
	}{
		{"nothing is set", store.FamilyFilter{}, 0},
		{"origins alone", store.FamilyFilter{Origins: []oauth.GrantType{oauth.AuthorizationCode}}, 0},
		{"another user's", store.FamilyFilter{ID: "f", UserID: "eve"}, 0},
		{"another client's", store.FamilyFilter{ID: "f", ClientID: "evil"}, 0},
		{"of another origin", store.FamilyFilter{ID: "f", Origins: []oauth.GrantType{store.BrowserSession}}, 0},
		{"the owner's", store.FamilyFilter{ID: "f", UserID: "ada", ClientID: "app"}, 1},
		{"the client's", store.FamilyFilter{ClientID: "app"}, 2},
		{"the client's, of another user", store.FamilyFilter{ClientID: "app", UserID: "eve"}, 0},
		{"the user's, of two origins", store.FamilyFilter{
			UserID: "ada", Origins: []oauth.GrantType{store.BrowserSession, oauth.AuthorizationCode},
		}, 1},
		{"one that is not there", store.FamilyFilter{ID: "dropped", UserID: "ada"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := withUser(t, "ada")
			other := family("g", "bob")
			other.UserDeclared = true
			if err := errors.Join(storetest.Done(s.AddFamily(t.Context(), family("f", "ada"))), storetest.Done(s.AddFamily(t.Context(), other))); err != nil {
				t.Fatal(err)
			}
			ended, err := s.EndFamilies(t.Context(), c.which, end)
			feed, position, feedErr := s.Revocations(t.Context(), store.FeedPosition{})
			if err := errors.Join(err, feedErr); err != nil {
				t.Fatal(err)
			}
			if len(ended) != c.ends || len(feed) != c.ends || (position.At > 0) != (c.ends > 0) {
				t.Errorf("%d ended, %d in the feed, want %d", len(ended), len(feed), c.ends)
			}
			checkIndexes(t, s)
		})
	}
}

// BenchmarkFamiliesOf asks for one user's families among those of many others.
func BenchmarkFamiliesOf(b *testing.B) {
	s := withUser(b, "ada")
	for i := range 100_000 {
		f := family(fmt.Sprint(i), fmt.Sprint("user ", i))
		f.UserDeclared = true
		if err := storetest.Done(s.AddFamily(b.Context(), f)); err != nil {
			b.Fatal(err)
		}
	}
	if err := storetest.Done(s.AddFamily(b.Context(), family("f", "ada"))); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if list, err := s.FamiliesOf(b.Context(), "ada", now); err != nil || len(list) != 1 {
			b.Fatal(len(list), err)
		}
	}
}
