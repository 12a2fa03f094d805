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

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// taggingAuthority is an Issuer all of whose living tokens have tags.
func taggingAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := assertingAuthority(tb)
	a.JTIMAC.requiredFrom = testStart
	a.verifier = a.fresh()
	a.Verifier = a.verifier
	return a
}

// fresh returns a Verifier that knows no token yet, and the tags.
func (a *authority) fresh() *Verifier {
	v := a.another()
	v.UseJTIMAC(a.JTIMAC)
	return v
}

// issue makes a good token with a key of the algorithm.
func (a *authority) issue(tb testing.TB, algorithm oauth.Algorithm) string {
	tb.Helper()
	if err := a.keySetState.Replace([]*keys.SigningKey{a.signing[oauth.RS256], a.signing[oauth.EdDSA], a.signing[oauth.ES256]}, algorithm); err != nil {
		tb.Fatal(err)
	}
	tokens, err := a.Issue(tokenissuer.Grant{Type: oauth.ClientCredentials, Client: a.client("conf"), Scopes: oauth.Scopes{oauth.ScopePublic}})
	if err != nil {
		tb.Fatal(err)
	}
	return tokens.AccessToken.Reveal()
}

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

func wantReason(tb testing.TB, err error, reason string) {
	tb.Helper()
	if err == nil || oauth.AsError(err).Code != oauth.InvalidToken || oauth.AsError(err).Reason != reason {
		tb.Fatalf("got %v, want %s", err, reason)
	}
}

