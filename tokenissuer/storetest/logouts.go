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

var logoutChecks = []check{
	{name: "T159LogoutsAreDueWhenTheSessionEnds", test: logoutsAreDueWhenTheSessionEnds},
	{name: "T159WhoIsNotTold", test: whoIsNotTold},
	{name: "T160ApprovedBesideTheEndIsTold", beside: approvedBesideTheEndIsTold},
	{name: "T161OneCallerGetsALogout", test: oneCallerGetsALogout},
	{name: "T161DueLogoutsInOrder", test: dueLogoutsInOrder},
	{name: "LogoutsGoWithTheirSession", test: logoutsGoWithTheirSession},
}

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
		{"DueLogouts", func(ctx context.Context) error { _, err := s.Logouts.DueLogouts(ctx, theEnd.At, 10); return err }},
		{"PostponeLogout", func(ctx context.Context) error {
			return s.Logouts.PostponeLogout(ctx, dueLogout("session", "told", "ada"), theEnd.At.Add(time.Minute))
		}},
		{"DropLogout", func(ctx context.Context) error { return s.Logouts.DropLogout(ctx, dueLogout("session", "told", "ada")) }},
		{"SessionClients", func(ctx context.Context) error { _, err := s.Logouts.SessionClients(ctx, "session"); return err }},
	}
}

// due returns what is due at theEnd, by session and client.
func due(t *testing.T, s store.Store) (names []string) {
	t.Helper()
	list, err := s.Logouts.DueLogouts(t.Context(), theEnd.At, 1000)
	must(t, err)
	for _, l := range list {
		if want := dueLogout(l.SessionID, l.ClientID, l.UserID); !sameTime(l.DueAt, want.DueAt) || !sameTime(l.EndedAt, want.EndedAt) || l.Attempts != 0 {
			t.Errorf("due is %+v, want %+v", l, want)
		}
		names = append(names, l.SessionID+" "+l.ClientID+" of "+l.UserID)
	}
	slices.Sort(names)
	return names
}

// clientsOf returns the clients of sessions.
func clientsOf(t *testing.T, s store.Store, sessionIDs ...string) map[string][]string {
	t.Helper()
	found, err := s.Logouts.SessionClients(t.Context(), sessionIDs...)
	must(t, err)
	return found
}

// logoutsAreDueWhenTheSessionEnds (T159): a session ends, by its id or with its user → each client that got an ID token in it has one
// logout due, in the same durable step; other clients have none.
func logoutsAreDueWhenTheSessionEnds(t *testing.T, s store.Store) {
	ends := map[string]func(u *store.User) error{
		"by id": func(*store.User) error {
			_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "session by id"}, theEnd)
			return err
		},
		"by id and user": func(u *store.User) error {
			_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "session by id and user", UserID: u.ID}, theEnd)
			return err
		},
		"by user": func(u *store.User) error {
			_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: u.ID, UserVersion: u.Version}, theEnd)
			return err
		},
		"change": func(u *store.User) error {
			disabled := store.UserDisabled
			_, err := s.Users.ChangeUser(t.Context(), u.ID, edit(func(u *store.User) { u.Status = disabled }), theEnd)
			return err
		},
		"removal": func(u *store.User) error { _, err := s.Users.RemoveUser(t.Context(), u.ID, theEnd); return err },
	}
	var users []*store.User
	for _, way := range slices.Sorted(maps.Keys(ends)) {
		u := addUser(t, s, user("user "+way))
		own := func(f *store.TokenFamily) *store.TokenFamily {
			f.User.ID, f.User.Version, f.User.Declared = u.ID, u.Version, false
			return f
		}
		again := own(telling("session "+way, "web"))
		again.ID, again.Code.RequestID = "again "+way, "again "+way
		addFamilies(t, s.Families, own(session("session "+way)), own(telling("session "+way, "web")), own(telling("session "+way, "app")), again)
		if got, want := clientsOf(t, s, "session "+way, "unknown"), map[string][]string{"session " + way: {"app", "web"}}; !reflect.DeepEqual(got, want) {
			t.Fatalf("the clients are %v, want %v", got, want)
		}
		users = append(users, u)
	}
	for i, way := range slices.Sorted(maps.Keys(ends)) {
		if got := due(t, s); len(got) != 2*i {
			t.Fatalf("before the end %s there are due %q", way, got)
		}
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
}

// whoIsNotTold (T159): the client of a family that does not tell, that was not stored, or that has ended alone.
func whoIsNotTold(t *testing.T, s store.Store) {
	silent := telling("session", "silent")
	silent.TellsLogout = false
	addFamilies(t, s.Families, session("session"), session("ended"), silent)
	end(t, s.Families, store.FamilyFilter{ID: "ended"})
	if outcome, err := s.Families.AddFamily(t.Context(), telling("ended", "late")); outcome != store.Revoked || err != nil {
		t.Fatalf("a family of a session that has ended: %v, %v", outcome, err)
	}
	decided := telling("session", "decided")
	decided.Code.RequestID = silent.Code.RequestID
	if outcome, err := s.Families.AddFamily(t.Context(), decided); outcome != store.Replayed || err != nil {
		t.Fatalf("a family of a request that was decided: %v, %v", outcome, err)
	}
	stale := telling("session", "stale")
	stale.User.Declared = false
	if outcome, err := s.Families.AddFamily(t.Context(), stale); outcome != store.UserChanged || err != nil {
		t.Fatalf("a family of nobody: %v, %v", outcome, err)
	}
	if got := clientsOf(t, s, "session", "ended"); len(got) > 0 {
		t.Errorf("to be told are %v", got)
	}
	told := telling("session", "told")
	addFamilies(t, s.Families, told)
	end(t, s.Families, store.FamilyFilter{ID: told.ID})
	if got := due(t, s); len(got) > 0 {
		t.Errorf("the session lives, and due are %q", got)
	}
	if got := clientsOf(t, s, "session")["session"]; !slices.Equal(got, []string{"told"}) {
		t.Errorf("the clients of the session are %q", got)
	}
}

