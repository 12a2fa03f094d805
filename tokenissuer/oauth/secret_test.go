package oauth

import (
	"strings"
	"testing"
)

// TestK12IdsAreUniqueAndUnbiased: ids and secrets → crypto/rand, unique, unbiased.
func TestK12IdsAreUniqueAndUnbiased(t *testing.T) {
	const ids = 100_000
	seen := make(map[string]bool, ids)
	var counts [256]int
	for range ids {
		id := NewID()
		if len(id) != IDLength || seen[id] {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
		for i := range len(id) {
			counts[id[i]]++
		}
	}
	expected := float64(ids*IDLength) / 62
	var chi float64
	letters := 0
	for c, n := range counts {
		if n == 0 {
			continue
		}
		letters++
		if !strings.ContainsRune(Base62, rune(c)) {
			t.Errorf("%q is not base62", rune(c))
		}
		chi += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	// 61 degrees of freedom: mean 61, standard deviation 11. A modulo bias of 256 over 62 would give tens of thousands.
	if letters != 62 || chi > 150 {
		t.Errorf("%d letters, chi-square %.1f", letters, chi)
	}
	t.Logf("chi-square %.1f", chi)
	if secret := NewClientSecret().Reveal(); len(secret) != secretLength {
		t.Errorf("a secret has %d characters", len(secret))
	}
}
