package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RunDurable tests that what was acknowledged survives Close, and that stores on one place are one store. start creates a new place and
// returns a function that opens a store on it, each time that it is called.
func RunDurable(t *testing.T, start func(t *testing.T) (open func() store.Store)) {
	for _, c := range slices.Concat(durableChecks, contract()) {
		if c.reopened == nil && c.beside == nil {
			continue // one store is enough
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			open := start(t)
			if c.reopened != nil {
				c.reopened(t, open)
				return
			}
			a, b := open(), open()
			t.Cleanup(func() { _, _ = a.Close(), b.Close() })
			c.beside(t, a, b)
		})
	}
}

// durableChecks are checks of a store that is opened again, or twice.
var durableChecks = []check{
	{name: "SurvivesClose", reopened: func(t *testing.T, open func() store.Store) {
		oldKey, sealedKey := key("old", oauth.ES256, now), key("sealed", oauth.EdDSA, now.Add(time.Hour))
		sealedKey.SealedWith = "kek"
		rotated, disabled := client("rotated"), client("disabled")

		s := open()
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(oldKey)))
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(sealedKey)))
		for _, id := range []string{"rotated", "disabled", "removed"} {
			must(t, s.Clients.AddClient(t.Context(), client(id)))
		}
		must(t, s.Clients.ChangeClient(t.Context(), "rotated", store.RotateSecret(secret("new", now), now.Add(time.Minute))))
		must(t, s.Clients.ChangeClient(t.Context(), "disabled", store.DisableClient(revocation("disabled"))))
		must(t, s.Clients.RemoveClient(t.Context(), "removed", revocation("removed")))
		_, position := follow(t, s.Revocations, store.FeedPosition{})
		must(t, s.Revocations.Revoke(t.Context(), revocation("late")))
		must(t, s.Close())

		s = open()
		sameKeys(t, storedKeys(t, s.Keys), oldKey, sealedKey)
		must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(key("new", oauth.ES256, now))))
		sameKeys(t, storedKeys(t, s.Keys), oldKey, sealedKey)
		for i := range rotated.Secrets {
			rotated.Secrets[i].ExpiresAt = now.Add(time.Minute)
		}
		rotated.Secrets = append(rotated.Secrets, secret("new", now))
		disabled.Disabled = true
		wantClients(t, s.Clients, rotated, disabled)
		mustBe(t, errOf(s.Clients.Client(t.Context(), "removed")), store.ErrNotFound)
		mustBe(t, s.Clients.AddClient(t.Context(), client("removed")), store.ErrTaken)

		// A reader continues from its earlier position.
		got, position := follow(t, s.Revocations, position)
		sameNames(t, got, "client late")
		must(t, s.Revocations.Revoke(t.Context(), revocation("later")))
		got, _ = follow(t, s.Revocations, position)
		sameNames(t, got, "client later")
		revoked := recorded(t, s.Revocations)
		for _, id := range []string{"disabled", "removed", "late", "later"} {
			same(t, revoked["client "+id], revocation(id))
		}
		must(t, s.Close())
	}},
	// Records of every kind are unchanged after a restart, with the versions that families depend on. Ids that were taken are taken.
	{name: "P100RecordsSurviveClose", reopened: func(t *testing.T, open func() store.Store) {
		s := open()
		p, linked := populate(t, s), declared(identity("corp", "1", "eve"))
		must(t, s.Identities.LinkIdentity(t.Context(), linked))
		must(t, s.Identities.LinkIdentity(t.Context(), declared(identity("corp", "gone", "eve"))))
		unlink(t, s, "corp", "gone", "eve")
		addUser(t, s, user("removed"))
		ok(s.Users.RemoveUser(t.Context(), "removed", theEnd))(t)
		must(t, s.Close())

		s = open()
		p.stands(t, s)
		sameIdentities(t, s, "eve", linked)
		noIdentity(t, s, "corp", "gone")
		mustBe(t, s.Users.AddUser(t.Context(), user("removed"), false), store.ErrTaken)
		mustBe(t, s.Users.RemoveOrganisation(t.Context(), "acme"), store.ErrInUse)
		addFamilies(t, s.Families, familyOf(p.user, "of a user from before"))
		ok(s.Users.ChangeUser(t.Context(), "ada", store.UserChange{}, theEnd))(t)
		mustBe(t, Done(s.Families.AddFamily(t.Context(), familyOf(p.user, "of a version from before"))), Refused(store.UserChanged))
		must(t, s.Close())
	}},
	// T49, T84, T103, A63: what was spent, rotated, counted, decided, touched or revoked is so after a restart, and is refused then as it was
	// before.
	{name: "T88FamiliesSurviveClose", reopened: func(t *testing.T, open func() store.Store) {
		s := open()
		bob := addUser(t, s, user("bob"))
		unspent, spent, failed, limit, ended := family("unspent"), family("spent"), family("failed"), family("limit"), family("ended")
		rotated, touched, dropped, changed := refreshed("rotated"), refreshed("touched"), refreshed("dropped"), familyOf(bob, "changed")
		dropped.ExpiresAt = now.Add(-time.Hour)
		addFamilies(t, s.Families, unspent, spent, failed, limit, ended, rotated, touched, dropped, changed)
		must(t, redeem(t, s.Families, "spent", 1))
		redeemed(spent, 1)
		must(t, s.Families.CountCodeFailure(t.Context(), "failed"))
		failed.Code.Failures++
		for limit.Code.Failures < maxFailures {
			must(t, s.Families.CountCodeFailure(t.Context(), "limit"))
			limit.Code.Failures++
		}
		for rotated.Refresh.Generation < 4 {
			rotated.Refresh.RotatedAt = now.Add(time.Duration(rotated.Refresh.Generation) * time.Minute)
			must(t, rotate(t, s.Families, "rotated", rotated.Refresh.Generation, store.Rotation{At: rotated.Refresh.RotatedAt}))
			rotated.Refresh.Generation++
		}
		must(t, Done(s.Families.TouchFamily(t.Context(), "touched", now)))
		touched.Refresh.RotatedAt = now
		must(t, Done(s.Families.DecideRequest(t.Context(), "refused", now.AddDate(0, 0, 1))))
		drop(t, s.Housekeeping, now, 10)
		_, position := follow(t, s.Revocations, store.FeedPosition{})
		end(t, s.Families, store.FamilyFilter{ID: "ended"})
		ok(s.Users.ChangeUser(t.Context(), "bob", store.UserChange{}, theEnd))(t)
		ended.RevokedAt, changed.RevokedAt = theEnd.At, theEnd.At
		must(t, s.Close())

		s = open()
		got, _ := follow(t, s.Revocations, position)
		sameNames(t, got, "family ended", "family changed")
		same(t, recorded(t, s.Revocations)["family ended"], endOf("ended", theEnd.Until))
		noFamily(t, s.Families, "dropped")
		families := []*store.TokenFamily{unspent, spent, failed, limit, rotated, touched, ended, changed}
		wantFamilies(t, s.Families, families...)
		for id, refusal := range map[string]store.Outcome{
			"spent": store.Replayed, "limit": store.TooManyFailures, "ended": store.Revoked, "changed": store.Revoked,
		} {
			mustBe(t, redeem(t, s.Families, id, 2), Refused(refusal))
		}
		for generation, refusal := range map[int64]store.Outcome{1: store.Replayed, 3: store.Replayed, 5: store.Missing} {
			mustBe(t, rotate(t, s.Families, "rotated", generation, store.Rotation{At: now}), Refused(refusal))
		}
		mustBe(t, rotate(t, s.Families, "ended", 0, store.Rotation{At: now}), Refused(store.Revoked))
		mustBe(t, Done(s.Families.DecideRequest(t.Context(), "refused", now)), Refused(store.Replayed))
		mustBe(t, Done(s.Families.DecideRequest(t.Context(), unspent.Code.RequestID, now)), Refused(store.Replayed))
		mustBe(t, Done(s.Families.AddFamily(t.Context(), familyOf(bob, "late"))), Refused(store.UserChanged))
		wantFamilies(t, s.Families, families...)
		must(t, redeem(t, s.Families, "unspent", 3))
		must(t, redeem(t, s.Families, "failed", 3))
		must(t, rotate(t, s.Families, "rotated", 4, store.Rotation{At: now}))
		must(t, s.Close())
	}},
	// Killed between the end of a session and the delivery → what is due is there after the restart, with its attempts.
	{name: "T162LogoutsSurviveClose", reopened: func(t *testing.T, open func() store.Store) {
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
	}},
	// A node is stopped with mails that wait → they wait after the restart, with their attempts.
	{name: "E4MailsSurviveClose", reopened: func(t *testing.T, open func() store.Store) {
		s := open()
		for i := range 3 {
			must(t, s.Mails.AddMail(t.Context(), mail(fmt.Sprint(i)), manyMails))
		}
		tried := mail("1")
		tried.Attempts = 7
		must(t, s.Mails.PostponeMail(t.Context(), tried, now.Add(time.Minute)))
		must(t, s.Close())

		s = open()
		tried.DueAt = now.Add(time.Minute)
		same(t, ok(s.Mails.DueMails(t.Context(), now.Add(time.Hour), 10))(t), []store.Mail{mail("0"), mail("2"), tried})
		must(t, s.Close())
	}},
	// The step itself makes it durable, not Close: a second store on the same place sees it at once.
	{name: "SeenByTheNeighbour", beside: func(t *testing.T, a, b store.Store) {
		for i := range 4 {
			id := fmt.Sprint("app ", i)
			must(t, a.Clients.AddClient(t.Context(), client(id)))
			wantClients(t, b.Clients, client(id))
			mustBe(t, b.Clients.AddClient(t.Context(), client(id)), store.ErrTaken)
			must(t, b.Clients.RemoveClient(t.Context(), id, revocation(id)))
			mustBe(t, errOf(a.Clients.Client(t.Context(), id)), store.ErrNotFound)
		}
		oneWinner(t, race(racers, func(i int) error {
			if i%2 == 0 {
				return a.Clients.AddClient(t.Context(), client("raced"))
			}
			return b.Clients.AddClient(t.Context(), client("raced"))
		}), store.ErrTaken)
		wantSize(t, recorded(t, a.Revocations), 4)
	}},
	// The other store sees each step at once, and refuses what the first one refuses.
	{name: "FamiliesSeenByTheNeighbour", beside: func(t *testing.T, a, b store.Store) {
		stores := []store.Store{a, b}
		for i := range 4 {
			here, there := stores[i%2], stores[(i+1)%2]
			u := addUser(t, here, user(fmt.Sprint("user ", i)))
			wantUsers(t, there.Users, user(u.ID))
			want := familyOf(u, fmt.Sprint("f", i))
			addFamilies(t, here.Families, want)
			wantFamilies(t, there.Families, want)
			mustBe(t, Done(there.Families.DecideRequest(t.Context(), want.Code.RequestID, now)), Refused(store.Replayed))
			must(t, redeem(t, here.Families, want.ID, 1))
			redeemed(want, 1)
			wantFamilies(t, there.Families, want)
			mustBe(t, redeem(t, there.Families, want.ID, 2), Refused(store.Replayed))
			must(t, rotate(t, there.Families, want.ID, 1, store.Rotation{At: now.Add(time.Hour)}))
			want.Refresh.Generation, want.Refresh.RotatedAt = 2, now.Add(time.Hour)
			wantFamilies(t, there.Families, want)
			mustBe(t, rotate(t, here.Families, want.ID, 1, store.Rotation{At: now}), Refused(store.Replayed))
			sameEndings(t, there, ok(here.Users.ChangeUser(t.Context(), u.ID, store.UserChange{}, theEnd))(t), want.ID)
			want.RevokedAt = theEnd.At
			wantFamilies(t, there.Families, want)
			mustBe(t, rotate(t, there.Families, want.ID, 2, store.Rotation{At: now}), Refused(store.Revoked))
			mustBe(t, Done(there.Families.AddFamily(t.Context(), familyOf(u, "late"))), Refused(store.UserChanged))
		}
	}},
	// Of clients and users that two stores on one place add concurrently with one id, one is added.
	{name: "T68IDGivenOnceByNeighbours", beside: func(t *testing.T, a, b store.Store) {
		stores := []store.Store{a, b}
		for round := range 2 {
			id := fmt.Sprint("both ", round)
			errs := race(racers, func(i int) error {
				s := stores[i/2%2]
				if i%2 == 0 {
					return s.Clients.AddClient(t.Context(), client(id))
				}
				return s.Users.AddUser(t.Context(), user(id), true)
			})
			oneWinner(t, errs, store.ErrTaken)
			_, isClient := a.Clients.Client(t.Context(), id)
			_, isUser := b.Users.User(t.Context(), id)
			if wonByUser := slices.Index(errs, nil)%2 == 1; wonByUser != (isUser == nil) || wonByUser == (isClient == nil) {
				t.Fatalf("a user won: %v, but the client is there with %v and the user with %v", wonByUser, isClient, isUser)
			}
		}
	}},
	// Failures counted at one node count at the other, and so does what is forgiven there.
	{name: "T72AttemptsCountedByNeighbours", beside: func(t *testing.T, a, b store.Store) {
		end := now.Add(time.Minute)
		here, there := storedAttempts{t, a.Attempts}, storedAttempts{t, b.Attempts}
		fail(t, here, "b", time.Minute, now, 1, end)
		fail(t, there, "b", time.Hour, now.Add(time.Second), 2, end)
		fail(t, here, "b", time.Minute, now.Add(2*time.Second), 3, end)
		there.Forgive(t.Context(), "b", now.Add(3*time.Second))
		counted(t, here, "b", now.Add(3*time.Second), 2, end)
	}},
}
