package keys

import (
	"bytes"
	"sync"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// sharedKeys are made once, because RSA keys are slow to make. foreignKeys belong to another environment.
var (
	sharedKeys  = sync.OnceValue(newKeys)
	foreignKeys = sync.OnceValue(newKeys)
)

func newKeys() map[oauth.Algorithm]*SigningKey {
	made := make(map[oauth.Algorithm]*SigningKey)
	for _, algorithm := range oauth.OwnAlgorithms {
		key, err := NewSigningKey(algorithm, tokentest.Start)
		if err != nil {
			panic(err)
		}
		made[algorithm] = key
	}
	return made
}

// parseJWK parses a key as an element of a JWKS.
func parseJWK(data []byte, algorithms []oauth.Algorithm) ([]*VerificationKey, error) {
	var k jwk
	if err := strictjson.Object(data, &k); err != nil {
		return nil, err
	}
	return k.verificationKeys(algorithms)
}

// parseOwnJWK parses a key as one for our own tokens: ES256, RS256 or EdDSA.
func parseOwnJWK(data []byte) (*VerificationKey, error) {
	list, err := parseJWK(data, oauth.OwnAlgorithms)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// parseOwnJWKS is parseOwnJWK for a set.
func parseOwnJWKS(data []byte) (list []*VerificationKey, err error) {
	set, err := ParseJWKS(data, oauth.OwnAlgorithms)
	for _, published := range set {
		list = append(list, published.Keys...)
	}
	return list, err
}

// testMaster is the master key of every test.
func testMaster(tb testing.TB) *MasterKey {
	tb.Helper()
	master, err := newMasterKey(bytes.Repeat([]byte{7}, masterKeyBytes))
	if err != nil {
		tb.Fatal(err)
	}
	return master
}
