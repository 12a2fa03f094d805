// Package vectors has the test vectors of Wycheproof, which are 100 MB of every program that imports it.
package vectors

import (
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/c2sp/wycheproof"
)

// Messages is a Wycheproof file of signatures, or of MACs, over a message.
type Messages struct {
	Groups []struct {
		PublicKeyJWK json.RawMessage `json:"publicKeyJwk"`
		KeyJWK       json.RawMessage `json:"keyJwk"`
		PublicKeyDER string          `json:"publicKeyDer"`
		Tests        []struct {
			ID      int `json:"tcId"`
			Comment string
			Msg     string
			Sig     string
			Key     string
			Tag     string
			Result  string
		}
	} `json:"testGroups"`
}

// Read reads a file of test vectors, named without its extension.
func Read(tb testing.TB, name string, into any) {
	tb.Helper()
	data, err := fs.ReadFile(wycheproof.TestVectors, name+"_test.json")
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		tb.Fatal(err)
	}
}

// Unhex decodes the hexadecimal digits of a test vector.
func Unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
