package accesstoken

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/c2sp/wycheproof"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// wycheproofExceptions are the cases that are not judged by their label.
//
//   - 367 and 370 are called invalid and are byte for byte 357, which is called valid (C2SP/wycheproof#236); 372 and
//     373 are called valid and hold a question mark in their base64url. All four are HS256, so no verdict of ours
//     depends on them; the test checks that this stays so.
//   - 46 of json_web_crypto and 7 of json_web_key are signatures under a ROCA key: a sound RSA signature under a weak
//     modulus. We make our keys ourselves and take fingerprints of nobody else's.
var wycheproofExceptions = map[string][]int{
	"json_web_signature": {367, 370, 372, 373},
	"json_web_crypto":    {46},
	"json_web_key":       {7},
}

// joseFile is a Wycheproof file of JWS and JWE cases.
type joseFile struct {
	Groups []struct {
		Comment string
		Private json.RawMessage
		Public  json.RawMessage
		Tests   []struct {
			ID     int `json:"tcId"`
			JWS    json.RawMessage
			JWE    json.RawMessage
			Result string
		}
	} `json:"testGroups"`
}

// primitiveFile is a Wycheproof file of signatures over a message.
type primitiveFile struct {
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

func readWycheproof(tb testing.TB, name string, into any) {
	tb.Helper()
	data, err := fs.ReadFile(wycheproof.TestVectors, name+"_test.json")
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		tb.Fatal(err)
	}
}

// compact returns the token of a case; a case that is a JSON object is passed as its text.
func compact(raw json.RawMessage) string {
	var token string
	if json.Unmarshal(raw, &token) == nil {
		return token
	}
	return string(raw)
}

// acceptsJWS loads the key through the loader and checks the signature alone: the payloads are not claims.
func acceptsJWS(rawKey json.RawMessage, token string, profile []oauth.Algorithm) error {
	var ks []*keys.VerificationKey
	if bytes.Contains(rawKey, []byte(`"keys"`)) {
		set, err := parseOwnJWKS(rawKey)
		if err != nil {
			return err
		}
		ks = set
	} else {
		key, err := parseOwnJWK(rawKey)
		if err != nil {
			return err
		}
		ks = []*keys.VerificationKey{key}
	}
	j, err := parseJWS(token)
	if err != nil {
		return err
	}
	for _, key := range ks {
		if (len(ks) == 1 || key.ID == j.header.KeyID) && slices.Contains(profile, key.Algorithm) {
			return j.verify(key)
		}
	}
	return errors.New("no key")
}

// headerAlgorithm reads a token's alg without any of our code.
func headerAlgorithm(token string) string {
	first, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return ""
	}
	var h struct{ Alg string }
	if json.Unmarshal(raw, &h) != nil {
		return ""
	}
	return h.Alg
}

func keyAlgorithm(raw json.RawMessage) string {
	var k struct {
		Alg  string
		Keys []struct{ Alg string }
	}
	_ = json.Unmarshal(raw, &k)
	if len(k.Keys) > 0 {
		return k.Keys[0].Alg
	}
	return k.Alg
}

