package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// durableChecks are checks of a store that is opened again, or twice.
var durableChecks = []check{
	{name: "SurvivesClose", reopened: survivesClose},
	{name: "UsersSurviveClose", reopened: usersSurviveClose},
	{name: "T88FamiliesSurviveClose", reopened: familiesSurviveClose},
	{name: "T162LogoutsSurviveClose", reopened: logoutsSurviveClose},
	{name: "P100IdentitiesSurviveClose", reopened: identitiesSurviveClose},
	{name: "SeenByTheNeighbour", beside: seenByTheNeighbour},
	{name: "FamiliesSeenByTheNeighbour", beside: familiesSeenByTheNeighbour},
	{name: "T68IDGivenOnceByNeighbours", beside: idGivenOnceByNeighbours},
	{name: "T72AttemptsCountedByNeighbours", beside: attemptsOfNeighbours},
}

// RunDurable tests that what was acknowledged survives Close, and that stores on one place are one store. start creates a new place and
// returns a function that opens a store on it, each time that it is called.
func RunDurable(t *testing.T, start func(t *testing.T) (open func() store.Store)) {
	for _, c := range slices.Concat(durableChecks, contract()) {
		if c.test != nil {
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

func survivesClose(t *testing.T, open func() store.Store) {
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
	rotated.Secrets[0].ExpiresAt, rotated.Secrets[1].ExpiresAt = now.Add(time.Minute), now.Add(time.Minute)
	rotated.Secrets = append(rotated.Secrets, secret("new", now))
	disabled.Disabled = true
	sameClient(t, read(t, s.Clients, "rotated"), rotated)
	sameClient(t, read(t, s.Clients, "disabled"), disabled)
	_, err := s.Clients.Client(t.Context(), "removed")
	mustBe(t, err, store.ErrNotFound)
	mustBe(t, s.Clients.AddClient(t.Context(), client("removed")), store.ErrTaken)

	// A reader continues from its earlier position.
	got, position := follow(t, s.Revocations, position)
	sameNames(t, got, "client late")
	must(t, s.Revocations.Revoke(t.Context(), revocation("later")))
	got, _ = follow(t, s.Revocations, position)
	sameNames(t, got, "client later")
	revoked := recorded(t, s.Revocations)
	for _, id := range []string{"disabled", "removed", "late", "later"} {
		sameRevocation(t, revoked["client "+id], revocation(id))
	}
	must(t, s.Close())
}

// seenByTheNeighbour: the step itself makes it durable, not Close: a second store on the same place sees it at once.
func seenByTheNeighbour(t *testing.T, a, b store.Store) {
	for i := range 8 {
		id := fmt.Sprint("app ", i)
		must(t, a.Clients.AddClient(t.Context(), client(id)))
		sameClient(t, read(t, b.Clients, id), client(id))
		mustBe(t, b.Clients.AddClient(t.Context(), client(id)), store.ErrTaken)
		must(t, b.Clients.RemoveClient(t.Context(), id, revocation(id)))
		_, err := a.Clients.Client(t.Context(), id)
		mustBe(t, err, store.ErrNotFound)
	}
	oneWinner(t, race(racers, func(i int) error {
		if i%2 == 0 {
			return a.Clients.AddClient(t.Context(), client("raced"))
		}
		return b.Clients.AddClient(t.Context(), client("raced"))
	}), store.ErrTaken)
	if got := recorded(t, a.Revocations); len(got) != 8 {
		t.Errorf("the neighbour sees %d revocations, want 8", len(got))
	}
}
