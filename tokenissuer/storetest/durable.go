package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RunDurable holds a store against the promise that what was acknowledged survives Close, and that stores on one place
// are one store. Start names a new place and returns what opens the store of that place, each time that it is called.
func RunDurable(t *testing.T, start func(t *testing.T) (open func() store.Store)) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, open func() store.Store)
	}{
		{"SurvivesClose", survivesClose},
		{"UsersSurviveClose", usersSurviveClose},
		{"T88FamiliesSurviveClose", familiesSurviveClose},
		{"T162LogoutsSurviveClose", logoutsSurviveClose},
		{"P100IdentitiesSurviveClose", identitiesSurviveClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, start(t))
		})
	}
	for _, c := range []struct {
		name string
		test func(t *testing.T, a, b store.Store)
	}{
		{"SeenByTheNeighbour", seenByTheNeighbour},
		{"FamiliesSeenByTheNeighbour", familiesSeenByTheNeighbour},
		{"T68IDGivenOnceByNeighbours", idGivenOnceByNeighbours},
		{"T52ManyCodesBetweenNeighbours", func(t *testing.T, a, b store.Store) { manyCodesInARace(t, a, b) }},
		{"T87RotatedOnceBetweenNeighbours", func(t *testing.T, a, b store.Store) { rotatedOnceInARace(t, a, b) }},
		{"T89RotationBesideTheEndAtTheNeighbour", func(t *testing.T, a, b store.Store) { rotationBesideTheEnd(t, a, b, neighbourRounds) }},
		{"A71TouchBesideTheEndAtTheNeighbour", func(t *testing.T, a, b store.Store) { touchBesideTheEnd(t, a, b, neighbourRounds) }},
		{"M28FamilyBornBesideAChangeAtTheNeighbour", func(t *testing.T, a, b store.Store) { familyBornBesideAChange(t, a, b, neighbourRounds) }},
		{"M28FamilyBornBesideARemovalAtTheNeighbour", func(t *testing.T, a, b store.Store) { familyBornBesideARemoval(t, a, b, neighbourRounds) }},
		{"T160ApprovedBesideTheEndAtTheNeighbour", func(t *testing.T, a, b store.Store) { approvedBesideTheEndIsTold(t, a, b) }},
		{"S61HostSessionBornBesideTheEndAtTheNeighbour", func(t *testing.T, a, b store.Store) { hostSessionBornBesideTheEnd(t, a, b) }},
		{"S62HostSessionUsedBesideTheEndAtTheNeighbour", func(t *testing.T, a, b store.Store) { hostSessionUsedBesideTheEnd(t, a, b) }},
		{"P101IdentityLinkedOnceBetweenNeighbours", func(t *testing.T, a, b store.Store) { identityLinkedOnceInARace(t, a, b) }},
		{"P103ExternalUserAddedOnceBetweenNeighbours", func(t *testing.T, a, b store.Store) { externalUserAddedOnceInARace(t, a, b) }},
		{"P104LinkedBesideTheRemovalAtTheNeighbour", func(t *testing.T, a, b store.Store) { linkedBesideTheRemoval(t, a, b) }},
		{"P106UnlinkedBesideALinkAtTheNeighbour", func(t *testing.T, a, b store.Store) { unlinkedBesideALink(t, a, b) }},
		{"P110SignedInBesideTheUnlinkAtTheNeighbour", func(t *testing.T, a, b store.Store) { signedInBesideTheUnlink(t, a, b) }},
		{"P112OneWayInIsLeftBetweenNeighbours", func(t *testing.T, a, b store.Store) { oneWayInIsLeft(t, a, b) }},
		{"P113TouchedBesideTheUnlinkAtTheNeighbour", func(t *testing.T, a, b store.Store) { touchedBesideTheUnlink(t, a, b) }},
		{"LeasedOnceBetweenNeighbours", func(t *testing.T, a, b store.Store) { leasedOnceInARace(t, a, b) }},
		{"T72AttemptsCountedByNeighbours", attemptsOfNeighbours},
		{"T73AttemptsInARaceOfNeighbours", func(t *testing.T, a, b store.Store) { sharedAttemptsRace(t, a, b) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			open := start(t)
			a, b := open(), open()
			t.Cleanup(func() { _, _ = a.Close(), b.Close() })
			c.test(t, a, b)
		})
	}
}