// TestWycheproofJWS holds the three files of signatures in JOSE form against the profile, and against each algorithm
// of it alone. The lists of what is accepted are written out: a verdict that changes shows here.
func TestWycheproofJWS(t *testing.T) {
	for _, file := range []struct {
		name     string
		judged   int
		accepted map[oauth.Algorithm][]int
	}{
		{"json_web_signature", 401, map[oauth.Algorithm][]int{oauth.ES256: {18, 378}, oauth.RS256: {33, 259, 260, 261, 262, 263, 345, 349}}},
		{"json_web_crypto", 48, map[oauth.Algorithm][]int{oauth.ES256: {18}, oauth.RS256: {33}}},
		{"json_web_key", 25, map[oauth.Algorithm][]int{oauth.RS256: {5}}},
	} {
		var cases joseFile
		readWycheproof(t, file.name, &cases)
		profiles := map[string][]oauth.Algorithm{"all": allAlgorithms}
		for _, a := range allAlgorithms {
			profiles[string(a)] = []oauth.Algorithm{a}
		}
		for name, profile := range profiles {
			t.Run(file.name+"/"+name, func(t *testing.T) {
				g := newGate(t)
				var want, accepted []int
				for _, a := range profile {
					want = append(want, file.accepted[a]...)
				}
				slices.Sort(want)
				judged := 0
				for _, group := range cases.Groups {
					rawKey := group.Public
					if rawKey == nil {
						rawKey = group.Private
					}
					for _, c := range group.Tests {
						if c.JWS == nil || file.name != "json_web_signature" && slices.Contains(wycheproofExceptions[file.name], c.ID) {
							continue
						}
						judged++
						token := compact(c.JWS)
						alg := headerAlgorithm(token)
						right := c.Result == "valid" && slices.Contains(profile, oauth.Algorithm(alg)) && alg == keyAlgorithm(rawKey)
						if slices.Contains(wycheproofExceptions[file.name], c.ID) && (right || alg == string(oauth.ES256)) {
							t.Errorf("case %d: the exception has become one of ours", c.ID)
						}
						err := acceptsJWS(rawKey, token, profile)
						if (err == nil) != right {
							t.Errorf("case %d (%s, %s): %v", c.ID, c.Result, group.Comment, err)
						}
						if err == nil {
							accepted = append(accepted, c.ID)
						}
						// None of them is a token of ours.
						g.refuses(t, token, "header_unexpected", "token_malformed")
					}
				}
				slices.Sort(accepted)
				if judged != file.judged || !slices.Equal(accepted, want) {
					t.Errorf("judged %d, accepted %v; want %d, %v", judged, accepted, file.judged, want)
				}
			})
		}
	}
}

// TestWycheproofKeys pins which keys of json_web_key the loader itself refuses.
func TestWycheproofKeys(t *testing.T) {
	var cases joseFile
	readWycheproof(t, "json_web_key", &cases)
	var loaded []int
	for _, group := range cases.Groups {
		rawKey := group.Public
		if rawKey == nil {
			rawKey = group.Private
		}
		for _, c := range group.Tests {
			if slices.Contains(wycheproofExceptions["json_web_key"], c.ID) {
				continue
			}
			if _, err := parseOwnJWKS(rawKey); err == nil {
				loaded = append(loaded, c.ID)
			}
		}
	}
	if !slices.Equal(loaded, []int{5}) {
		t.Errorf("the loader takes the keys of %v, want those of case 5 only", loaded)
	}
}

// TestG22WycheproofJWEIsRefused presents every encrypted token as a bearer token. Nothing here can decrypt.
func TestG22WycheproofJWEIsRefused(t *testing.T) {
	g := newGate(t)
	for name, want := range map[string]int{"json_web_encryption": 139, "json_web_crypto": 34} {
		var cases joseFile
		readWycheproof(t, name, &cases)
		n := 0
		for _, group := range cases.Groups {
			for _, c := range group.Tests {
				if c.JWE == nil {
					continue
				}
				n++
				g.refuses(t, compact(c.JWE), "token_malformed")
			}
		}
		if n != want {
			t.Errorf("%s has %d cases, want %d", name, n, want)
		}
	}
}

// primitiveKey loads the key of a group as a JWK, or as DER where there is none.
func primitiveKey(jwk json.RawMessage, der string, algorithm oauth.Algorithm) (key *keys.VerificationKey, fromDER bool, err error) {
	if jwk != nil {
		key, err = parseOwnJWK(jwk)
		return key, false, err
	}
	raw, err := hex.DecodeString(der)
	if err != nil {
		return nil, true, err
	}
	public, err := x509.ParsePKIXPublicKey(raw)
	if err != nil {
		return nil, true, err
	}
	if err := keys.checkKey(public, algorithm); err != nil {
		return nil, true, err
	}
	return &keys.VerificationKey{Algorithm: algorithm, public: public}, true, nil
}

