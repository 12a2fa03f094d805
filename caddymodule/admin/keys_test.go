package admin

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestTheNextKeyIsThePublishedOne: a key is due when a published one of its algorithm begins to sign, and otherwise at the end of the interval.
func TestTheNextKeyIsThePublishedOne(t *testing.T) {
	begun := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	key := func(algorithm oauth.Algorithm, state keys.State, after time.Duration) keys.ListedKey {
		return keys.ListedKey{StoredKey: store.StoredKey{Algorithm: algorithm, ActiveFrom: begun.Add(after)}, State: state}
	}
	signing := key(oauth.EdDSA, keys.StateSigning, 0)
	for name, test := range map[string]struct {
		rotation time.Duration
		others   []keys.ListedKey
		want     time.Time
	}{
		"alone":                         {30 * store.Day, nil, begun.Add(30 * store.Day)},
		"alone, and operators rotate":   {0, nil, time.Time{}},
		"beside a published one":        {30 * store.Day, []keys.ListedKey{key(oauth.EdDSA, keys.StatePublished, time.Hour)}, begun.Add(time.Hour)},
		"the same, and operators":       {0, []keys.ListedKey{key(oauth.EdDSA, keys.StatePublished, time.Hour)}, begun.Add(time.Hour)},
		"beside two":                    {0, []keys.ListedKey{key(oauth.EdDSA, keys.StatePublished, 2*time.Hour), key(oauth.EdDSA, keys.StatePublished, time.Hour)}, begun.Add(time.Hour)},
		"beside one of another kind":    {0, []keys.ListedKey{key(oauth.RS256, keys.StatePublished, time.Hour)}, time.Time{}},
		"beside a revoked and a former": {0, []keys.ListedKey{key(oauth.EdDSA, keys.StateRevoked, time.Hour), key(oauth.EdDSA, keys.StateSuperseded, -time.Hour)}, time.Time{}},
	} {
		if due := dueAt(signing, append([]keys.ListedKey{signing}, test.others...), test.rotation); !due.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, due, test.want)
		}
	}
}
