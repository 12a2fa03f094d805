package token

import (
	"testing"
)

// countSignatures counts the signature verifications until the test ends.
func countSignatures(t *testing.T) *int {
	t.Helper()
	counted := new(int)
	for i := range verificationSteps {
		if verificationSteps[i].name != "signature" {
			continue
		}
		look := verificationSteps[i].run
		verificationSteps[i].run = func(c *unverifiedToken) error {
			*counted++
			return look(c)
		}
		t.Cleanup(func() { verificationSteps[i].run = look })
		return counted
	}
	t.Fatal("there is no step that looks at signatures")
	return nil
}

// TestG80OnlyASignatureCostsCryptography: of the bad tokens in a flood, only one that names a key of ours and has
// every required claim costs a signature verification. All others cost none, in particular those with an unknown key.
func TestG80OnlyASignatureCostsCryptography(t *testing.T) {
	looks := countSignatures(t)
	g := newGate(t)
	for name, token := range g.hostile() {
		t.Run(name, func(t *testing.T) {
			want := 0
			if name == "Signature" {
				want = 1
			}
			*looks = 0
			if _, err := g.verifier.Verify(token, g.audiences); err == nil {
				t.Error("accepted")
			}
			if *looks != want {
				t.Errorf("%d looks at a signature, want %d", *looks, want)
			}
		})
	}
	t.Run("good, and again", func(t *testing.T) {
		*looks = 0
		token := g.good()
		for range 2 {
			if _, err := g.verifier.Verify(token, g.audiences); err != nil {
				t.Error(err)
			}
		}
		if *looks != 1 {
			t.Errorf("%d looks at a signature, want 1", *looks)
		}
	})
}

// TestG80ARefusalCostsLittleMemory: a refusal takes about a kilobyte, which is freed with the request.
func TestG80ARefusalCostsLittleMemory(t *testing.T) {
	g := newGate(t)
	for name, token := range g.hostile() {
		if n := allocatedBytes(func() { _, _ = g.verifier.Verify(token, g.audiences) }); n > 16<<10 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}