// TestEveryChangedCharacterIsRefused, and before the signature none of them costs a verification.
func TestEveryChangedCharacterIsRefused(t *testing.T) {
	for _, algorithm := range allAlgorithms {
		a := taggingAuthority(t)
		token := a.issue(t, algorithm)
		v, signature := a.fresh(), strings.LastIndexByte(token, '.')+1
		for at := range token {
			verified := 0
			got, err := v.VerifyAdmitted(altered(token, at), a.audiences, counting(&verified))
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
		if _, err := v.Verify(token, a.audiences); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
}

// TestATagAcceptsNothing: whoever could make tags still could make no tokens.
func TestATagAcceptsNothing(t *testing.T) {
	a := taggingAuthority(t)
	claims := a.claims("jti", "")
	claims = claimsOpening + oauth.NewID() + untaggedEnd + `",` + claims[1:]
	for _, algorithm := range allAlgorithms {
		ours, stranger := a.signing[algorithm], *foreignKeys()[algorithm]
		stranger.header = ours.header
		unsigned := stranger.Unsigned([]byte(claims))
		a.JTIMAC.put(unsigned)
		token, err := stranger.Finish(bytes.Clone(unsigned))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			_, err = a.verifier.Verify(token, a.audiences)
			wantReason(t, err, "signature_wrong")
		}
		good, err := ours.Finish(unsigned)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.verifier.Verify(good, a.audiences); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
}

// TestTagsOfOthersAreRefused: those of another master key, of another token, and none.
func TestTagsOfOthersAreRefused(t *testing.T) {
	a, other := taggingAuthority(t), taggingAuthority(t)
	secret := bytes.Repeat([]byte{8}, keys.masterKeyBytes)
	var err error
	if other.Master, err = keys.newMasterKey(secret); err != nil {
		t.Fatal(err)
	}
	other.JTIMAC = NewJTIMAC(other.Master)
	token, foreign := a.issue(t, oauth.ES256), other.issue(t, oauth.ES256)
	second := a.issue(t, oauth.ES256)
	at := strings.IndexByte(token, '.') + 1 + tagStart
	for name, bad := range map[string]string{
		"another master key's":  foreign,
		"another token's":       token[:at] + second[at:at+tagSpan] + token[at+tagSpan:],
		"none":                  a.good(),
		"a short jti":           a.good("jti", `"t"`),
		"no claims to speak of": forge(a.signing[oauth.ES256], header(a.signing[oauth.ES256]), "{}"),
	} {
		verified := 0
		_, err := a.verifier.VerifyAdmitted(bad, a.audiences, counting(&verified))
		if wantReason(t, err, "tag_wrong"); verified > 0 {
			t.Errorf("%s: a signature was verified", name)
		}
		x := a.verifier.Explain(bad, a.audiences)
		if x.Accepted || x.Findings[0].Check != "tag" || x.Findings[0].Reason != "tag_wrong" {
			t.Errorf("%s: explained as %+v", name, x)
		}
	}
	if x := a.verifier.Explain(token, a.audiences); !x.Accepted || x.Findings[0].Outcome != CheckPassed || x.Findings[0].Note != "" {
		t.Errorf("explained as %+v", x)
	}
}

// TestEverythingThatIsIssuedHasATag.
func TestEverythingThatIsIssuedHasATag(t *testing.T) {
	a := taggingAuthority(t)
	user := &store.User{ID: "u-ada", Organisation: "acme", Role: store.RoleAdmin}
	for _, g := range []tokenissuer.Grant{
		{Type: oauth.ClientCredentials, Client: a.client("conf"), Scopes: oauth.Scopes{oauth.ScopePublic}},
		{Type: oauth.AuthorizationCode, Client: a.client("conf"), Scopes: oauth.Scopes{oauth.ScopePublic}, User: user, FamilyID: "family-1"},
		{Type: store.AdminCreated, Client: a.client("pub"), User: user, FamilyID: "family-2", Actor: store.Actor{Subject: "u-eve", ClientID: "portal"}},
		{Type: store.BrowserSession, Client: a.ownClient(), User: user, FamilyID: "family-3", consume: func() error { return nil }},
	} {
		tokens, err := a.Issue(g)
		if err != nil {
			t.Fatal(err)
		}
		read, err := a.fresh().Verify(tokens.AccessToken.Reveal(), a.audiences)
		if err != nil || read.ID != tokens.Claims.ID || len(read.ID) != oauth.IDLength+tagLength || strings.HasSuffix(read.ID, untaggedEnd) {
			t.Errorf("%s: read as %+v, %v; issued as %+v", g.Type, read, err, tokens.Claims)
		}
		if _, err := a.fresh().Verify(a.swapped(t, tokens.Claims), []string{ordersAudience}); err != nil {
			t.Errorf("%s, swapped: %v", g.Type, err)
		}
	}
}

// TestChangedSignaturesOfAGenuineToken: leave is asked before each is verified, however many there are, and they do not harm the
// good one, which a node has not seen before, or has issued.
func TestChangedSignaturesOfAGenuineToken(t *testing.T) {
	for _, algorithm := range allAlgorithms {
		a := taggingAuthority(t)
		token := a.issue(t, algorithm)
		start := strings.LastIndexByte(token, '.') + 1
		for name, v := range map[string]*Verifier{"issued here": a.verifier, "not seen before": a.fresh()} {
			verified, shown := 0, 0
			for i := range 100 {
				bad := token[:start] + fmt.Sprintf("%05d", i) + token[start+5:]
				if bad == token {
					continue
				}
				shown++
				if _, err := v.VerifyAdmitted(bad, a.audiences, counting(&verified)); oauth.AsError(err).Reason != "signature_wrong" {
					t.Fatalf("%s, %s: %v", algorithm, name, err)
				}
			}
			if verified != shown {
				t.Errorf("%s, %s: leave was asked for %d signatures of %d", algorithm, name, verified, shown)
			}
			v.cache.drop(oauth.DigestOf(token))
			if _, err := v.Verify(token, a.audiences); err != nil {
				t.Errorf("%s, %s: the good one is refused: %v", algorithm, name, err)
			}
		}
	}
}

// TestOneSignatureOverOneText: signing draws no randomness, so that a weak source of it gives no key away (RFC 6979).
func TestOneSignatureOverOneText(t *testing.T) {
	for algorithm, key := range sharedKeys() {
		first, err1 := key.Sign([]byte("{}"))
		second, err2 := key.Sign([]byte("{}"))
		if err := errors.Join(err1, err2); err != nil || first != second {
			t.Errorf("%s: %s and %s, %v", algorithm, first, second, err)
		}
	}
}

// TestUpgradeToTags: beside nodes of an older build, and after them, until the last of their tokens has expired.
func TestUpgradeToTags(t *testing.T) {
	st := new(fakeKeys)
	secret := bytes.Repeat([]byte{7}, keys.masterKeyBytes)
	st.keySetState = []store.StoredKey{{ID: "master", Algorithm: keys.masterAlgorithm, Private: secret, CreatedAt: testStart.AddDate(-1, 0, 0)}}
	st.write = errors.New("read only")
	off := loadMaster(t, st, testStart)
	if NewJTIMAC(off).areRequired(testStart.AddDate(50, 0, 0)) {
		t.Error("tags are required though nobody has noted since when there are any")
	}
	st.write = nil
	if early := loadMaster(t, st, testStart.AddDate(-2, 0, 0)); NewJTIMAC(early).areRequired(testStart.AddDate(50, 0, 0)) {
		t.Error("a clock that stood before the master key's birth says since when there are tags")
	}
	first := loadMaster(t, st, testStart)
	second := loadMaster(t, st, testStart.AddDate(0, 0, 20)) // another node, or a restart
	if !first.jtiMACRequiredFrom.Equal(second.jtiMACRequiredFrom) {
		t.Errorf("required from %v and from %v", first.jtiMACRequiredFrom, second.jtiMACRequiredFrom)
	}
	a := newAuthority(t)
	a.Master, a.JTIMAC = first, NewJTIMAC(first)
	a.verifier.UseJTIMAC(a.JTIMAC)
	a.wait(keys.upgradeTime - time.Minute)
	if err := a.keySetState.Replace([]*keys.SigningKey{a.signing[oauth.ES256]}, oauth.ES256); err != nil {
		t.Fatal(err)
	}
	lasting := func(g *gate) string { // as an older build signs it, with the longest life
		from := g.Now()
		return g.good("exp", strconv.FormatInt(from.Add(store.MaxLifetime).Unix(), 10))
	}
	untagged, tagged := lasting(a.gate), a.issue(t, oauth.ES256)
	if _, err := a.another().Verify(tagged, a.audiences); err != nil { // an older build
		t.Errorf("an older node refuses what a new one has signed: %v", err)
	}
	for _, wait := range []time.Duration{0, store.MaxLifetime - time.Hour} {
		a.wait(wait)
		if _, err := a.fresh().Verify(untagged, a.audiences); err != nil {
			t.Errorf("what an older node has signed is refused after %v: %v", wait, err)
		}
	}
	a.wait(2*time.Hour + store.Leeway)
	_, err := a.fresh().Verify(a.good(), a.audiences)
	wantReason(t, err, "tag_wrong")
}

// TestTagsOfANewStore are required at once, after a restart too, and whoever writes to the store.
func TestTagsOfANewStore(t *testing.T) {
	store := new(fakeKeys)
	for _, at := range []time.Time{testStart, testStart.AddDate(1, 0, 0)} {
		if m := loadMaster(t, store, at); !m.jtiMACRequiredFrom.Equal(testStart) || !NewJTIMAC(m).areRequired(testStart) {
			t.Errorf("required from %v", m.jtiMACRequiredFrom)
		}
	}
}

func loadMaster(tb testing.TB, store store.KeyStore, now time.Time) *keys.MasterKey {
	tb.Helper()
	master, err := keys.LoadMasterKey(context.Background(), store, nil, now)
	if err != nil {
		tb.Fatal(err)
	}
	return master
}

// FuzzTag: no header and no claims pass but those that were signed, wherever a tag stands in them.
func FuzzTag(f *testing.F) {
	master := testMaster(f)
	key := fuzzKeys(f)[oauth.ES256]
	genuineClaims := []byte(claimsOpening + strings.Repeat("a", oauth.IDLength) + untaggedEnd + `","iss":"` + testIssuer + `"}`)
	unsigned := key.Unsigned(genuineClaims)
	tag := NewJTIMAC(master).put(unsigned)
	genuine := string(unsigned)
	genuineHeader := strings.TrimSuffix(key.header, ".")
	payload := strings.Replace(string(genuineClaims), untaggedEnd, tag, 1)
	jti := strings.Repeat("a", oauth.IDLength)
	f.Add(genuineHeader, []byte(payload))
	for _, claims := range []string{
		`{"jti":"` + jti + tag + `","jti":"` + jti + tag + `","iss":"` + testIssuer + `"}`,
		`{"jti":"` + jti + tag + `","iss":"` + testIssuer + `","x":"` + tag + `"}`,
		`{"x":"` + tag + `","jti":"` + jti + tag + `","iss":"` + testIssuer + `"}`,
		`{ "jti":"` + jti + tag + `","iss":"` + testIssuer + `"}`,
		`{"jti":"` + jti + tag + tag + `","iss":"` + testIssuer + `"}`,
		tag, jti + tag, "", "{}",
	} {
		f.Add(genuineHeader, []byte(claims))
		f.Add(genuineHeader+"."+genuineHeader, []byte(claims))
		f.Add("", []byte(claims))
	}
	f.Fuzz(func(t *testing.T, header string, claims []byte) {
		signed := header + "." + encode(string(claims))
		if ok := NewJTIMAC(master).check(signed + ".c2ln"); ok != (signed == genuine) {
			t.Errorf("%q, %q: %v", header, claims, ok)
		}
		NewJTIMAC(master).check(header)
		NewJTIMAC(master).check(string(claims))
	})
}
