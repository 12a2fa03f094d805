package token

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/internal/vectors"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// wycheproofExceptions are the cases that are not judged by their label.
//
//   - 367 and 370 are called invalid and are byte for byte 357, which is called valid (C2SP/wycheproof#236); 372 and
//     373 are called valid and hold a question mark in their base64url. All four are HS256, so no verdict of ours
//     depends on them; the test checks that this stays so.
//   - 46 of json_web_crypto and 7 of json_web_key are signatures under a ROCA key: a sound RSA signature under a weak
//     modulus. We generate our own keys.
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

// compact returns the token of a case. It returns the text of a case that is a JSON object.
func compact(raw json.RawMessage) string {
	var token string
	if json.Unmarshal(raw, &token) == nil {
		return token
	}
	return string(raw)
}

// publishedKeys loads a key, or a set of keys, as that of an issuer with these algorithms.
func publishedKeys(rawKey []byte, algorithms []oauth.Algorithm) (list []*keys.VerificationKey, err error) {
	if !bytes.Contains(rawKey, []byte(`"keys"`)) {
		rawKey = slices.Concat([]byte(`{"keys":[`), rawKey, []byte(`]}`))
	}
	set, err := keys.ParseJWKS(rawKey, algorithms)
	for _, published := range set {
		list = append(list, published.Keys...)
	}
	return list, err
}

