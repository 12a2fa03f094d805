package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// telling returns a family of the client that was approved in a session, with TellsLogout.
func telling(sessionID, clientID string) *store.TokenFamily {
	f := approvedIn(sessionID, sessionID+" "+clientID)
	f.SignIn.SessionID, f.ClientID, f.TellsLogout = sessionID, clientID, true
	return f
}

// dueLogout returns a logout that is due since the end of the session.
func dueLogout(sessionID, clientID, userID string) store.Logout {
	return store.Logout{SessionID: sessionID, ClientID: clientID, UserID: userID, DueAt: theEnd.At, EndedAt: theEnd.At}
}

func logoutCalls(s store.Store) []call {
	return []call{
		{"DueLogouts", func(ctx context.Context) error { return errOf(s.Logouts.DueLogouts(ctx, theEnd.At, 10)) }},
		{"PostponeLogout", func(ctx context.Context) error {
			return s.Logouts.PostponeLogout(ctx, dueLogout("session", "told", "ada"), theEnd.At.Add(time.Minute))
		}},
		{"DropLogout", func(ctx context.Context) error { return s.Logouts.DropLogout(ctx, dueLogout("session", "told", "ada")) }},
		{"SessionClients", func(ctx context.Context) error { return errOf(s.Logouts.SessionClients(ctx, "session")) }},
	}
}

// due returns what is due at theEnd, by session and client.
func due(t *testing.T, s store.Store) (names []string) {
	t.Helper()
	list := ok(s.Logouts.DueLogouts(t.Context(), theEnd.At, 1000))(t)
	for _, l := range list {
		if want := dueLogout(l.SessionID, l.ClientID, l.UserID); !sameTime(l.DueAt, want.DueAt) || !sameTime(l.EndedAt, want.EndedAt) || l.Attempts != 0 {
			t.Errorf("due is %+v, want %+v", l, want)
		}
		names = append(names, l.SessionID+" "+l.ClientID+" of "+l.UserID)
	}
	slices.Sort(names)
	return names
}

// noneDue checks that no logout is due at theEnd.
func noneDue(t *testing.T, s store.Store) {
	t.Helper()
	if got := due(t, s); len(got) > 0 {
		t.Errorf("due are %q", got)
	}
}

// clientsOf returns the clients of sessions.
func clientsOf(t *testing.T, s store.Store, sessionIDs ...string) map[string][]string {
	t.Helper()
	return ok(s.Logouts.SessionClients(t.Context(), sessionIDs...))(t)
}

