package keys

import (
	"bytes"
	"crypto/rand"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestBase62BytesIsTheNumber holds the hand-written division against math/big.
func TestBase62BytesIsTheNumber(t *testing.T) {
	inputs := [][]byte{make([]byte, 32), bytes.Repeat([]byte{0xff}, 32), append(make([]byte, 31), 61), append(make([]byte, 31), 62)}
	for bit := range 256 { // every power of two, and the number before it
		power := new(big.Int).Lsh(big.NewInt(1), uint(bit))
		inputs = append(inputs, power.FillBytes(make([]byte, 32)), new(big.Int).Sub(power, big.NewInt(1)).FillBytes(make([]byte, 32)))
	}
	for range 20_000 {
		random := make([]byte, 32)
		_, _ = rand.Read(random)
		inputs = append(inputs, random)
	}
	for _, input := range inputs {
		n := new(big.Int).SetBytes(input)
		got := base62Bytes(input)
		if want := inBase62(n, MACLength); got != want {
			t.Fatalf("%x: %s, want %s", input, got, want)
		}
		words := [4]uint64{}
		for i := range words {
			words[i] = new(big.Int).SetBytes(input[8*i : 8*i+8]).Uint64()
		}
		quotient, remainder := new(big.Int).QuoRem(n, big.NewInt(62), new(big.Int))
		if got := divide62(&words); got != remainder.Uint64() {
			t.Fatalf("%x: remainder %d", input, got)
		}
		for i, word := range words {
			if want := new(big.Int).SetBytes(quotient.FillBytes(make([]byte, 32))[8*i : 8*i+8]).Uint64(); word != want {
				t.Fatalf("%x: word %d of the quotient is %x, want %x", input, i, word, want)
			}
		}
	}
}

// inBase62 writes a number with our digits.
func inBase62(n *big.Int, length int) string {
	digits := []byte(strings.Repeat("0", length))
	n, remainder := new(big.Int).Set(n), new(big.Int)
	for i := length - 1; i >= 0; i-- {
		n.QuoRem(n, big.NewInt(62), remainder)
		digits[i] = oauth.Base62[remainder.Int64()]
	}
	return string(digits)
}

func TestRefreshTokensReadBack(t *testing.T) {
	m := testMaster(t)
	id := strings.Repeat("a", oauth.IDLength)
	for _, generation := range []int64{1, 2, 61, 62, 3843, 3844, 1 << 30, 62*62*62*62*62*62 - 1} {
		token := m.RefreshToken(id, generation)
		if len(token.Reveal()) != refreshLength || strings.Trim(token.Reveal(), oauth.Base62) != "" {
			t.Errorf("%d: %d characters", generation, len(token.Reveal()))
		}
		gotID, got, genuine := m.ReadRefreshToken(token)
		if gotID != id || got != generation || !genuine {
			t.Errorf("%d reads back as %d of %q, %v", generation, got, gotID, genuine)
		}
	}
}

// TestNoCredentialPassesForAnother: each purpose has a key of its own, though all are made of one id.
func TestNoCredentialPassesForAnother(t *testing.T) {
	m := testMaster(t)
	id := strings.Repeat("a", oauth.IDLength)
	code, session, refresh := m.Code(id), m.Session(id), m.RefreshToken(id, 1)
	for name, genuine := range map[string]bool{
		"session as code": second(m.ReadCode(session)), "refresh token as code": second(m.ReadCode(refresh)), "code as session": second(m.ReadSession(code)), "refresh token as session": second(m.ReadSession(refresh)),
		"code as refresh token": third(m.ReadRefreshToken(code)), "session as refresh token": third(m.ReadRefreshToken(session)),
	} {
		if genuine {
			t.Error(name)
		}
	}
	for name, genuine := range map[string]bool{"code": second(m.ReadCode(code)), "session": second(m.ReadSession(session)), "refresh token": third(m.ReadRefreshToken(refresh))} {
		if !genuine {
			t.Errorf("a good %s is refused", name)
		}
	}
	other, err := newMasterKey(bytes.Repeat([]byte{8}, masterKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	if second(other.ReadCode(code)) || second(other.ReadSession(session)) || third(other.ReadRefreshToken(refresh)) {
		t.Error("another master key accepts them")
	}
	var macs []string
	for _, key := range [][]byte{m.codes, m.refresh, m.sessions, m.Forms} {
		macs = append(macs, MAC(key, id))
	}
	slices.Sort(macs)
	if len(slices.Compact(macs)) != 4 {
		t.Error("two purposes share a key")
	}
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := newMasterKey(make([]byte, n)); err == nil {
			t.Errorf("a master key of %d bytes is taken", n)
		}
	}
}

func second(_ string, genuine bool) bool         { return genuine }
func third(_ string, _ int64, genuine bool) bool { return genuine }

// TestS6TheVectorOfRFC7636: appendix B.
func TestS6TheVectorOfRFC7636(t *testing.T) {
	const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	if !oauth.VerifierMatches(oauth.NewSecret(verifier), challenge) || !oauth.IsChallenge(challenge) {
		t.Error("the vector is refused")
	}
	for _, wrong := range []string{"", verifier + "A", "A" + verifier[1:], challenge} {
		if oauth.VerifierMatches(oauth.NewSecret(wrong), challenge) {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if oauth.VerifierMatches(oauth.NewSecret(verifier), verifier) || oauth.VerifierMatches(oauth.Secret{}, "") || oauth.VerifierMatches(oauth.NewSecret(verifier), "") {
		t.Error("plain, or nothing, is accepted")
	}
	for _, wrong := range []string{"", challenge[:42], challenge + "A", challenge + "=", challenge[:42] + "N", challenge[:42] + "+", challenge[:41] + "\n\n", strings.Repeat("A", 42) + "\n", "\r" + challenge[:42]} {
		if oauth.IsChallenge(wrong) {
			t.Errorf("%q is a challenge", wrong)
		}
	}
}

// TestLifetimes pins the contract's defaults and bounds.
func TestLifetimes(t *testing.T) {
	want := store.Lifetimes{
		AuthorizationCode: 21600 * time.Second, ClientCredentials: 7200 * time.Second, Password: 2419200 * time.Second, AdminCreated: 2419200 * time.Second,
		Refresh: 90 * store.Day, RefreshIdle: 30 * store.Day, RefreshGrace: 30 * time.Second, Code: time.Minute,
	}
	if store.DefaultLifetimes != want {
		t.Errorf("%+v", store.DefaultLifetimes)
	}
	durations := 0
	for field := range reflect.TypeFor[store.Lifetimes]().Fields() {
		if field.Type == reflect.TypeFor[time.Duration]() {
			durations++
		}
	}
	if durations != len(store.lifetimeBounds) {
		t.Errorf("%d lifetimes and %d bounds", durations, len(store.lifetimeBounds))
	}
	for grant, want := range map[oauth.GrantType]time.Duration{
		oauth.AuthorizationCode: 6 * time.Hour, store.BrowserSession: 6 * time.Hour, oauth.PasswordGrant: 28 * store.Day, store.AdminCreated: 28 * store.Day, oauth.ClientCredentials: 2 * time.Hour,
	} {
		if got := store.DefaultLifetimes.For(grant); got != want {
			t.Errorf("%s: %s", grant, got)
		}
	}
	if got := (store.Lifetimes{}).Or(store.DefaultLifetimes); got != store.DefaultLifetimes {
		t.Errorf("%+v", got)
	}
	for _, bound := range store.lifetimeBounds {
		var l store.Lifetimes
		if *bound.For(&l) = 7 * time.Minute; l == (store.Lifetimes{}) {
			t.Errorf("%s sets nothing", bound.name)
		}
		merged := l.Or(store.DefaultLifetimes)
		if *bound.For(&merged) != 7*time.Minute {
			t.Errorf("%s: the client's own is lost", bound.name)
		}
		for d, good := range map[time.Duration]bool{0: true, bound.least: true, bound.most: true, bound.most + 1: false, -time.Second: false} {
			if *bound.For(&l) = d; (l.Validate() == nil) != good {
				t.Errorf("%s %s: %v", bound.name, d, l.Validate())
			}
		}
	}
	if err := (store.Lifetimes{RefreshGrace: 6 * time.Minute}).Validate(); err == nil || !strings.Contains(err.Error(), "refresh_grace 6m0s: use 0 to 5m") {
		t.Errorf("%v", err)
	}
	if err := (store.Lifetimes{Refresh: 401 * store.Day}).Validate(); err == nil || !strings.Contains(err.Error(), "use 1s to 400d") {
		t.Errorf("%v", err)
	}
	if store.DefaultLifetimes.Password > store.MaxLifetime || store.DefaultLifetimes.AdminCreated > store.MaxLifetime {
		t.Error("the gate refuses what we issue")
	}
}

// TestT71CanonicalEmailIsItsOwn: whatever is accepted is not changed by being read again, or there would be two buckets.
func TestT71CanonicalEmailIsItsOwn(t *testing.T) {
	for address, want := range map[string]string{
		"ada@acme.example": "ada@acme.example", " ADA@ACME.EXAMPLE.\t": "ada@acme.example", "e\u0301@x.example": "é@x.example", "\u212a@x.example": "k@x.example", "a+b@x.example": "a+b@x.example",
		"a@x.example\u2024": "a@x.example", "a@x.example\u00a0": "a@x.example", "\u3000a@x.example": "a@x.example", "a\uff20x.example": "a@x.example", "\u0131@x.example": "\u0131@x.example",
	} {
		got, err := store.CanonicalEmail(address)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v", address, got, err)
		}
	}
	for _, address := range []string{"", "a", "@x", "a@", "a@.", "a@b@x", "a b@x", "a\x00@x", "a\n@x", "a\xff@x", "a\uff20b@x", "a@x\u2028y", strings.Repeat("a", 250) + "@x.example"} {
		if got, err := store.CanonicalEmail(address); err == nil {
			t.Errorf("%q: %q", address, got)
		}
	}
	for r := rune(0); r < 0x20000; r++ {
		switch r { // one of many that Unicode leaves as they are stands for all of them
		case 0x3401, 0x4e01: // ideographs
			r = map[rune]rune{0x3401: 0x4dbf, 0x4e01: 0x9fff}[r]
		case 0xe001: // private use
			r = 0xf8ff
		case 0x10000:
			r = 0x1d400 // the letters of mathematics, and what else there is in compatibility
		}
		for _, address := range []string{"a" + string(r) + "b@x.example", string(r) + "a@x.example", "a@x.example" + string(r), "a" + string(r) + "\u0301@x.example"} {
			if got, err := store.CanonicalEmail(address); err == nil {
				if again, err := store.CanonicalEmail(got); err != nil || again != got {
					t.Fatalf("%U: %q becomes %q becomes %q, %v", r, address, got, again, err)
				}
			}
		}
	}
}

func TestClaimsWithAnActorThatCannotBeWritten(t *testing.T) {
	good := accesstoken.AccessToken{Issuer: testIssuer, Subject: "u", Audience: []string{testIssuer}, ClientID: "c", ID: "j", IssuedAt: testStart, ExpiresAt: testStart, Actor: store.Actor{Subject: "a", ClientID: "c"}}
	for name, edit := range map[string]func(*accesstoken.AccessToken){
		"role before the actor": func(t *accesstoken.AccessToken) { t.Role = "\xff" }, "actor": func(t *accesstoken.AccessToken) { t.Actor.Subject = "\xff" }, "actor's client": func(t *accesstoken.AccessToken) { t.Actor.ClientID = "\xff" }, "audience": func(t *accesstoken.AccessToken) { t.Audience = []string{"a", "\xff"} },
	} {
		broken := good
		edit(&broken)
		if written, err := accesstoken.AppendClaims(nil, &broken); err == nil {
			t.Errorf("%s: %s", name, written)
		}
	}
}
