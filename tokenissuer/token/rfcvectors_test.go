package token

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Vectors of RFC 7515, 7638, 7797 and 8037. Those of RFC 7520 §4.1-4.4 are Wycheproof's cases 345-348.
const (
	rfc7515Payload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"

	rfc7515A1Key   = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
	rfc7515A1Token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + rfc7515Payload + ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

	rfc7515A2Signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujG" +
		"bds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383Lc" +
		"OLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
	rfc7515A2Token = "eyJhbGciOiJSUzI1NiJ9." + rfc7515Payload + "." + rfc7515A2Signature

	rfc7515A3Signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
	rfc7515A3Token     = "eyJhbGciOiJFUzI1NiJ9." + rfc7515Payload + "." + rfc7515A3Signature

	rfc7515A4X     = "AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk"
	rfc7515A4Y     = "ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2"
	rfc7515A4Input = "eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA"
	rfc7515A4Sig   = "AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgo" +
		"XD2YBJZCPEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn"

	rfc7515A5Token = "eyJhbGciOiJub25lIn0." + rfc7515Payload + "."

	rfc7797Token = "eyJhbGciOiJIUzI1NiIsImI2NCI6ZmFsc2UsImNyaXQiOlsiYjY0Il19..A5dxf2s96_n5FLueVuW1Z_vh161FwXZC4YLPff6dmDY"

	rfc8037Token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc." +
		"hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
)

func TestRFCVectorsAreAccepted(t *testing.T) {
	bilbo, figure13 := wycheproofJWS(t, 345)
	for _, v := range []struct{ name, key, token, weighsCommon string }{
		{"RFC 7515 A.2 RS256", tokentest.RFC7515A2Key, rfc7515A2Token, "RS256"},
		{"RFC 7515 A.3 ES256", tokentest.RFC7515A3Key, rfc7515A3Token, "ES256"},
		{"RFC 8037 A.4 and A.5 Ed25519", tokentest.RFC8037Key, rfc8037Token, "EdDSA"},
		{"RFC 7520 4.1 RS256", string(bilbo), figure13, "RS256"},
	} {
		t.Run(v.name, func(t *testing.T) {
			if err := acceptsJWS([]byte(v.key), v.token, testkeys.Algorithms); err != nil {
				t.Error(err)
			}
			for _, a := range testkeys.Algorithms {
				if err := acceptsJWS([]byte(v.key), v.token, []oauth.Algorithm{a}); (err == nil) != (string(a) == v.weighsCommon) {
					t.Errorf("%s alone: %v", a, err)
				}
			}
			// The same signature over a changed byte, and no signature.
			head, rest, _ := strings.Cut(v.token, ".")
			payload, signature, _ := strings.Cut(rest, ".")
			for _, bad := range []string{
				head + "." + payload[:len(payload)-4] + "AAAA." + signature,
				head + "." + payload + ".",
				head + ".." + signature,
			} {
				if acceptsJWS([]byte(v.key), bad, testkeys.Algorithms) == nil {
					t.Errorf("accepted %s", bad)
				}
			}
		})
	}
}

func TestRFCVectorsOutsideTheProfileAreRefused(t *testing.T) {
	decode := func(text string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// The vectors are good under their own algorithms, so the refusals below are due to the algorithm.
	mac := hmac.New(sha256.New, decode(rfc7515A1Key))
	input, tag := cutLast(rfc7515A1Token)
	mac.Write([]byte(input))
	if !hmac.Equal(mac.Sum(nil), decode(tag)) {
		t.Fatal("RFC 7515 A.1 is written down wrongly")
	}
	sig := decode(rfc7515A4Sig)
	digest := sha512.Sum512([]byte(rfc7515A4Input))
	es512 := ecdsa.PublicKey{Curve: elliptic.P521(), X: new(big.Int).SetBytes(decode(rfc7515A4X)), Y: new(big.Int).SetBytes(decode(rfc7515A4Y))} //lint:ignore SA1019 the vector is given in coordinates
	if !ecdsa.Verify(&es512, digest[:], new(big.Int).SetBytes(sig[:66]), new(big.Int).SetBytes(sig[66:])) {
		t.Fatal("RFC 7515 A.4 is written down wrongly")
	}

	octKey := `{"kty":"oct","k":"` + rfc7515A1Key + `"}`
	es512Key := `{"kty":"EC","crv":"P-521","x":"` + rfc7515A4X + `","y":"` + rfc7515A4Y + `"}`
	bilbo, figure13 := wycheproofJWS(t, 345)
	head, rest, _ := strings.Cut(figure13, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	type vector struct{ name, key, token string }
	vectors := []vector{
		{"RFC 7515 A.1 HS256", octKey, rfc7515A1Token},
		{"RFC 7515 A.4 ES512", es512Key, rfc7515A4Input + "." + rfc7515A4Sig},
		{"RFC 7515 A.5 none", tokentest.RFC7515A2Key, rfc7515A5Token},
		{"RFC 7515 A.6 general JSON", tokentest.RFC7515A3Key, `{"payload":"` + rfc7515Payload + `","signatures":[` +
			`{"protected":"eyJhbGciOiJSUzI1NiJ9","header":{"kid":"2010-12-29"},"signature":"` + rfc7515A2Signature + `"},` +
			`{"protected":"eyJhbGciOiJFUzI1NiJ9","header":{"kid":"e9bc097a-ce51-4036-9562-d2ade882db0d"},"signature":"` + rfc7515A3Signature + `"}]}`},
		{"RFC 7515 A.7 flattened JSON", tokentest.RFC7515A3Key, `{"payload":"` + rfc7515Payload + `","protected":"eyJhbGciOiJFUzI1NiJ9",` +
			`"header":{"kid":"e9bc097a-ce51-4036-9562-d2ade882db0d"},"signature":"` + rfc7515A3Signature + `"}`},
		{"RFC 7515 appendix F detached", tokentest.RFC7515A3Key, "eyJhbGciOiJFUzI1NiJ9.." + rfc7515A3Signature},
		{"RFC 7797 b64=false", octKey, rfc7797Token},
		{"RFC 7520 4.5 detached, on the key of 4.1", string(bilbo), head + ".." + signature},
		{"RFC 7520 4.6 flattened JSON, on the key of 4.1", string(bilbo), `{"payload":"` + payload + `","protected":"` + head + `","header":{"kid":"x"},"signature":"` + signature + `"}`},
		{"RFC 7520 4.7 unprotected header only, on the key of 4.1", string(bilbo), `{"payload":"` + payload + `","header":{"alg":"RS256"},"signature":"` + signature + `"}`},
		{"RFC 7520 4.8 general JSON, on the key of 4.1", string(bilbo), `{"payload":"` + payload + `","signatures":[{"protected":"` + head + `","signature":"` + signature + `"}]}`},
	}
	for id, name := range map[int]string{346: "RFC 7520 4.2 PS384", 347: "RFC 7520 4.3 ES512", 348: "RFC 7520 4.4 HS256"} {
		key, token := wycheproofJWS(t, id)
		vectors = append(vectors, vector{name, string(key), token})
	}
	g := newGate(t)
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			if acceptsJWS([]byte(v.key), v.token, testkeys.Algorithms) == nil {
				t.Error("accepted")
			}
			g.refuses(t, v.token, "header_extension", "header_unexpected", "token_malformed")
		})
	}
}