// TestWycheproofSignatures runs the files of bare signatures through the one place that checks a signature.
func TestWycheproofSignatures(t *testing.T) {
	for _, file := range []struct {
		name                              string
		algorithm                         oauth.Algorithm
		cases, accepted, valid, smallExps int
		fromDER                           int
	}{
		{name: "ecdsa_secp256r1_sha256_p1363", algorithm: oauth.ES256, cases: 262, valid: 173, accepted: 173, fromDER: 10},
		{name: "ed25519", algorithm: oauth.EdDSA, cases: 151, valid: 88, accepted: 88},
		{name: "rsa_signature_2048_sha256", algorithm: oauth.RS256, cases: 259, valid: 9, accepted: 7, smallExps: 2},
		{name: "rsa_signature_3072_sha256", algorithm: oauth.RS256, cases: 259, valid: 8, accepted: 7, smallExps: 1},
		{name: "rsa_signature_4096_sha256", algorithm: oauth.RS256, cases: 258, valid: 7, accepted: 7},
		{name: "rsa_pss_2048_sha256_mgf1_32", cases: 108, valid: 63, accepted: 1},
		{name: "rsa_pss_3072_sha256_mgf1_32", cases: 108, valid: 63, accepted: 1},
		{name: "rsa_pss_4096_sha256_mgf1_32", cases: 108, valid: 63, accepted: 1},
	} {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			var f primitiveFile
			readWycheproof(t, file.name, &f)
			var cases, valid, accepted, smallExps, fromDER int
			for _, group := range f.Groups {
				rawKey := group.PublicKeyJWK
				if rawKey == nil {
					rawKey = group.KeyJWK
				}
				key, der, err := primitiveKey(rawKey, group.PublicKeyDER, file.algorithm)
				// The loader refuses a PS256 key. Forced into an RS256 key, it must not make a salted signature pass; case
				// 108, invalid as PS256, is a PKCS #1 v1.5 signature and therefore good.
				if file.algorithm == "" {
					if err == nil {
						t.Error("the loader takes a PS256 key")
					}
					if key, _, err = primitiveKey(nil, group.PublicKeyDER, oauth.RS256); err != nil {
						t.Fatal(err)
					}
				}
				for _, c := range group.Tests {
					cases++
					if c.Result == "valid" {
						valid++
					}
					if err != nil {
						if c.Result == "valid" {
							smallExps++
						}
						continue
					}
					msg, sig := unhex(t, c.Msg), unhex(t, c.Sig)
					ok := key.VerifySignature(string(msg), sig) == nil
					right := c.Result == "valid" && file.algorithm != ""
					if file.algorithm == "" && c.ID == 108 {
						right = true
					}
					if ok != right {
						t.Errorf("case %d (%s) is %s, accepted %t", c.ID, c.Comment, c.Result, ok)
					}
					if der {
						fromDER++
					}
					if ok {
						accepted++
					}
				}
			}
			got := fmt.Sprint(cases, valid, accepted, smallExps, fromDER)
			want := fmt.Sprint(file.cases, file.valid, file.accepted, file.smallExps, file.fromDER)
			if got != want {
				t.Errorf("cases, valid, accepted, small exponents, from DER: %s, want %s", got, want)
			}
		})
	}
}

// TestWycheproofHMACIsRefused: no symmetric key can be loaded, and no tag is a signature under any key of ours.
func TestWycheproofHMACIsRefused(t *testing.T) {
	var f primitiveFile
	readWycheproof(t, "hmac_sha256", &f)
	g := newGate(t)
	cases := 0
	for _, group := range f.Groups {
		for _, c := range group.Tests {
			cases++
			k := base64.RawURLEncoding.EncodeToString(unhex(t, c.Key))
			if _, err := parseOwnJWK([]byte(`{"kty":"oct","alg":"HS256","k":"` + k + `"}`)); err == nil {
				t.Errorf("case %d: the symmetric key was loaded", c.ID)
			}
			msg, tag := unhex(t, c.Msg), unhex(t, c.Tag)
			for _, key := range g.signing {
				if key.VerifySignature(string(msg), tag) == nil {
					t.Errorf("case %d: a tag passes for a signature under %s", c.ID, key.Algorithm)
				}
			}
			g.refuses(t, encode(header(g.signing[oauth.ES256], "alg", `"HS256"`))+"."+encode(string(msg)+" ")+"."+encode(string(tag)), "algorithm_mismatch")
		}
	}
	if cases != 174 {
		t.Errorf("%d cases, want 174", cases)
	}
}

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// wycheproofJWS returns one JWS case with its key, for tests that build on it.
func wycheproofJWS(tb testing.TB, id int) (key json.RawMessage, token string) {
	tb.Helper()
	var cases joseFile
	readWycheproof(tb, "json_web_signature", &cases)
	for _, group := range cases.Groups {
		for _, c := range group.Tests {
			if c.ID == id {
				if key = group.Public; key == nil {
					key = group.Private
				}
				return key, compact(c.JWS)
			}
		}
	}
	tb.Fatal("no case " + strconv.Itoa(id))
	return nil, ""
}
