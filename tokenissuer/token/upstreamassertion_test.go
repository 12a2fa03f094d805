package token

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestG94AnAssertionEndsWithItsToken: an assertion with a lifetime of a minute does not outlive the client's token.
func TestG94AnAssertionEndsWithItsToken(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	for name, test := range map[string]struct{ left, want time.Duration }{
		"a long token":            {time.Hour, AssertionLifetime},
		"one that ends in 20 s":   {20 * time.Second, 20 * time.Second},
		"one in its leeway":       {-3 * time.Second, store.Leeway},
		"one whose end is untold": {0, AssertionLifetime},
	} {
		source := &AccessToken{ExpiresAt: now.Add(test.left)}
		if test.left == 0 {
			source.ExpiresAt = time.Time{}
		}
		if got := assertionEnd(source, now).Sub(now); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
