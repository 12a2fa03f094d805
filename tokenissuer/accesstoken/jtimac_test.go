package accesstoken

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// counting is an Admission that counts.
func counting(n *int) Admission {
	return func() (func(bool), error) {
		*n++
		return func(bool) {}, nil
	}
}

// altered returns the token with another character at that place.
func altered(token string, at int) string {
	other := "A"
	if token[at] == 'A' {
		other = "Q" // differs in the bits that end a part, too
	}
	return token[:at] + other + token[at+1:]
}

// TestEveryChangedCharacterIsRefused, and before the signature none of them costs a verification.
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

// TestAMACAcceptsNothing: whoever could make MACs still could make no tokens.
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

// TestMACsOfOthersAreRefused: those of another master key, of another token, and none.
func TestMACsOfOthersAreRefused(t *testing.T) {
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
	if x := g.verifier.Explain(token, g.audiences); !x.Accepted || x.Findings[0].Outcome != CheckPassed || x.Findings[0].Note != "" {
		t.Errorf("explained as %+v", x)
	}
}

// TestChangedSignaturesOfAGenuineToken: leave is asked before each is verified, however many there are, and they do not harm the
// good one, which a node has not seen before, or has issued.
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

// masterKeys is a store that holds a master key of before MACs, and may be read-only.
type masterKeys struct {
	*sqlstore.Store
	write error
}

func (s *masterKeys) ReplaceSigningKeys(ctx context.Context, changes ...store.KeyChange) (bool, error) {
	if s.write != nil {
		return false, s.write
	}
	return s.Store.ReplaceSigningKeys(ctx, changes...)
}

// TestUpgradeToMACs: beside nodes of an older build, and after them, until the last of their tokens has expired.
func TestUpgradeToMACs(t *testing.T) {
	const upgradeTime = 7 * 24 * time.Hour // within which all nodes make MACs
	st := &masterKeys{Store: teststore.New(t), write: errors.New("read only")}
	old := store.StoredKey{ID: "master", Algorithm: "HKDF-SHA256", Private: bytes.Repeat([]byte{7}, 32), CreatedAt: tokentest.Start.AddDate(-1, 0, 0)}
	if err := st.AddFirstSigningKey(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	off := loadMaster(t, st, tokentest.Start)
	if NewJTIMAC(off).required(tokentest.Start.AddDate(50, 0, 0)) {
		t.Error("MACs are required though nobody has noted since when there are any")
	}
	st.write = nil
	if early := loadMaster(t, st, tokentest.Start.AddDate(-2, 0, 0)); NewJTIMAC(early).required(tokentest.Start.AddDate(50, 0, 0)) {
		t.Error("a clock that stood before the master key's birth says since when there are MACs")
	}
	first := NewJTIMAC(loadMaster(t, st, tokentest.Start))
	second := NewJTIMAC(loadMaster(t, st, tokentest.Start.AddDate(0, 0, 20))) // another node, or a restart
	if !first.requiredFrom.Equal(second.requiredFrom) {
		t.Errorf("required from %v and from %v", first.requiredFrom, second.requiredFrom)
	}
	older, g := newGate(t), newGate(t)
	older.Clock, older.revocations, g.macs = g.Clock, g.revocations, first
	g.wait(upgradeTime - time.Minute)
	untagged := older.good("exp", strconv.FormatInt(g.Now().Add(store.MaxLifetime).Unix(), 10)) // with the longest life
	tagged, _ := g.issue(t, oauth.ES256)
	if _, err := older.another().Verify(tagged, g.audiences); err != nil {
		t.Errorf("an older node refuses what a new one has signed: %v", err)
	}
	for _, wait := range []time.Duration{0, store.MaxLifetime - time.Hour} {
		g.wait(wait)
		if _, err := g.another().Verify(untagged, g.audiences); err != nil {
			t.Errorf("what an older node has signed is refused after %v: %v", wait, err)
		}
	}
	g.wait(2*time.Hour + store.Leeway)
	got, err := g.another().Verify(g.good(), g.audiences)
	tokentest.WantRefusal(t, got, err, "tag_wrong")
}

// TestMACsOfANewStore are required at once, after a restart too, and whoever writes to the store.
func TestMACsOfANewStore(t *testing.T) {
	st := teststore.New(t)
	for _, at := range []time.Time{tokentest.Start, tokentest.Start.AddDate(1, 0, 0)} {
		if macs := NewJTIMAC(loadMaster(t, st, at)); !macs.requiredFrom.Equal(tokentest.Start) || !macs.required(tokentest.Start) {
			t.Errorf("required from %v", macs.requiredFrom)
		}
	}
}

func loadMaster(tb testing.TB, st store.KeyStore, now time.Time) *keys.MasterKey {
	tb.Helper()
	master, err := keys.LoadMasterKey(tb.Context(), st, nil, now)
	if err != nil {
		tb.Fatal(err)
	}
	return master
}

// FuzzJTIMAC: no header and no claims pass but those that were signed, wherever a MAC stands in them.
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
