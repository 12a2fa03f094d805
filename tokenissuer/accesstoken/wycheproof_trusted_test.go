package accesstoken

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG120WycheproofOfTrustedAlgorithms runs the files of bare signatures of the algorithms that trusted issuers alone may use.
// Those whose salt has another length than the hash, or whose mask another hash, hold no signature of RFC 7518 §3.5, but for one
// case: its salt has the length that the file calls wrong.
func TestG120WycheproofOfTrustedAlgorithms(t *testing.T) {
	for _, file := range []struct {
		name                             string
		algorithm                        oauth.Algorithm
		cases, valid, accepted, unloaded int
	}{
		{name: "ecdsa_secp384r1_sha384_p1363", algorithm: oauth.ES384, cases: 280, valid: 193, accepted: 193},
		{name: "ecdsa_secp521r1_sha512_p1363", algorithm: oauth.ES512, cases: 318, valid: 231, accepted: 231},
		{name: "rsa_signature_2048_sha384", algorithm: oauth.RS384, cases: 258, valid: 7, accepted: 7},
		{name: "rsa_signature_3072_sha384", algorithm: oauth.RS384, cases: 259, valid: 7, accepted: 7},
		{name: "rsa_signature_4096_sha384", algorithm: oauth.RS384, cases: 259, valid: 7, accepted: 7},
		{name: "rsa_signature_8192_sha384", algorithm: oauth.RS384, cases: 259, valid: 7, accepted: 7},
		{name: "rsa_signature_2048_sha512", algorithm: oauth.RS512, cases: 259, valid: 8, accepted: 7, unloaded: 1},
		{name: "rsa_signature_3072_sha512", algorithm: oauth.RS512, cases: 260, valid: 8, accepted: 7, unloaded: 1},
		{name: "rsa_signature_4096_sha512", algorithm: oauth.RS512, cases: 259, valid: 7, accepted: 7},
		{name: "rsa_signature_8192_sha512", algorithm: oauth.RS512, cases: 259, valid: 7, accepted: 7},
		{name: "rsa_pss_2048_sha256_mgf1_32", algorithm: oauth.PS256, cases: 108, valid: 63, accepted: 63},
		{name: "rsa_pss_3072_sha256_mgf1_32", algorithm: oauth.PS256, cases: 108, valid: 63, accepted: 63},
		{name: "rsa_pss_4096_sha256_mgf1_32", algorithm: oauth.PS256, cases: 108, valid: 63, accepted: 63},
		{name: "rsa_pss_2048_sha256_mgf1_0", algorithm: oauth.PS256, cases: 103, valid: 61, accepted: 1},
		{name: "rsa_pss_2048_sha256_mgf1sha1_20", algorithm: oauth.PS256, cases: 108, valid: 63},
		{name: "rsa_pss_2048_sha384_mgf1_48", algorithm: oauth.PS384, cases: 141, valid: 95, accepted: 95},
		{name: "rsa_pss_4096_sha384_mgf1_48", algorithm: oauth.PS384, cases: 141, valid: 95, accepted: 95},
		{name: "rsa_pss_4096_sha512_mgf1_64", algorithm: oauth.PS512, cases: 179, valid: 132, accepted: 132},
		{name: "rsa_pss_4096_sha512_mgf1_32", algorithm: oauth.PS512, cases: 177, valid: 132},
	} {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			var f primitiveFile
			readWycheproof(t, file.name, &f)
			var cases, valid, accepted, unloaded int
			for _, group := range f.Groups {
				key, err := primitiveTrustedKey(group.PublicKeyJWK, group.KeyJWK, group.PublicKeyDER, file.algorithm)
				for _, c := range group.Tests {
					cases++
					if c.Result == "valid" {
						valid++
					}
					if err != nil {
						unloaded++
						continue
					}
					ok := key.VerifySignature(string(unhex(t, c.Msg)), unhex(t, c.Sig)) == nil
					if ok {
						accepted++
					}
					if ok && c.Result != "valid" && c.Comment != "s_len changed to 32" {
						t.Errorf("case %d (%s) is %s, and accepted", c.ID, c.Comment, c.Result)
					}
				}
			}
			got, want := fmt.Sprint(cases, valid, accepted, unloaded), fmt.Sprint(file.cases, file.valid, file.accepted, file.unloaded)
			if got != want {
				t.Errorf("cases, valid, accepted, of keys that were not loaded: %s, want %s", got, want)
			}
		})
	}
}

// primitiveTrustedKey loads the key of a group as the key of a trusted issuer.
func primitiveTrustedKey(jwk, other []byte, der string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	if jwk == nil {
		jwk = other
	}
	if jwk == nil {
		key, _, err := primitiveKey(nil, der, algorithm)
		return key, err
	}
	keys, err := keys.parseJWK(jwk, []oauth.Algorithm{algorithm})
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

// acceptsTrustedJWS is acceptsJWS with the keys of a trusted issuer, which has each key for every algorithm that fits it.
func acceptsTrustedJWS(rawKey json.RawMessage, token string) error {
	set := rawKey
	if !bytes.Contains(rawKey, []byte(`"keys"`)) {
		set = slices.Concat([]byte(`{"keys":[`), rawKey, []byte(`]}`))
	}
	published, err := keys.ParseJWKS(set, oauth.TrustedAlgorithms)
	if err != nil {
		return err
	}
	j, err := parseJWS(token)
	if err != nil {
		return err
	}
	for _, p := range published {
		for _, key := range p.Keys {
			if (len(published) == 1 || key.ID == j.header.KeyID) && string(key.Algorithm) == j.header.Algorithm {
				return j.verify(key)
			}
		}
	}
	return errors.New("no key")
}

// TestG120WycheproofJWSOfATrustedIssuer holds the signatures in JOSE form against all that a trusted issuer may use.
func TestG120WycheproofJWSOfATrustedIssuer(t *testing.T) {
	var cases joseFile
	readWycheproof(t, "json_web_signature", &cases)
	var accepted []int
	for _, group := range cases.Groups {
		rawKey := group.Public
		if rawKey == nil {
			rawKey = group.Private
		}
		for _, c := range group.Tests {
			if c.JWS == nil {
				continue
			}
			token := compact(c.JWS)
			alg := headerAlgorithm(token)
			right := c.Result == "valid" && slices.Contains(oauth.TrustedAlgorithms, oauth.Algorithm(alg)) && alg == keyAlgorithm(rawKey)
			err := acceptsTrustedJWS(rawKey, token)
			if (err == nil) != right {
				t.Errorf("case %d (%s, %s): %v", c.ID, c.Result, group.Comment, err)
			}
			if err == nil {
				accepted = append(accepted, c.ID)
			}
		}
	}
	want := []int{
		18, 33, 259, 260, 261, 262, 263, 264, 265, 266, 267, 268, 269, 270, 271, 272, 273, 274, 275, 287, 288, 320, 321, 322, 323, 325, 326, 327,
		328, 345, 349, 378,
	}
	if !slices.Equal(accepted, want) {
		t.Errorf("accepted %v, want %v", accepted, want)
	}
}
