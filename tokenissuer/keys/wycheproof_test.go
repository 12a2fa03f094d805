package keys

import (
	"crypto/x509"
	"fmt"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/vectors"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// wycheproofKey loads the key of a group for one algorithm, as a JWK, or as DER if the group has no JWK.
func wycheproofKey(tb testing.TB, jwk, other []byte, der string, algorithm oauth.Algorithm) (*VerificationKey, error) {
	tb.Helper()
	if jwk == nil {
		jwk = other
	}
	if jwk != nil {
		list, err := parseJWK(jwk, []oauth.Algorithm{algorithm})
		if err != nil {
			return nil, err
		}
		return list[0], nil
	}
	public, err := x509.ParsePKIXPublicKey(vectors.Unhex(tb, der))
	if err != nil {
		return nil, err
	}
	return &VerificationKey{Algorithm: algorithm, public: public}, checkKey(public, algorithm)
}

// TestG120WycheproofSignatures runs the files of bare signatures through the one function that verifies signatures. A
// salt length that differs from the hash length, or a mask with another hash, is not a signature of RFC 7518 §3.5,
// except in one case: its salt has the length that the file calls wrong. The last three force a key of PS256, which
// the loader refuses for our own tokens, into one for RS256. No salted signature may pass; case 108, invalid as
// PS256, is a PKCS #1 v1.5 signature and therefore good.
func TestG120WycheproofSignatures(t *testing.T) {
	for _, file := range []struct {
		name                             string
		algorithm                        oauth.Algorithm
		cases, valid, accepted, unloaded int
		forced                           bool
	}{
		{name: "ecdsa_secp256r1_sha256_p1363", algorithm: oauth.ES256, cases: 262, valid: 173, accepted: 173},
		{name: "ed25519", algorithm: oauth.EdDSA, cases: 151, valid: 88, accepted: 88},
		{name: "rsa_signature_2048_sha256", algorithm: oauth.RS256, cases: 259, valid: 9, accepted: 7, unloaded: 2},
		{name: "rsa_signature_3072_sha256", algorithm: oauth.RS256, cases: 259, valid: 8, accepted: 7, unloaded: 1},
		{name: "rsa_signature_4096_sha256", algorithm: oauth.RS256, cases: 258, valid: 7, accepted: 7},
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
		{name: "rsa_pss_2048_sha256_mgf1_32", algorithm: oauth.RS256, cases: 108, valid: 63, accepted: 1, forced: true},
		{name: "rsa_pss_3072_sha256_mgf1_32", algorithm: oauth.RS256, cases: 108, valid: 63, accepted: 1, forced: true},
		{name: "rsa_pss_4096_sha256_mgf1_32", algorithm: oauth.RS256, cases: 108, valid: 63, accepted: 1, forced: true},
	} {
		t.Run(file.name+" as "+string(file.algorithm), func(t *testing.T) {
			t.Parallel()
			var f vectors.Messages
			vectors.Read(t, file.name, &f)
			var cases, valid, accepted, unloaded int
			for _, group := range f.Groups {
				key, err := wycheproofKey(t, group.PublicKeyJWK, group.KeyJWK, group.PublicKeyDER, file.algorithm)
				if file.forced {
					if group.PublicKeyJWK != nil && err == nil {
						t.Error("the loader takes a PS256 key for RS256")
					}
					key, err = wycheproofKey(t, nil, nil, group.PublicKeyDER, file.algorithm)
				}
				for _, c := range group.Tests {
					cases++
					if c.Result == "valid" {
						valid++
					}
					if err != nil {
						unloaded++
						continue
					}
					ok := key.VerifySignature(string(vectors.Unhex(t, c.Msg)), vectors.Unhex(t, c.Sig)) == nil
					if ok {
						accepted++
					}
					if right := c.Result == "valid" && !file.forced || c.Comment == "s_len changed to 32" || file.forced && c.ID == 108; ok && !right {
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