// approvedBesideTheEndIsTold (T160): an application is approved while the session ends, on this node or another → refused, or told.
func approvedBesideTheEndIsTold(t *testing.T, ending, adding store.Store) {
	for round := range 8 {
		id := fmt.Sprint("session ", round)
		addFamilies(t, ending.Families, session(id))
		errs := race(racers, func(i int) error {
			if i == racers/2 {
				_, err := ending.Families.EndFamilies(t.Context(), []store.FamilyFilter{{ID: id}, {UserID: "ada"}}[round%2], theEnd)
				return err
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
}

// oneCallerGetsALogout (T161): several nodes see a due logout → exactly one gets it.
func oneCallerGetsALogout(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, session("session"), telling("session", "app"))
	living := dueLogout("session", "app", "ada")
	mustBe(t, s.Logouts.PostponeLogout(t.Context(), living, theEnd.At), store.ErrNotFound)
	must(t, s.Logouts.DropLogout(t.Context(), living)) // the session lives
	end(t, s.Families, store.FamilyFilter{ID: "session"})
	list, err := s.Logouts.DueLogouts(t.Context(), theEnd.At, 10)
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("due are %+v", list)
	}
	logout, next := list[0], theEnd.At.Add(time.Minute)
	logout.Attempts = 7
	oneWinner(t, race(racers, func(int) error { return s.Logouts.PostponeLogout(t.Context(), logout, next) }), store.ErrNotFound)
	if got := due(t, s); len(got) > 0 {
		t.Errorf("somebody has it, and due are %q", got)
	}
	list, err = s.Logouts.DueLogouts(t.Context(), next, 10)
	must(t, err)
	if len(list) != 1 || list[0].Attempts != 7 || !sameTime(list[0].DueAt, next) || !sameTime(list[0].EndedAt, theEnd.At) {
		t.Errorf("later there are due %+v", list)
	}
	must(t, s.Logouts.DropLogout(t.Context(), logout)) // with the earlier DueAt
	must(t, s.Logouts.DropLogout(t.Context(), logout))
	mustBe(t, s.Logouts.PostponeLogout(t.Context(), list[0], next), store.ErrNotFound)
}

// dueLogoutsInOrder (T161): the longest due come first, as many as were asked for.
func dueLogoutsInOrder(t *testing.T, s store.Store) {
	for i, id := range []string{"b", "c", "a"} {
		addFamilies(t, s.Families, session(id), telling(id, "app"))
		at := store.Ending{At: theEnd.At.Add(time.Duration(i) * time.Second), Until: theEnd.Until}
		_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: id}, at)
		must(t, err)
	}
	for _, c := range []struct {
		after time.Duration
		limit int
		want  []string
	}{{-time.Second, 9, nil}, {time.Second, 9, []string{"b", "c"}}, {time.Hour, 9, []string{"b", "c", "a"}}, {time.Hour, 2, []string{"b", "c"}}} {
		list, err := s.Logouts.DueLogouts(t.Context(), theEnd.At.Add(c.after), c.limit)
		must(t, err)
		var got []string
		for _, l := range list {
			got = append(got, l.SessionID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v after the end, at most %d: %q, want %q", c.after, c.limit, got, c.want)
		}
	}
}

// logoutsGoWithTheirSession: undelivered logouts of a session are deleted with it.
func logoutsGoWithTheirSession(t *testing.T, s store.Store) {
	long := session("long")
	long.ExpiresAt = now.AddDate(0, 1, 0)
	addFamilies(t, s.Families, session("session"), telling("session", "app"), session("due"), telling("due", "app"), long, telling("long", "app"))
	end(t, s.Families, store.FamilyFilter{ID: "due"})
	for more := true; more; {
		var err error
		more, err = s.Housekeeping.Drop(t.Context(), store.ExpiringFamilies, now.AddDate(0, 0, 7))
		must(t, err)
	}
	if got := due(t, s); len(got) > 0 {
		t.Errorf("due are %q", got)
	}
	if got, want := clientsOf(t, s, "session", "long"), map[string][]string{"long": {"app"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the clients are %v, want %v", got, want)
	}
}

// logoutsSurviveClose (T162): killed between the end of a session and the delivery → what is due is there after the restart, with its
// attempts.
func logoutsSurviveClose(t *testing.T, open func() store.Store) {
	s := open()
	addFamilies(t, s.Families, session("due"), telling("due", "app"), telling("due", "tried"), session("live"), telling("live", "app"))
	end(t, s.Families, store.FamilyFilter{ID: "due"})
	tried, next := dueLogout("due", "tried", "ada"), theEnd.At.Add(time.Minute)
	tried.Attempts = 1
	must(t, s.Logouts.PostponeLogout(t.Context(), tried, next))
	must(t, s.Close())

	s = open()
	if got, want := due(t, s), []string{"due app of ada"}; !slices.Equal(got, want) {
		t.Errorf("due are %q, want %q", got, want)
	}
	if list, err := s.Logouts.DueLogouts(t.Context(), next, 10); err != nil || len(list) != 2 || list[1].ClientID != "tried" || list[1].Attempts != 1 {
		t.Errorf("later there are due %+v, %v", list, err)
	}
	if got := clientsOf(t, s, "live")["live"]; !slices.Equal(got, []string{"app"}) {
		t.Errorf("the clients are %q", got)
	}
	must(t, s.Close())
}