// neighbourRounds is raceRounds for stores that wait for each other's locks.
const neighbourRounds = 100

func survivesClose(t *testing.T, open func() store.Store) {
	oldKey, sealedKey := key("old", oauth.ES256, now), key("sealed", oauth.EdDSA, now.Add(time.Hour))
	sealedKey.SealedWith = "kek"
	rotated, disabled := client("rotated"), client("disabled")

	s := open()
	must(t, s.AddFirstSigningKey(t.Context(), oldKey))
	must(t, s.AddFirstSigningKey(t.Context(), sealedKey))
	for _, id := range []string{"rotated", "disabled", "removed"} {
		must(t, s.AddClient(t.Context(), client(id)))
	}
	must(t, s.RotateClientSecret(t.Context(), "rotated", secret("new", now), now.Add(time.Minute)))
	must(t, s.DisableClient(t.Context(), "disabled", revocation("disabled")))
	must(t, s.RemoveClient(t.Context(), "removed", revocation("removed")))
	_, position := follow(t, s, store.FeedPosition{})
	must(t, s.Revoke(t.Context(), revocation("late")))
	must(t, s.Close())

	s = open()
	sameKeys(t, storedKeys(t, s), oldKey, sealedKey)
	must(t, s.AddFirstSigningKey(t.Context(), key("new", oauth.ES256, now)))
	sameKeys(t, storedKeys(t, s), oldKey, sealedKey)
	rotated.Secrets[0].ExpiresAt, rotated.Secrets[1].ExpiresAt = now.Add(time.Minute), now.Add(time.Minute)
	rotated.Secrets = append(rotated.Secrets, secret("new", now))
	disabled.Disabled = true
	sameClient(t, read(t, s, "rotated"), rotated)
	sameClient(t, read(t, s, "disabled"), disabled)
	_, err := s.Client(t.Context(), "removed")
	mustBe(t, err, store.ErrNotFound)
	mustBe(t, s.AddClient(t.Context(), client("removed")), store.ErrTaken)

	// A reader goes on from the position that it got before.
	got, position := follow(t, s, position)
	sameNames(t, got, "client late")
	must(t, s.Revoke(t.Context(), revocation("later")))
	got, _ = follow(t, s, position)
	sameNames(t, got, "client later")
	revoked := recorded(t, s)
	for _, id := range []string{"disabled", "removed", "late", "later"} {
		sameRevocation(t, revoked["client "+id], revocation(id))
	}
	must(t, s.Close())
}

// seenByTheNeighbour: nothing but the step itself makes it durable, not Close: a second store on the same place sees it
// at once.
func seenByTheNeighbour(t *testing.T, a, b store.Store) {
	for i := range 8 {
		id := fmt.Sprint("app ", i)
		must(t, a.AddClient(t.Context(), client(id)))
		sameClient(t, read(t, b, id), client(id))
		mustBe(t, b.AddClient(t.Context(), client(id)), store.ErrTaken)
		must(t, b.RemoveClient(t.Context(), id, revocation(id)))
		_, err := a.Client(t.Context(), id)
		mustBe(t, err, store.ErrNotFound)
	}
	oneWinner(t, race(racers, func(i int) error {
		if i%2 == 0 {
			return a.AddClient(t.Context(), client("raced"))
		}
		return b.AddClient(t.Context(), client("raced"))
	}), store.ErrTaken)
	if got := recorded(t, a); len(got) != 8 {
		t.Errorf("the neighbour sees %d revocations, want 8", len(got))
	}
}
