package token

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// counting returns an Admission that counts its calls.
func counting(n *int) Admission {
	return func() (func(), error) {
		*n++
		return func() {}, nil
	}
}

// altered returns the token with a different character at that index.
func altered(token string, at int) string {
	other := "A"
	if token[at] == 'A' {
		other = "Q" // differs in the unused bits at the end of a part, too
	}
	return token[:at] + other + token[at+1:]
}

// TestEveryChangedCharacterIsRefused checks that a change of any character is refused, and that a change before the
// signature costs no verification.
func TestEveryChangedCharacterIsRefused(t *testing.T) {
	for _, algorithm := range testkeys.Algorithms {
		g := newMACGate(t)
		token, _ := g.issue(t, algorithm)
		v, signature := g.another(), strings.LastIndexByte(token, '.')+1
		for at := range token {
			verified := 0
			got, err := v.VerifyAdmitted(altered(token, at), g.audiences, counting(&verified))
			if err == nil || got != nil || oauth.AsError(err).Code != oauth.InvalidToken {
				t.Fatalf("%s: accepted with another character at %d: %v", algorithm, at, err)
			}
			if verified > 0 && at < signature {
				t.Errorf("%s: a signature was verified with another character at %d", algorithm, at)
			}
			if reason := oauth.AsError(err).Reason; token[at] != '.' && at < signature && reason != "tag_wrong" {
				t.Errorf("%s: another character at %d is %s", algorithm, at, reason)
			}
		}
		if _, err := v.Verify(token, g.audiences); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
}

// TestAMACAcceptsNothing: a valid MAC does not make a forged token valid.
func TestAMACAcceptsNothing(t *testing.T) {
	g := newMACGate(t)
	claims := g.claims("jti", "")
	claims = claimsOpening + oauth.NewID() + macPlaceholder + `",` + claims[1:]
	for _, algorithm := range testkeys.Algorithms {
		ours := g.signing[algorithm]
		unsigned := ours.Unsigned([]byte(claims))
		g.macs.insert(unsigned)
		forged := testkeys.SignInput(testkeys.Foreign()[algorithm], string(unsigned))
		for range 3 {
			got, err := g.verifier.Verify(forged, g.audiences)
			tokentest.WantRefusal(t, got, err, "signature_wrong")
		}
		good, err := ours.Finish(unsigned)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.verifier.Verify(good, g.audiences); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
}

// TestG34ForgedTokensFallAtTheirTag: a token that this issuer never issued → refused by its tag before the signature is verified.
func TestG34ForgedTokensFallAtTheirTag(t *testing.T) {
	g, other := newMACGate(t), newMACGate(t)
	other.macs = NewJTIMAC(testkeys.Master(t, 8, tokentest.Start))
	token, _ := g.issue(t, oauth.ES256)
	second, _ := g.issue(t, oauth.ES256)
	foreign, _ := other.issue(t, oauth.ES256)
	at := strings.IndexByte(token, '.') + 1 + macStart
	for name, bad := range map[string]string{
		"another master key's":  foreign,
		"another token's":       token[:at] + second[at:at+macSpan] + token[at+macSpan:],
		"none":                  g.good(),
		"a short jti":           g.good("jti", `"t"`),
		"no claims to speak of": testkeys.Sign(g.signing[oauth.ES256], testkeys.Header(g.signing[oauth.ES256]), "{}"),
	} {
		verified := 0
		got, err := g.verifier.VerifyAdmitted(bad, g.audiences, counting(&verified))
		if tokentest.WantRefusal(t, got, err, "tag_wrong"); verified > 0 {
			t.Errorf("%s: a signature was verified", name)
		}
		x := g.verifier.Explain(bad, g.audiences)
		if x.Accepted || x.Findings[0].Check != "tag" || x.Findings[0].Reason != "tag_wrong" {
			t.Errorf("%s: explained as %+v", name, x)
		}
	}
	if x := g.verifier.Explain(token, g.audiences); !x.Accepted || x.Findings[0].Outcome != CheckPassed {
		t.Errorf("explained as %+v", x)
	}
}

// TestChangedSignaturesOfAGenuineToken: admission is requested before each verification, however many there are. They
// do not affect the good token, whether a node has not seen it before or has issued it.
func TestChangedSignaturesOfAGenuineToken(t *testing.T) {
	for _, algorithm := range testkeys.Algorithms {
		g := newMACGate(t)
		token, claims := g.issue(t, algorithm)
		g.verifier.Remember(token, claims)
		start := strings.LastIndexByte(token, '.') + 1
		for name, v := range map[string]*Verifier{"issued here": g.verifier, "not seen before": g.another()} {
			verified, shown := 0, 0
			for i := range 100 {
				bad := token[:start] + fmt.Sprintf("%05d", i) + token[start+5:]
				if bad == token {
					continue
				}
				shown++
				if _, err := v.VerifyAdmitted(bad, g.audiences, counting(&verified)); oauth.AsError(err).Reason != "signature_wrong" {
					t.Fatalf("%s, %s: %v", algorithm, name, err)
				}
			}
			if verified != shown {
				t.Errorf("%s, %s: leave was asked for %d signatures of %d", algorithm, name, verified, shown)
			}
			v.cache.drop(oauth.DigestOf(token))
			if _, err := v.Verify(token, g.audiences); err != nil {
				t.Errorf("%s, %s: the good one is refused: %v", algorithm, name, err)
			}
		}
	}
}

// FuzzJTIMAC: only the signed header and claims pass, wherever a MAC occurs in them.
func FuzzJTIMAC(f *testing.F) {
	macs := NewJTIMAC(testkeys.Master(f, 7, tokentest.Start))
	key := testkeys.Fixed(f)[oauth.ES256]
	genuineClaims := []byte(claimsOpening + strings.Repeat("a", oauth.IDLength) + macPlaceholder + `","iss":"` + tokentest.Issuer + `"}`)
	unsigned := key.Unsigned(genuineClaims)
	tag := macs.insert(unsigned)
	genuine := string(unsigned)
	genuineHeader, _, _ := strings.Cut(genuine, ".")
	payload := strings.Replace(string(genuineClaims), macPlaceholder, tag, 1)
	jti := strings.Repeat("a", oauth.IDLength)
	f.Add(genuineHeader, []byte(payload))
	for _, claims := range []string{
		`{"jti":"` + jti + tag + `","jti":"` + jti + tag + `","iss":"` + tokentest.Issuer + `"}`,
		`{"jti":"` + jti + tag + `","iss":"` + tokentest.Issuer + `","x":"` + tag + `"}`,
		`{"x":"` + tag + `","jti":"` + jti + tag + `","iss":"` + tokentest.Issuer + `"}`,
		`{ "jti":"` + jti + tag + `","iss":"` + tokentest.Issuer + `"}`,
		`{"jti":"` + jti + tag + tag + `","iss":"` + tokentest.Issuer + `"}`,
		tag, jti + tag, "", "{}",
	} {
		f.Add(genuineHeader, []byte(claims))
		f.Add(genuineHeader+"."+genuineHeader, []byte(claims))
		f.Add("", []byte(claims))
	}
	f.Fuzz(func(t *testing.T, header string, claims []byte) {
		signed := header + "." + tokentest.Encode(string(claims))
		if ok := macs.check(signed + ".c2ln"); ok != (signed == genuine) {
			t.Errorf("%q, %q: %v", header, claims, ok)
		}
		macs.check(header)
		macs.check(string(claims))
	})
}