var logoutChecks = []check{
	// A session ends, by its id or with its user → each client that got an ID token in it has one logout due, in the same durable step; other
	// clients have none.
	{name: "T159LogoutsAreDueWhenTheSessionEnds", test: func(t *testing.T, s store.Store) {
		ends := map[string]func(u *store.User) error{
			"by id": func(*store.User) error {
				return errOf(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "session by id"}, theEnd))
			},
			"by id and user": func(u *store.User) error {
				return errOf(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "session by id and user", UserID: u.ID}, theEnd))
			},
			"by user": func(u *store.User) error {
				return errOf(s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: u.ID, UserVersion: u.Version}, theEnd))
			},
			"change": func(u *store.User) error {
				return errOf(s.Users.ChangeUser(t.Context(), u.ID, edit(func(u *store.User) { u.Status = store.UserDisabled }), theEnd))
			},
			"removal": func(u *store.User) error { return errOf(s.Users.RemoveUser(t.Context(), u.ID, theEnd)) },
		}
		var users []*store.User
		for _, way := range slices.Sorted(maps.Keys(ends)) {
			u := addUser(t, s, user("user "+way))
			own := func(f *store.TokenFamily) *store.TokenFamily { return ownedBy(u, f) }
			again := with(own(telling("session "+way, "web")), func(f *store.TokenFamily) { f.ID, f.Code.RequestID = "again "+way, "again "+way })
			addFamilies(t, s.Families, own(session("session "+way)), own(telling("session "+way, "web")), own(telling("session "+way, "app")), again)
			if got, want := clientsOf(t, s, "session "+way, "unknown"), map[string][]string{"session " + way: {"app", "web"}}; !reflect.DeepEqual(got, want) {
				t.Fatalf("the clients are %v, want %v", got, want)
			}
			users = append(users, u)
		}
		for i, way := range slices.Sorted(maps.Keys(ends)) {
			wantSize(t, due(t, s), 2*i)
			must(t, ends[way](users[i]))
			for _, client := range []string{"app", "web"} {
				if got, want := due(t, s), "session "+way+" "+client+" of "+users[i].ID; !slices.Contains(got, want) {
					t.Errorf("after the end %s there are due %q, want %q among them", way, got, want)
				}
			}
			if got := clientsOf(t, s, "session "+way); len(got) > 0 {
				t.Errorf("after the end %s the clients of the session are %v", way, got)
			}
		}
	}},
	// The client of a family that does not tell, that was not stored, or that has ended alone.
	{name: "T159WhoIsNotTold", test: func(t *testing.T, s store.Store) {
		silent := with(telling("session", "silent"), func(f *store.TokenFamily) { f.TellsLogout = false })
		addFamilies(t, s.Families, session("session"), session("ended"), silent)
		end(t, s.Families, store.FamilyFilter{ID: "ended"})
		if outcome, err := s.Families.AddFamily(t.Context(), telling("ended", "late")); outcome != store.Revoked || err != nil {
			t.Fatalf("a family of a session that has ended: %v, %v", outcome, err)
		}
		decided := with(telling("session", "decided"), func(f *store.TokenFamily) { f.Code.RequestID = silent.Code.RequestID })
		if outcome, err := s.Families.AddFamily(t.Context(), decided); outcome != store.Replayed || err != nil {
			t.Fatalf("a family of a request that was decided: %v, %v", outcome, err)
		}
		stale := with(telling("session", "stale"), func(f *store.TokenFamily) { f.User.Declared = false })
		if outcome, err := s.Families.AddFamily(t.Context(), stale); outcome != store.UserChanged || err != nil {
			t.Fatalf("a family of nobody: %v, %v", outcome, err)
		}
		if got := clientsOf(t, s, "session", "ended"); len(got) > 0 {
			t.Errorf("to be told are %v", got)
		}
		told := telling("session", "told")
		addFamilies(t, s.Families, told)
		end(t, s.Families, store.FamilyFilter{ID: told.ID})
		noneDue(t, s)
		if got := clientsOf(t, s, "session")["session"]; !slices.Equal(got, []string{"told"}) {
			t.Errorf("the clients of the session are %q", got)
		}
	}},
	// An application is approved while the session ends, on this node or another → refused, or told.
	{name: "T160ApprovedBesideTheEndIsTold", beside: func(t *testing.T, ending, adding store.Store) {
		for round := range 4 {
			id := fmt.Sprint("session ", round)
			addFamilies(t, ending.Families, session(id))
			errs := race(racers, func(i int) error {
				if i == racers/2 {
					return errOf(ending.Families.EndFamilies(t.Context(), []store.FamilyFilter{{ID: id}, {UserID: "ada"}}[round%2], theEnd))
				}
				return Done(adding.Families.AddFamily(t.Context(), telling(id, fmt.Sprint("client ", i))))
			})
			told := due(t, ending)
			for i, err := range errs {
				is := slices.Contains(told, fmt.Sprintf("%s client %d of ada", id, i))
				switch {
				case i == racers/2:
					must(t, err)
				case err == nil && !is:
					t.Errorf("round %d: client %d was approved and is not told", round, i)
				case err != nil && (is || !errors.As(err, new(Refused))):
					t.Errorf("round %d: client %d got %v, and is told: %v", round, i, err, is)
				}
			}
		}
	}},
	// Several nodes see a due logout → exactly one gets it.
	{name: "T161OneCallerGetsALogout", races: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, session("session"), telling("session", "app"))
		living := dueLogout("session", "app", "ada")
		mustBe(t, s.Logouts.PostponeLogout(t.Context(), living, theEnd.At), store.ErrNotFound)
		must(t, s.Logouts.DropLogout(t.Context(), living)) // the session lives
		end(t, s.Families, store.FamilyFilter{ID: "session"})
		list := ok(s.Logouts.DueLogouts(t.Context(), theEnd.At, 10))(t)
		wantSize(t, list, 1)
		logout, next := list[0], theEnd.At.Add(time.Minute)
		logout.Attempts = 7
		oneWinner(t, race(racers, func(int) error { return s.Logouts.PostponeLogout(t.Context(), logout, next) }), store.ErrNotFound)
		noneDue(t, s)
		list = ok(s.Logouts.DueLogouts(t.Context(), next, 10))(t)
		if len(list) != 1 || list[0].Attempts != 7 || !sameTime(list[0].DueAt, next) || !sameTime(list[0].EndedAt, theEnd.At) {
			t.Errorf("later there are due %+v", list)
		}
		must(t, s.Logouts.DropLogout(t.Context(), logout)) // with the earlier DueAt
		must(t, s.Logouts.DropLogout(t.Context(), logout))
		mustBe(t, s.Logouts.PostponeLogout(t.Context(), list[0], next), store.ErrNotFound)
	}},
	// The longest due come first, as many as were asked for.
	{name: "T161DueLogoutsInOrder", test: func(t *testing.T, s store.Store) {
		for i, id := range []string{"b", "c", "a"} {
			addFamilies(t, s.Families, session(id), telling(id, "app"))
			at := store.Ending{At: theEnd.At.Add(time.Duration(i) * time.Second), Until: theEnd.Until}
			ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: id}, at))(t)
		}
		for _, c := range []struct {
			after time.Duration
			limit int
			want  []string
		}{{-time.Second, 9, nil}, {time.Second, 9, []string{"b", "c"}}, {time.Hour, 9, []string{"b", "c", "a"}}, {time.Hour, 2, []string{"b", "c"}}} {
			list := ok(s.Logouts.DueLogouts(t.Context(), theEnd.At.Add(c.after), c.limit))(t)
			var got []string
			for _, l := range list {
				got = append(got, l.SessionID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v after the end, at most %d: %q, want %q", c.after, c.limit, got, c.want)
			}
		}
	}},
	// Undelivered logouts of a session are deleted with it.
	{name: "LogoutsGoWithTheirSession", test: func(t *testing.T, s store.Store) {
		long := with(session("long"), func(f *store.TokenFamily) { f.ExpiresAt = now.AddDate(0, 1, 0) })
		addFamilies(t, s.Families, session("session"), telling("session", "app"), session("due"), telling("due", "app"), long, telling("long", "app"))
		end(t, s.Families, store.FamilyFilter{ID: "due"})
		drop(t, s.Housekeeping, now.AddDate(0, 0, 7), 10)
		noneDue(t, s)
		if got, want := clientsOf(t, s, "session", "long"), map[string][]string{"long": {"app"}}; !reflect.DeepEqual(got, want) {
			t.Errorf("the clients are %v, want %v", got, want)
		}
	}},
}
