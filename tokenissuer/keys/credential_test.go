package keys

import (
	"bytes"
	"crypto/rand"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestBase62BytesIsTheNumber compares the hand-written division with math/big.
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

// TestNoCredentialPassesForAnother: each purpose has its own key, although all are derived from one id.
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
	for _, key := range m.derived {
		macs = append(macs, MAC(key, id))
	}
	slices.Sort(macs)
	if len(slices.Compact(macs)) != len(m.derived) {
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
