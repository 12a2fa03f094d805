package accesstoken

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func TestG26ES256SignaturesHaveOneForm(t *testing.T) {
	g := newGate(t)
	token := g.good()
	input, encoded := cutLast(token)
	sig, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	r, s := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])
	der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
	if err != nil {
		t.Fatal(err)
	}
	n := elliptic.P256().Params().N
	pair := func(r, s *big.Int) []byte {
		return slices.Concat(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32)))
	}
	zero, big1 := new(big.Int), big.NewInt(1)
	for name, bad := range map[string][]byte{
		"DER": der, "63 bytes": sig[:63], "65 bytes": append(slices.Clone(sig), 0), "leading zero": append([]byte{0}, sig...),
		"66 bytes": slices.Concat([]byte{0}, sig[:32], []byte{0}, sig[32:]), "128 bytes": slices.Concat(sig, sig),
		"wide": slices.Concat(make([]byte, 32), sig[:32], make([]byte, 32), sig[32:]),
		"r 0":  pair(zero, s), "s 0": pair(r, zero), "both 0": make([]byte, 64), "r n": pair(n, s), "s n": pair(r, n),
		"both 1": pair(big1, big1), "all ones": bytes.Repeat([]byte{0xff}, 64), "swapped": pair(s, r),
	} {
		t.Run(name, func(t *testing.T) {
			g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(bad), "signature_wrong")
		})
	}
}

// TestG27TheOtherFormOfARevokedTokenIsRevoked: whoever holds an ES256 token can write down a second one, (r, n-s),
// that is just as good. Revocation goes by what the token says, so it hits both.
func TestG27TheOtherFormOfARevokedTokenIsRevoked(t *testing.T) {
	g := newGate(t)
	token := g.good()
	input, encoded := cutLast(token)
	sig, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	n := elliptic.P256().Params().N
	s := new(big.Int).Sub(n, new(big.Int).SetBytes(sig[32:]))
	twin := input + "." + base64.RawURLEncoding.EncodeToString(slices.Concat(sig[:32], s.FillBytes(make([]byte, 32))))
	if twin == token {
		t.Fatal("no twin")
	}
	first, second := g.accepts(t, token), g.accepts(t, twin)
	if first.ID != second.ID {
		t.Fatal("the twin says something else")
	}
	g.revocations.Add(store.Revocation{Kind: store.RevokeToken, ID: "token-1", ExpiresAt: first.ExpiresAt})
	g.refuses(t, token, "token_revoked")
	g.refuses(t, twin, "token_revoked")
}

func TestG28SaltedRSASignaturesAreRefused(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.RS256]
	private := testkeys.Private(key).(*rsa.PrivateKey)
	for _, alg := range []string{`"PS256"`, `"RS256"`} {
		for _, salt := range []int{rsa.PSSSaltLengthEqualsHash, rsa.PSSSaltLengthAuto, 0, 1, 20, 31, 33, 64} {
			if salt == 0 {
				continue // PSSSaltLengthAuto is 0
			}
			input := tokentest.Encode(testkeys.Header(key, "alg", alg)) + "." + tokentest.Encode(g.claims())
			digest := sha256.Sum256([]byte(input))
			sig, err := rsa.SignPSS(rand.Reader, private, crypto.SHA256, digest[:], &rsa.PSSOptions{SaltLength: salt})
			if err != nil {
				t.Fatal(err)
			}
			g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(sig), map[string]string{`"PS256"`: "algorithm_mismatch", `"RS256"`: "signature_wrong"}[alg])
		}
	}
}

// TestG29ForgedRSAPaddingIsRefused: the encoded messages are made by hand; TestWycheproofJWS has two hundred more.
func TestG29ForgedRSAPaddingIsRefused(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.RS256]
	private := testkeys.Private(key).(*rsa.PrivateKey)
	input := tokentest.Encode(testkeys.Header(key)) + "." + tokentest.Encode(g.claims())
	digest := sha256.Sum256([]byte(input))
	prefix := []byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}
	noNull := []byte{0x30, 0x2f, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x04, 0x20}
	sign := func(em []byte) string {
		s := new(big.Int).Exp(new(big.Int).SetBytes(em), private.D, private.N)
		return input + "." + base64.RawURLEncoding.EncodeToString(s.FillBytes(make([]byte, private.Size())))
	}
	padded := func(info, tail []byte, kind, fill byte) []byte {
		ps := private.Size() - 3 - len(info) - len(tail)
		return slices.Concat([]byte{0, kind}, bytes.Repeat([]byte{fill}, ps), []byte{0}, info, tail)
	}
	good := slices.Concat(prefix, digest[:])
	g.accepts(t, sign(padded(good, nil, 1, 0xff)))
	for name, em := range map[string][]byte{
		"garbage after the digest": slices.Concat([]byte{0, 1}, bytes.Repeat([]byte{0xff}, 8), []byte{0}, good, make([]byte, private.Size()-11-len(good))),
		"no NULL":                  padded(slices.Concat(noNull, digest[:]), nil, 1, 0xff),
		"type 2":                   padded(good, nil, 2, 0xff),
		"type 0":                   padded(good, nil, 0, 0),
		"padding of FE":            padded(good, nil, 1, 0xfe),
		"bare digest":              padded(digest[:], nil, 1, 0xff),
		"trailing byte":            padded(good, []byte{0}, 1, 0xff),
	} {
		t.Run(name, func(t *testing.T) { g.refuses(t, sign(em), "signature_wrong") })
	}
	for _, sig := range [][]byte{make([]byte, private.Size()), {1}, private.N.Bytes(), new(big.Int).Sub(private.N, big.NewInt(1)).Bytes()} {
		g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(sig), "signature_wrong")
	}
	// A good signature plus the modulus, and one with a zero in front.
	_, encoded := cutLast(testkeys.SignInput(key, input))
	sig, _ := base64.RawURLEncoding.DecodeString(encoded)
	g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(append([]byte{0}, sig...)), "signature_wrong")
	g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(new(big.Int).Add(new(big.Int).SetBytes(sig), private.N).Bytes()), "signature_wrong")
}

func TestG30Ed25519HasOneForm(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.EdDSA]
	token := testkeys.Sign(key, testkeys.Header(key), g.claims())
	input, encoded := cutLast(token)
	sig, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	// L = 2^252 + 27742317777372353535851937790883648493; S+L verifies where S is not checked against L.
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	little := slices.Clone(sig[32:])
	slices.Reverse(little)
	sum := new(big.Int).Add(new(big.Int).SetBytes(little), order).FillBytes(make([]byte, 32))
	slices.Reverse(sum)
	identity := append([]byte{1}, make([]byte, 31)...)
	for name, bad := range map[string][]byte{
		"S+L": slices.Concat(sig[:32], sum), "small order": slices.Concat(identity, make([]byte, 32)), "zero": make([]byte, 64),
		"short": sig[:63], "long": append(slices.Clone(sig), 0),
	} {
		t.Run(name, func(t *testing.T) {
			g.refuses(t, input+"."+base64.RawURLEncoding.EncodeToString(bad), "signature_wrong")
		})
	}
}

func TestG34TheKidOfAnotherEnvironmentIsNotEnough(t *testing.T) {
	g := newGate(t)
	for _, a := range testkeys.Algorithms {
		mine, theirs := g.signing[a], testkeys.Foreign()[a]
		g.refuses(t, testkeys.Sign(theirs, testkeys.Header(mine), g.claims()), "signature_wrong")
		g.refuses(t, testkeys.Sign(theirs, testkeys.Header(theirs), g.claims()), "key_unknown")
	}
}
