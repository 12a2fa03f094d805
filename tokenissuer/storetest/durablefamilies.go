package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// usersSurviveClose: users, organisations and consents are unchanged after a restart, with the versions that families depend on.
func usersSurviveClose(t *testing.T, open func() store.Store) {
	locked, password := store.UserLocked, hash("m=8,t=1,p=1", "changed")
	changed, rehashed := user("changed"), user("rehashed")
	s := open()
	for _, id := range []string{"acme", "removed"} {
		must(t, s.Users.AddOrganisation(t.Context(), organisation(id)))
	}
	must(t, s.Users.RemoveOrganisation(t.Context(), "removed"))
	for _, id := range []string{"as added", "changed", "rehashed", "removed"} {
		must(t, s.Users.AddUser(t.Context(), user(id), false))
		must(t, s.Families.PutConsent(t.Context(), id, "app", oauth.Scopes{"public", id}, now))
	}
	_, err := s.Users.ChangeUser(t.Context(), "changed", edit(func(u *store.User) { u.Status = locked; u.PasswordHash = password }), theEnd)
	must(t, err)
	changed.Status, changed.PasswordHash, changed.UpdatedAt = locked, password, theEnd.At
	must(t, s.Users.RehashPassword(t.Context(), "rehashed", rehashed.PasswordHash, password))
	rehashed.PasswordHash = password
	_, err = s.Users.RemoveUser(t.Context(), "removed", theEnd)
	must(t, err)
	must(t, s.Families.PutConsent(t.Context(), "changed", "app", nil, time.Time{}))
	before := listUsers(t, s.Users, "")
	must(t, s.Close())

	s = open()
	after := listUsers(t, s.Users, "acme")
	for i, want := range []*store.User{user("as added"), changed, rehashed} {
		if len(after) != 3 || after[i].Version != before[i].Version {
			t.Fatalf("users are\n%+v, want\n%+v", after, before)
		}
		sameUser(t, after[i], want)
		byEmail, err := s.Users.UserByEmail(t.Context(), want.Email)
		must(t, err)
		sameUser(t, byEmail, want)
	}
	sameSchemes(t, s.Users, passwords.SchemeOf(password), passwords.SchemeOf(user("as added").PasswordHash))
	sameOrganisations(t, s.Users, organisation("acme"))
	mustBe(t, s.Users.RemoveOrganisation(t.Context(), "acme"), store.ErrInUse)
	sameConsent(t, s.Families, "as added", "app", "public", "as added")
	sameConsent(t, s.Families, "changed", "app")
	sameConsent(t, s.Families, "removed", "app")

	// Taken ids are taken, free ones are free, and the versions are still valid.
	_, err = s.Users.User(t.Context(), "removed")
	mustBe(t, err, store.ErrNotFound)
	mustBe(t, s.Users.AddUser(t.Context(), user("removed"), false), store.ErrTaken)
	mustBe(t, s.Clients.AddClient(t.Context(), client("removed")), store.ErrTaken)
	heir := user("heir")
	heir.Email = user("removed").Email
	must(t, s.Users.AddUser(t.Context(), heir, false))
	addFamilies(t, s.Families, familyOf(before[0], "of a user from before"))
	mustBe(t, Done(s.Families.AddFamily(t.Context(), familyOf(user("changed"), "of no version"))), Refused(store.UserChanged))
	_, err = s.Users.ChangeUser(t.Context(), "as added", store.UserChange{}, theEnd)
	must(t, err)
	if u := readUser(t, s.Users, "as added"); u.Version == before[0].Version {
		t.Errorf("the version is %q as before", u.Version)
	}
	must(t, s.Close())
}

// familiesSurviveClose (T49, T84, T88, T103, A63): what was spent, rotated, counted, decided, touched or revoked is so after a restart,
// and is refused then as it was before.
func familiesSurviveClose(t *testing.T, open func() store.Store) {
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
	_, err := s.Users.ChangeUser(t.Context(), "bob", store.UserChange{}, theEnd)
	must(t, err)
	ended.RevokedAt, changed.RevokedAt = theEnd.At, theEnd.At
	must(t, s.Close())

	s = open()
	got, _ := follow(t, s.Revocations, position)
	sameNames(t, got, "family ended", "family changed")
	sameRevocation(t, recorded(t, s.Revocations)["family ended"], endOf("ended", theEnd.Until))
	noFamily(t, s.Families, "dropped")
	stand := func() {
		t.Helper()
		for _, want := range []*store.TokenFamily{unspent, spent, failed, limit, rotated, touched, ended, changed} {
			sameFamily(t, readFamily(t, s.Families, want.ID), want)
		}
	}
	stand()
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
	stand()
	must(t, redeem(t, s.Families, "unspent", 3))
	must(t, redeem(t, s.Families, "failed", 3))
	must(t, rotate(t, s.Families, "rotated", 4, store.Rotation{At: now}))
	must(t, s.Close())
}

// familiesSeenByTheNeighbour: the other store sees each step at once, and refuses what the first one refuses.
func familiesSeenByTheNeighbour(t *testing.T, a, b store.Store) {
	stores := []store.Store{a, b}
	for i := range 8 {
		here, there := stores[i%2], stores[(i+1)%2]
		u := addUser(t, here, user(fmt.Sprint("user ", i)))
		sameUser(t, readUser(t, there.Users, u.ID), user(u.ID))
		want := familyOf(u, fmt.Sprint("f", i))
		seen := func() {
			t.Helper()
			sameFamily(t, readFamily(t, there.Families, want.ID), want)
		}
		addFamilies(t, here.Families, want)
		seen()
		mustBe(t, Done(there.Families.DecideRequest(t.Context(), want.Code.RequestID, now)), Refused(store.Replayed))
		must(t, redeem(t, here.Families, want.ID, 1))
		redeemed(want, 1)
		seen()
		mustBe(t, redeem(t, there.Families, want.ID, 2), Refused(store.Replayed))
		must(t, rotate(t, there.Families, want.ID, 1, store.Rotation{At: now.Add(time.Hour)}))
		want.Refresh.Generation, want.Refresh.RotatedAt = 2, now.Add(time.Hour)
		seen()
		mustBe(t, rotate(t, here.Families, want.ID, 1, store.Rotation{At: now}), Refused(store.Replayed))
		ended, err := here.Users.ChangeUser(t.Context(), u.ID, store.UserChange{}, theEnd)
		must(t, err)
		sameEndings(t, there, ended, want.ID)
		want.RevokedAt = theEnd.At
		seen()
		mustBe(t, rotate(t, there.Families, want.ID, 2, store.Rotation{At: now}), Refused(store.Revoked))
		mustBe(t, Done(there.Families.AddFamily(t.Context(), familyOf(u, "late"))), Refused(store.UserChanged))
	}
}

// idGivenOnceByNeighbours (T68): of clients and users that two stores on one place add concurrently with one id, one is added.
func idGivenOnceByNeighbours(t *testing.T, a, b store.Store) {
	stores := []store.Store{a, b}
	for round := range 4 {
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
}
