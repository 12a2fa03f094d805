package keys

import (
	"errors"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
)

// TestOneSignatureOverOneText: signing uses no randomness, so a weak random source reveals no key (RFC 6979).
func TestOneSignatureOverOneText(t *testing.T) {
	for algorithm, key := range sharedKeys() {
		first, err1 := key.Sign([]byte("{}"))
		second, err2 := key.Sign([]byte("{}"))
		if err := errors.Join(err1, err2); err != nil || first != second {
			t.Errorf("%s: %s and %s, %v", algorithm, first, second, err)
		}
	}
}

func TestThumbprintVectors(t *testing.T) {
	for _, v := range []struct{ name, key, want string }{
		{"RFC 7638 3.1", tokentest.RFC7638Key, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"},
		{"RFC 8037 A.3", tokentest.RFC8037Key, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"},
	} {
		key, err := parseOwnJWK([]byte(v.key))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := thumbprint(key.public); err != nil || got != v.want {
			t.Errorf("%s: %s, %v, want %s", v.name, got, err, v.want)
		}
	}
}
