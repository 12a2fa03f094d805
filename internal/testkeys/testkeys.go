// Package testkeys creates keys for the tests of packages that depend on package keys, and signs arbitrary headers and claims with them.
// It signs with the standard library, independently of the code under test.
package testkeys

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Algorithms are the algorithms that the issuer signs with.
var Algorithms = []oauth.Algorithm{oauth.ES256, oauth.RS256, oauth.EdDSA}

// Shared returns a signing key of each algorithm, the same in every test of a process, because RSA keys are slow to generate.
func Shared() map[oauth.Algorithm]*keys.SigningKey { return shared() }

// Foreign returns a signing key of each algorithm of another issuer.
func Foreign() map[oauth.Algorithm]*keys.SigningKey { return foreign() }

var shared, foreign = sync.OnceValue(generate), sync.OnceValue(generate)

func generate() map[oauth.Algorithm]*keys.SigningKey {
	made := make(map[oauth.Algorithm]*keys.SigningKey)
	for _, a := range Algorithms {
		key, err := keys.NewSigningKey(a, tokentest.Start)
		if err != nil {
			panic(err)
		}
		made[a] = key
	}
	return made
}

// Fixed returns keys that are the same in every process, which lets one worker of a fuzzer reproduce what another found: the ES256 key of
// RFC 7515 appendix A.3 and the Ed25519 key of RFC 8037 appendix A.1.
func Fixed(tb testing.TB) map[oauth.Algorithm]*keys.SigningKey {
	tb.Helper()
	secret := func(text string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			tb.Fatal(err)
		}
		return b
	}
	load := func(algorithm oauth.Algorithm, id string, private crypto.Signer) *keys.SigningKey {
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			tb.Fatal(err)
		}
		key, err := keys.LoadSigningKey(store.StoredKey{ID: id, Algorithm: algorithm, Private: der, CreatedAt: tokentest.Start}, nil)
		if err != nil {
			tb.Fatal(err)
		}
		return key
	}
	ec, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret("jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"))
	if err != nil {
		tb.Fatal(err)
	}
	ed := ed25519.NewKeyFromSeed(secret("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))
	return map[oauth.Algorithm]*keys.SigningKey{
		oauth.ES256: load(oauth.ES256, "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U", ec),
		oauth.EdDSA: load(oauth.EdDSA, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", ed),
	}
}

// opened caches the private halves, by key, because they are slow to parse.
var opened sync.Map

// Private returns the private half of a key.
func Private(key *keys.SigningKey) crypto.Signer {
	if private, known := opened.Load(key); known {
		return private.(crypto.Signer)
	}
	stored, err := key.Stored(nil)
	if err != nil {
		panic(err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(stored.Private)
	if err != nil {
		panic(err)
	}
	opened.Store(key, parsed)
	return parsed.(crypto.Signer)
}

// Public returns the public half of a key.
func Public(key *keys.SigningKey) crypto.PublicKey { return Private(key).Public() }

// Header returns the JOSE header that the issuer writes for a key, with edits as for tokentest.Object.
func Header(key *keys.SigningKey, edits ...string) string {
	return tokentest.Object([]string{
		"alg", strconv.Quote(string(key.Algorithm)), "typ", `"at+jwt"`, "kid", strconv.Quote(key.ID),
	}, edits)
}

// Sign returns a token with any header and payload.
func Sign(key *keys.SigningKey, header, payload string) string {
	return SignInput(key, tokentest.Encode(header)+"."+tokentest.Encode(payload))
}

// SignInput returns the token of any signing input (RFC 7515 §2). Signatures are deterministic: one input has one token.
func SignInput(key *keys.SigningKey, input string) string {
	digest := sha256.Sum256([]byte(input))
	var signature []byte
	var err error
	switch private := Private(key).(type) {
	case *ecdsa.PrivateKey:
		if signature, err = private.Sign(nil, digest[:], crypto.SHA256); err == nil {
			signature, err = joined(signature)
		}
	case *rsa.PrivateKey:
		signature, err = rsa.SignPKCS1v15(nil, private, crypto.SHA256, digest[:])
	case ed25519.PrivateKey:
		signature = ed25519.Sign(private, []byte(input))
	}
	if err != nil {
		panic(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// joined returns r and s of a P-256 signature concatenated (RFC 7518 §3.4).
func joined(der []byte) ([]byte, error) {
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &pair); err != nil {
		return nil, err
	}
	return slices.Concat(pair.R.FillBytes(make([]byte, 32)), pair.S.FillBytes(make([]byte, 32))), nil
}

// Master returns the master key that repeats the byte secret, the same in every process. It belongs to a store in which every token has had
// a MAC in its jti since the given time.
func Master(tb testing.TB, secret byte, since time.Time) *keys.MasterKey {
	tb.Helper()
	st := teststore.New(tb)
	stored := store.StoredKey{ID: "master", Algorithm: "HKDF-SHA256", Private: bytes.Repeat([]byte{secret}, 32), CreatedAt: since, ActiveFrom: since}
	if err := st.Keys.ChangeKeys(tb.Context(), store.AddFirstKey(stored)); err != nil {
		tb.Fatal(err)
	}
	master, err := keys.LoadMasterKey(tb.Context(), st.Keys, nil, since)
	if err != nil {
		tb.Fatal(err)
	}
	return master
}
