package oauth

import (
	"strings"
	"testing"
)

// TestTheVectorOfRFC7636: appendix B.
func TestTheVectorOfRFC7636(t *testing.T) {
	const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	if !VerifierMatches(NewSecret(verifier), challenge) || !IsChallenge(challenge) {
		t.Error("the vector is refused")
	}
	for _, wrong := range []string{"", verifier + "A", "A" + verifier[1:], challenge} {
		if VerifierMatches(NewSecret(wrong), challenge) {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if VerifierMatches(NewSecret(verifier), verifier) || VerifierMatches(Secret{}, "") || VerifierMatches(NewSecret(verifier), "") {
		t.Error("plain, or nothing, is accepted")
	}
	for _, wrong := range []string{"", challenge[:42], challenge + "A", challenge + "=", challenge[:42] + "N", challenge[:42] + "+", challenge[:41] + "\n\n", strings.Repeat("A", 42) + "\n", "\r" + challenge[:42]} {
		if IsChallenge(wrong) {
			t.Errorf("%q is a challenge", wrong)
		}
	}
}