// acceptsJWS loads the key as one of an issuer with these algorithms and checks the signature alone, because the
// payloads are not claims. A key without an algorithm is loaded once for each that fits it.
func acceptsJWS(rawKey json.RawMessage, token string, algorithms []oauth.Algorithm) error {
	list, err := publishedKeys(rawKey, algorithms)
	if err != nil {
		return err
	}
	j := new(jws)
	if err := j.parse(token, nil); err != nil {
		return err
	}
	one := !slices.ContainsFunc(list, func(k *keys.VerificationKey) bool { return k.ID != list[0].ID })
	for _, key := range list {
		if (one || key.ID == j.header.KeyID) && string(key.Algorithm) == j.header.Algorithm {
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

// TestG120WycheproofJWS: Wycheproof's JOSE signatures for each algorithm → the listed verdicts. The lists of what is accepted are written
// out: a verdict that changes shows here.
func TestG120WycheproofJWS(t *testing.T) {
	own := map[string][]oauth.Algorithm{"own": testkeys.Algorithms, "ES256": {oauth.ES256}, "RS256": {oauth.RS256}, "EdDSA": {oauth.EdDSA}}
	all := maps.Clone(own)
	all["trusted"] = oauth.TrustedAlgorithms
	for _, file := range []struct {
		name     string
		judged   int
		issuers  map[string][]oauth.Algorithm
		accepted map[string][]int
	}{
		{"json_web_signature", 401, all, map[string][]int{
			"own": {18, 33, 259, 260, 261, 262, 263, 345, 349, 378}, "ES256": {18, 378}, "RS256": {33, 259, 260, 261, 262, 263, 345, 349},
			"trusted": {18, 33, 259, 260, 261, 262, 263, 264, 265, 266, 267, 268, 269, 270, 271, 272, 273, 274, 275, 287, 288, 320, 321, 322, 323, 325, 326, 327,
				328, 345, 349, 378},
		}},
		{"json_web_crypto", 48, own, map[string][]int{"own": {18, 33}, "ES256": {18}, "RS256": {33}}},
		{"json_web_key", 25, own, map[string][]int{"own": {5}, "RS256": {5}}},
	} {
		var cases joseFile
		vectors.Read(t, file.name, &cases)
		for name, algorithms := range file.issuers {
			t.Run(file.name+"/"+name, func(t *testing.T) {
				g := newGate(t)
				var accepted []int
				judged := 0
				for _, group := range cases.Groups {
					rawKey := group.Public
					if rawKey == nil {
						rawKey = group.Private
					}
					for _, c := range group.Tests {
						exception := slices.Contains(wycheproofExceptions[file.name], c.ID)
						if c.JWS == nil || exception && file.name != "json_web_signature" {
							continue
						}
						judged++
						token := compact(c.JWS)
						alg := headerAlgorithm(token)
						right := c.Result == "valid" && slices.Contains(algorithms, oauth.Algorithm(alg)) && alg == keyAlgorithm(rawKey)
						if exception && (right || alg == string(oauth.ES256)) {
							t.Errorf("case %d: the exception has become one of ours", c.ID)
						}
						err := acceptsJWS(rawKey, token, algorithms)
						if (err == nil) != right {
							t.Errorf("case %d (%s, %s): %v", c.ID, c.Result, group.Comment, err)
						}
						if err == nil {
							accepted = append(accepted, c.ID)
						}
						// None of them is accepted as a token of ours.
						g.refuses(t, token, "header_unexpected", "token_malformed")
					}
				}
				slices.Sort(accepted)
				if want := file.accepted[name]; judged != file.judged || !slices.Equal(accepted, want) {
					t.Errorf("judged %d, accepted %v; want %d, %v", judged, accepted, file.judged, want)
				}
			})
		}
	}
}

// TestWycheproofKeys pins which keys of json_web_key the loader itself refuses.
func TestWycheproofKeys(t *testing.T) {
	var cases joseFile
	vectors.Read(t, "json_web_key", &cases)
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
			if _, err := publishedKeys(rawKey, oauth.OwnAlgorithms); err == nil {
				loaded = append(loaded, c.ID)
			}
		}
	}
	if !slices.Equal(loaded, []int{5}) {
		t.Errorf("the loader takes the keys of %v, want those of case 5 only", loaded)
	}
}

// TestG22WycheproofJWEIsRefused: 173 encrypted tokens of Wycheproof → 401, no decryption, no inflation. Nothing here can decrypt.
func TestG22WycheproofJWEIsRefused(t *testing.T) {
	g := newGate(t)
	for name, want := range map[string]int{"json_web_encryption": 139, "json_web_crypto": 34} {
		var cases joseFile
		vectors.Read(t, name, &cases)
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

// TestWycheproofHMACIsRefused: no symmetric key can be loaded, and no HMAC tag is accepted as a signature under any
// of our keys.
func TestWycheproofHMACIsRefused(t *testing.T) {
	var f vectors.Messages
	vectors.Read(t, "hmac_sha256", &f)
	g := newGate(t)
	cases := 0
	for _, group := range f.Groups {
		for _, c := range group.Tests {
			cases++
			k := base64.RawURLEncoding.EncodeToString(vectors.Unhex(t, c.Key))
			if _, err := publishedKeys([]byte(`{"kty":"oct","alg":"HS256","k":"`+k+`"}`), oauth.OwnAlgorithms); err == nil {
				t.Errorf("case %d: the symmetric key was loaded", c.ID)
			}
			msg, tag := vectors.Unhex(t, c.Msg), vectors.Unhex(t, c.Tag)
			for _, key := range g.signing {
				if key.VerifySignature(string(msg), tag) == nil {
					t.Errorf("case %d: a tag passes for a signature under %s", c.ID, key.Algorithm)
				}
			}
			g.refuses(t, tokentest.Encode(testkeys.Header(g.signing[oauth.ES256], "alg", `"HS256"`))+"."+tokentest.Encode(string(msg)+" ")+"."+tokentest.Encode(string(tag)), "algorithm_mismatch")
		}
	}
	if cases != 174 {
		t.Errorf("%d cases, want 174", cases)
	}
}

// wycheproofJWS returns one JWS case with its key, for tests that build on it.
func wycheproofJWS(tb testing.TB, id int) (key json.RawMessage, token string) {
	tb.Helper()
	var cases joseFile
	vectors.Read(tb, "json_web_signature", &cases)
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
