package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// secret returns a secret created at the given time that does not expire.
func secret(name string, made time.Time) store.ClientSecret {
	return store.ClientSecret{Digest: digest(name), CreatedAt: made}
}

func ending(s store.ClientSecret, at time.Time) store.ClientSecret {
	s.ExpiresAt = at
	return s
}

// addWithSecrets registers the client "app" with exactly these secrets.
func addWithSecrets(t *testing.T, s store.Store, secrets ...store.ClientSecret) {
	t.Helper()
	c := client("app")
	c.Secrets = secrets
	must(t, s.Clients.AddClient(t.Context(), c))
}

var secretChecks = []check{
	// The new secret has no end, every older one ends at othersUntil, and one that had ended when the new one was created is deleted.
	{name: "RotateEndsOlderSecrets", test: func(t *testing.T, s store.Store) {
		a, b, c := secret("a", now), secret("b", now.Add(time.Hour)), secret("c", now.Add(3*time.Hour))
		addWithSecrets(t, s, a)
		overlap := now.Add(2 * time.Hour)
		must(t, s.Clients.ChangeClient(t.Context(), "app", store.RotateSecret(b, overlap)))
		same(t, read(t, s.Clients, "app").Secrets, []store.ClientSecret{ending(a, overlap), b})

		must(t, s.Clients.ChangeClient(t.Context(), "app", store.RotateSecret(c, now.Add(4*time.Hour))))
		same(t, read(t, s.Clients, "app").Secrets, []store.ClientSecret{ending(b, now.Add(4*time.Hour)), c})
	}},
	// An older secret that ends before othersUntil keeps its end and is not deleted.
	{name: "RotateNeverProlongs", test: func(t *testing.T, s store.Store) {
		soon, later := ending(secret("soon", now), now.Add(time.Minute)), ending(secret("later", now), now.Add(time.Hour))
		addWithSecrets(t, s, soon, later)
		fresh := secret("fresh", now)
		must(t, s.Clients.ChangeClient(t.Context(), "app", store.RotateSecret(fresh, now.Add(30*time.Minute))))
		same(t, read(t, s.Clients, "app").Secrets,
			[]store.ClientSecret{soon, ending(later, now.Add(30*time.Minute)), fresh})
	}},
	// Without an overlap only the new secret is left.
	{name: "RotateAtOnce", test: func(t *testing.T, s store.Store) {
		addWithSecrets(t, s, secret("a", now.Add(-time.Hour)), secret("b", now.Add(-time.Hour)))
		fresh := secret("fresh", now)
		must(t, s.Clients.ChangeClient(t.Context(), "app", store.RotateSecret(fresh, now)))
		same(t, read(t, s.Clients, "app").Secrets, []store.ClientSecret{fresh})
	}},
	// A zero othersUntil means no end, as in ClientSecret.ExpiresAt.
	{name: "RotateWithoutEnd", test: func(t *testing.T, s store.Store) {
		a, b := secret("a", now), ending(secret("b", now), now.Add(time.Hour))
		addWithSecrets(t, s, a, b)
		fresh := secret("fresh", now)
		must(t, s.Clients.ChangeClient(t.Context(), "app", store.RotateSecret(fresh, time.Time{})))
		same(t, read(t, s.Clients, "app").Secrets, []store.ClientSecret{a, b, fresh})
	}},
	// A rotation changes only the secrets of the client that it names.
	{name: "RotateOneClientOnly", test: func(t *testing.T, s store.Store) {
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		must(t, s.Clients.AddClient(t.Context(), client("App")))
		must(t, s.Clients.ChangeClient(t.Context(), "app", store.RotateSecret(secret("fresh", now), now)))
		wantClients(t, s.Clients, client("App"))
		want := client("app")
		want.Secrets = []store.ClientSecret{secret("fresh", now)}
		wantClients(t, s.Clients, want)
	}},
	// Rotations are serialized. None loses another's secret, and only the last one's has no end.
	{name: "RotateInARace", races: func(t *testing.T, s store.Store) {
		addWithSecrets(t, s, secret("0", now))
		overlap := now.Add(time.Hour)
		all(t, racers, func(i int) error {
			return s.Clients.ChangeClient(t.Context(), "app", store.RotateSecret(secret(fmt.Sprint(i+1), now), overlap))
		})
		secrets := read(t, s.Clients, "app").Secrets
		wantSize(t, secrets, racers+1)
		for i := range racers + 1 {
			if !slices.ContainsFunc(secrets, func(s store.ClientSecret) bool { return s.Digest == digest(fmt.Sprint(i)) }) {
				t.Errorf("secret %d is lost", i)
			}
		}
		endless := 0
		for _, s := range secrets {
			if s.ExpiresAt.IsZero() {
				endless++
			} else if !sameTime(s.ExpiresAt, overlap) {
				t.Errorf("a secret ends at %v, want %v", s.ExpiresAt, overlap)
			}
		}
		if endless != 1 {
			t.Errorf("%d secrets have no end, want one: that of the last rotation", endless)
		}
	}},
}
