package keys

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// rfc6979Key is the key of RFC 6979 §A.2.5.
func rfc6979Key(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	digits, err := hex.DecodeString("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")
	if err != nil {
		tb.Fatal(err)
	}
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), digits)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// TestES256IsDeterministic checks ES256 against the vectors of RFC 6979 §A.2.5.
func TestES256IsDeterministic(t *testing.T) {
	key := rfc6979Key(t)
	for text, want := range map[string]string{
		"sample": "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716" +
			"f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
		"test": "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367" +
			"019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
	} {
		t.Run(text, func(t *testing.T) {
			signature, err := methodOf(oauth.ES256).Sign(text, key)
			if err != nil || hex.EncodeToString(signature) != want {
				t.Errorf("%x, %v", signature, err)
			}
		})
	}
}

// TestES256SignaturesAreWhole: one number in 128 begins with a zero byte, which the library's encoding omits.
func TestES256SignaturesAreWhole(t *testing.T) {
	key := rfc6979Key(t)
	var beginWithZero [2]int
	for i := range 1500 {
		text := strconv.Itoa(i)
		signature, err := methodOf(oauth.ES256).Sign(text, key)
		if err != nil || len(signature) != 64 {
			t.Fatalf("%s: %x, %v", text, signature, err)
		}
		if err := jwt.SigningMethodES256.Verify(text, signature, &key.PublicKey); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for half := range beginWithZero {
			if signature[32*half] == 0 {
				beginWithZero[half]++
			}
		}
	}
	if beginWithZero[0] == 0 || beginWithZero[1] == 0 {
		t.Errorf("%v numbers begin with a zero byte: the test shows nothing", beginWithZero)
	}
}

// TestEdDSASignsWhatOthersVerify checks EdDSA against the vector of RFC 8037 §A.4.
func TestEdDSASignsWhatOthersVerify(t *testing.T) {
	seed, err := base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
	if err != nil {
		t.Fatal(err)
	}
	const text = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
	signature, err := methodOf(oauth.EdDSA).Sign(text, ed25519.NewKeyFromSeed(seed))
	const want = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
	if got := base64.RawURLEncoding.EncodeToString(signature); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAMethodSignsWithItsOwnKeysAlone(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for algorithm, other := range map[oauth.Algorithm]any{oauth.ES256: edwards, oauth.EdDSA: rfc6979Key(t)} {
		t.Run(string(algorithm), func(t *testing.T) {
			if _, err := methodOf(algorithm).Sign("text", other); err == nil {
				t.Error("it signed")
			}
		})
	}
}

func TestASignatureOfAnotherFormIsRefused(t *testing.T) {
	number := func(length int) []byte {
		return append([]byte{0x02, byte(length)}, bytes.Repeat([]byte{1}, length)...)
	}
	sequence := func(parts ...[]byte) []byte {
		body := bytes.Join(parts, nil)
		return append([]byte{0x30, byte(len(body))}, body...)
	}
	if _, err := joinedSignature(sequence(number(32), number(31))); err != nil {
		t.Fatal(err)
	}
	for name, der := range map[string][]byte{
		"nothing":          nil,
		"no sequence":      number(32),
		"cut short":        sequence(number(32), number(32))[:60],
		"one number":       sequence(number(32)),
		"too long":         sequence(number(34), number(32)),
		"33 bytes":         sequence(number(33), number(32)),
		"length beyond":    {0x30, 4, 0x02, 9, 1, 1},
		"another type":     {0x30, 6, 0x03, 1, 1, 0x02, 1, 1},
		"more behind it":   append(sequence(number(32), number(32)), 0),
		"an empty message": {0x30, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if signature, err := joinedSignature(der); err == nil {
				t.Errorf("%x", signature)
			}
		})
	}
}
