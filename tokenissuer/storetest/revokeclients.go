package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// inTheSameStep watches a client while end runs. Once the client looks ended its revocation must be in the feed.
func inTheSameStep(t *testing.T, s store.Store, end func(id string) error, ended func(*store.Client, error) bool) {
	t.Helper()
	for round := range 8 {
		id := fmt.Sprint("app ", round)
		must(t, s.Clients.AddClient(t.Context(), client(id)))
		oneStep(t, s, []string{"client " + id}, func() error { return end(id) },
			func() (bool, error) { return ended(s.Clients.Client(t.Context(), id)), nil }, func() error { return nil })
	}
}

var revokeClientChecks = []check{
	// The next read returns a disabled client, and EnableClient undoes it. The tokens stay revoked.
	{name: "DisableAndEnable", test: func(t *testing.T, s store.Store) {
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		must(t, s.Clients.AddClient(t.Context(), client("other")))
		want := client("app")

		must(t, s.Clients.ChangeClient(t.Context(), "app", store.DisableClient(revocation("app"))))
		want.Disabled = true
		wantClients(t, s.Clients, want)
		revoked := recorded(t, s.Revocations)
		wantSize(t, revoked, 1)
		same(t, revoked["client app"], revocation("app"))
		wantClients(t, s.Clients, client("other"))

		must(t, s.Clients.ChangeClient(t.Context(), "app", store.EnableClient()))
		want.Disabled = false
		wantClients(t, s.Clients, want)
		same(t, recorded(t, s.Revocations)["client app"], revocation("app"))
		must(t, s.Clients.ChangeClient(t.Context(), "app", store.EnableClient())) // enabled already
	}},
	// Disabling again can widen the revocation, as Revoke does, and never narrows it.
	{name: "DisableWidens", test: func(t *testing.T, s store.Store) {
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		first := revocation("app")
		must(t, s.Clients.ChangeClient(t.Context(), "app", store.DisableClient(first)))
		earlier := first
		earlier.IssuedUntil, earlier.ExpiresAt = first.IssuedUntil.Add(-time.Hour), first.ExpiresAt.Add(-time.Hour)
		must(t, s.Clients.ChangeClient(t.Context(), "app", store.DisableClient(earlier)))
		same(t, recorded(t, s.Revocations)["client app"], first)
		later := first
		later.IssuedUntil, later.ExpiresAt = first.IssuedUntil.Add(time.Hour), first.ExpiresAt.Add(time.Hour)
		must(t, s.Clients.RemoveClient(t.Context(), "app", later))
		same(t, recorded(t, s.Revocations)["client app"], later)
	}},
	{name: "DisableRevokesInTheSameStep", races: func(t *testing.T, s store.Store) {
		inTheSameStep(t, s,
			func(id string) error {
				return s.Clients.ChangeClient(t.Context(), id, store.DisableClient(revocation(id)))
			},
			func(c *store.Client, err error) bool { return err != nil || c.Disabled })
	}},
	// No read returns the client, and its tokens are revoked.
	{name: "Remove", test: func(t *testing.T, s store.Store) {
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		must(t, s.Clients.AddClient(t.Context(), client("other")))
		must(t, s.Clients.RemoveClient(t.Context(), "app", revocation("app")))
		mustBe(t, errOf(s.Clients.Client(t.Context(), "app")), store.ErrNotFound)
		list := ok(s.Clients.Clients(t.Context()))(t)
		if len(list) != 1 || list[0].ID != "other" {
			t.Errorf("%d clients are listed, want the other one alone", len(list))
		}
		same(t, recorded(t, s.Revocations)["client app"], revocation("app"))
		mustBe(t, s.Clients.ChangeClient(t.Context(), "app", store.DisableClient(revocation("app"))), store.ErrNotFound)
		mustBe(t, s.Clients.ChangeClient(t.Context(), "app", store.EnableClient()), store.ErrNotFound)
		mustBe(t, s.Clients.ChangeClient(t.Context(), "app", store.RotateSecret(secret("s", now), now)), store.ErrNotFound)
	}},
	// Of concurrent removals one finds the client.
	{name: "RemoveOnce", races: func(t *testing.T, s store.Store) {
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		oneWinner(t, race(racers, func(int) error {
			return s.Clients.RemoveClient(t.Context(), "app", revocation("app"))
		}), store.ErrNotFound)
	}},
	{name: "RemoveRevokesInTheSameStep", races: func(t *testing.T, s store.Store) {
		inTheSameStep(t, s,
			func(id string) error { return s.Clients.RemoveClient(t.Context(), id, revocation(id)) },
			func(_ *store.Client, err error) bool { return err != nil })
	}},
	// A client is removed while its secret is being rotated, and nothing is left of it. Later rotations find no client.
	{name: "RemoveBesideRotations", races: func(t *testing.T, s store.Store) {
		for round := range 3 {
			id := fmt.Sprint("app ", round)
			must(t, s.Clients.AddClient(t.Context(), client(id)))
			for i, err := range race(racers, func(i int) error {
				if i == racers/2 {
					return s.Clients.RemoveClient(t.Context(), id, revocation(id))
				}
				return s.Clients.ChangeClient(t.Context(), id, store.RotateSecret(secret(fmt.Sprint(i), now), now.Add(time.Hour)))
			}) {
				if err != nil && (i == racers/2 || !errors.Is(err, store.ErrNotFound)) {
					t.Fatalf("round %d, caller %d: %v", round, i, err)
				}
			}
			mustBe(t, errOf(s.Clients.Client(t.Context(), id)), store.ErrNotFound)
		}
	}},
}
