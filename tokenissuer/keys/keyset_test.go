package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func stored(t *testing.T, key *SigningKey, sealer *Sealer) store.StoredKey {
	t.Helper()
	s, err := key.Stored(sealer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestK4AFaultyStoreNeverGetsAFreshKey: a key row empty, cut, garbage or of another key → the start is refused. A new
// key in place of an unreadable one would invalidate every token and hide the fault.
func TestK4AFaultyStoreNeverGetsAFreshKey(t *testing.T) {
	good := stored(t, sharedKeys()[oauth.ES256], nil)
	edit := func(f func(*store.StoredKey)) store.StoredKey {
		k := good
		k.Private = slices.Clone(good.Private)
		f(&k)
		return k
	}
	otherKey := stored(t, foreignKeys()[oauth.ES256], nil)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384DER, err := x509.MarshalPKCS8PrivateKey(p384)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]store.StoredKey{
		"empty":            edit(func(k *store.StoredKey) { k.Private = nil }),
		"truncated":        edit(func(k *store.StoredKey) { k.Private = k.Private[:len(k.Private)/2] }),
		"garbage":          edit(func(k *store.StoredKey) { k.Private = []byte(strings.Repeat("garbage", 20)) }),
		"zeros":            edit(func(k *store.StoredKey) { k.Private = make([]byte, len(k.Private)) }),
		"all empty":        {},
		"algorithm empty":  edit(func(k *store.StoredKey) { k.Algorithm = "" }),
		"algorithm other":  edit(func(k *store.StoredKey) { k.Algorithm = oauth.RS256 }),
		"algorithm HS256":  edit(func(k *store.StoredKey) { k.Algorithm = "HS256" }),
		"another's key":    edit(func(k *store.StoredKey) { k.Private = otherKey.Private }),
		"another's id":     edit(func(k *store.StoredKey) { k.ID = otherKey.ID }),
		"curve P-384":      edit(func(k *store.StoredKey) { k.Private = p384DER }),
		"sealed, no KEK":   edit(func(k *store.StoredKey) { k.SealedWith = "0123456789abcdef" }),
		"sealed and empty": edit(func(k *store.StoredKey) { k.SealedWith, k.Private = "0123456789abcdef", nil }),
	} {
		// This holds for every requested algorithm, with and without a good key next to the bad one.
		for _, algorithm := range oauth.OwnAlgorithms {
			for _, rows := range [][]store.StoredKey{{bad}, {good, bad}, {bad, good}} {
				st := NewFaultyStore(t)
				st.Read = func([]store.StoredKey) ([]store.StoredKey, error) { return slices.Clone(rows), nil }
				keys, err := LoadSigningKeys(t.Context(), st, nil, tokentest.Start, algorithm)
				if err == nil || keys != nil {
					t.Errorf("%s, %s: loaded %d keys", name, algorithm, len(keys))
				}
				if st.Asked("adding first signing key")+st.Asked("adding signing key") != 0 {
					t.Errorf("%s, %s: a fresh key was added", name, algorithm)
				}
			}
		}
	}
	for _, algorithm := range oauth.OwnAlgorithms {
		st := NewFaultyStore(t)
		st.Fail("SigningKeys")
		_, err := LoadSigningKeys(t.Context(), st, nil, tokentest.Start, algorithm)
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
		if st.Asked("adding first signing key") != 0 {
			t.Error("an unreadable store got a fresh key")
		}
	}
}

func TestAnEmptyStoreGetsItsFirstKeyOnce(t *testing.T) {
	st := NewFaultyStore(t)
	first, err := LoadSigningKeys(t.Context(), st, nil, tokentest.Start, oauth.ES256)
	if err != nil || len(first) != 1 || first[0].Algorithm != oauth.ES256 {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := LoadSigningKeys(t.Context(), st, nil, tokentest.Start, oauth.ES256)
	if err != nil || len(again) != 1 || again[0].ID != first[0].ID || st.Asked("adding first signing key") != 1 {
		t.Fatalf("%v, %v, added %d", again, err, st.Asked("adding first signing key"))
	}
	// With another algorithm, the old key stays for the tokens it has signed.
	both, err := LoadSigningKeys(t.Context(), st, nil, tokentest.Start.Add(time.Hour), oauth.EdDSA)
	if err != nil || len(both) != 2 || both[0].ID != first[0].ID || both[1].Algorithm != oauth.EdDSA {
		t.Fatalf("%v, %v", both, err)
	}
	set := new(Set)
	if err := set.Replace(both, oauth.EdDSA); err != nil {
		t.Fatal(err)
	}
	if key, err := set.Signing(tokentest.Start.Add(time.Hour)); err != nil || key.ID != first[0].ID {
		t.Errorf("before anybody can know the new key, %v signs, %v", key, err)
	}
	if key, err := set.Signing(tokentest.Start.Add(time.Hour + Lead)); err != nil || key.ID != both[1].ID {
		t.Errorf("%v, %v signs", key, err)
	}
	if list := set.List(); len(list) != 2 || list[0].ID != first[0].ID {
		t.Errorf("list %v", list)
	}
	st = NewFaultyStore(t)
	st.Fail("adding first signing key")
	_, err = LoadSigningKeys(t.Context(), st, nil, tokentest.Start, oauth.ES256)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	// Of two nodes that add a first key at once, one wins and the other uses the winner's.
	winner := stored(t, sharedKeys()[oauth.ES256], nil)
	race := NewFaultyStore(t)
	race.Before = func(step string) error {
		if step != "adding first signing key" {
			return nil
		}
		return race.KeyStore.ChangeKeys(t.Context(), store.AddFirstKey(winner))
	}
	keys, err := LoadSigningKeys(t.Context(), race, nil, tokentest.Start, oauth.ES256)
	if err != nil || len(keys) != 1 || keys[0].ID != winner.ID {
		t.Errorf("%v, %v", keys, err)
	}
}

func TestKeySetWithoutKeysIsUnavailable(t *testing.T) {
	set := new(Set)
	_, err1 := set.Signing(tokentest.Start)
	_, err2 := set.Find("x", "")
	_, err3 := set.JWKS()
	for _, err := range []error{err1, err2, err3} {
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	}
	if set.List() != nil {
		t.Error("an empty set lists keys")
	}
	if err := set.Replace([]*SigningKey{sharedKeys()[oauth.EdDSA]}, oauth.ES256); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Signing(tokentest.Start); err == nil {
		t.Error("a key of another algorithm signs")
	}
	if _, err := set.Find(sharedKeys()[oauth.EdDSA].ID, ""); err != nil {
		t.Error("and does not verify")
	}
}

func TestK8JWKSHoldsPublicMembersOnly(t *testing.T) {
	held := new(Set)
	if err := held.Replace(slices.Collect(maps.Values(sharedKeys())), oauth.ES256); err != nil {
		t.Fatal(err)
	}
	data, err := held.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []map[string]any }
	if err := json.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 3 {
		t.Fatalf("%d keys", len(set.Keys))
	}
	members := map[string][]string{
		"EC": {"alg", "crv", "kid", "kty", "use", "x", "y"}, "OKP": {"alg", "crv", "kid", "kty", "use", "x"}, "RSA": {"alg", "e", "kid", "kty", "n", "use"},
	}
	algorithms := map[string]oauth.Algorithm{"EC": oauth.ES256, "OKP": oauth.EdDSA, "RSA": oauth.RS256}
	for _, k := range set.Keys {
		kty, _ := k["kty"].(string)
		var names []string
		for name := range k {
			names = append(names, name)
		}
		slices.Sort(names)
		key := sharedKeys()[algorithms[kty]]
		if key == nil || !slices.Equal(names, members[kty]) || k["use"] != "sig" || k["alg"] != string(key.Algorithm) || k["kid"] != key.ID {
			t.Errorf("key %v", k)
		}
		print, err := thumbprint(key.public)
		if err != nil || print != k["kid"] {
			t.Errorf("kid %v, thumbprint %s, %v", k["kid"], print, err)
		}
	}
	for _, key := range sharedKeys() {
		der, err := x509.MarshalPKCS8PrivateKey(key.private)
		if err != nil {
			t.Fatal(err)
		}
		tail := base64.RawURLEncoding.EncodeToString(der[len(der)-24:])
		if strings.Contains(string(data), tail) {
			t.Error("the set holds private bytes")
		}
	}
	// Our own loader reads the keys that we publish.
	keys, err := parseOwnJWKS(data)
	if err != nil || len(keys) != 3 {
		t.Fatalf("%v, %v", keys, err)
	}
	for _, key := range keys {
		public := key.public.(interface{ Equal(crypto.PublicKey) bool })
		if own := sharedKeys()[key.Algorithm]; own.ID != key.ID || !public.Equal(own.public) {
			t.Errorf("%s reads back as another key", key.Algorithm)
		}
	}
	none := new(Set)
	if err := none.Replace(nil, oauth.ES256); err != nil {
		t.Fatal(err)
	}
	if data, err := none.JWKS(); err != nil || string(data) != `{"keys":[]}` {
		t.Errorf("no keys: %s, %v", data, err)
	}
}

func ecJWK(edits ...string) string {
	return tokentest.Object([]string{"kty", `"EC"`, "crv", `"P-256"`, "x", `"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"`, "y", `"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"`, "kid", `"a"`}, edits)
}

// TestK10TheLoaderRefusesUnfitKeys: small RSA, weak exponents, wrong curves, symmetric, doubled or encryption keys → refused.
func TestK10TheLoaderRefusesUnfitKeys(t *testing.T) {
	encodeInt := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	rsaJWK := func(n, e *big.Int) string {
		return `{"kty":"RSA","kid":"r","n":"` + encodeInt(n) + `","e":"` + encodeInt(e) + `"}`
	}
	n := sharedKeys()[oauth.RS256].public.(*rsa.PublicKey).N
	n1024 := new(big.Int).SetBit(new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 1023), big.NewInt(1)), 1, 1)
	f4 := big.NewInt(65537)
	for name, key := range map[string]string{
		"RSA 1024": rsaJWK(n1024, f4), "RSA 2047": rsaJWK(new(big.Int).Rsh(n, 1).SetBit(new(big.Int).Rsh(n, 1), 0, 1), f4), "even modulus": rsaJWK(new(big.Int).Sub(n, big.NewInt(1)), f4),
		"e 1": rsaJWK(n, big.NewInt(1)), "e 3": rsaJWK(n, big.NewInt(3)), "e 17": rsaJWK(n, big.NewInt(17)), "e 65535": rsaJWK(n, big.NewInt(65535)), "e even": rsaJWK(n, big.NewInt(65538)),
		"e 0": rsaJWK(n, new(big.Int)), "e 2^31": rsaJWK(n, big.NewInt(1<<31)), "e 2^64+1": rsaJWK(n, new(big.Int).SetBit(big.NewInt(1), 64, 1)), "no n": `{"kty":"RSA","e":"AQAB"}`,
		"P-384": ecJWK("crv", `"P-384"`), "P-384 as ES256": ecJWK("crv", `"P-384"`, "alg", `"ES256"`), "P-521": ecJWK("crv", `"P-521"`), "secp256k1": ecJWK("crv", `"secp256k1"`), "crv absent": ecJWK("crv", ""),
		"off the curve": ecJWK("y", `"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a1"`), "off the curve by one": ecJWK("y", `"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a4"`),
		"point at infinity": ecJWK("x", `"`+strings.Repeat("A", 43)+`"`, "y", `"`+strings.Repeat("A", 43)+`"`),
		"x short":           ecJWK("x", `"83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"`), "x absent": ecJWK("x", ""), "x padded": ecJWK("x", `"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU="`),
		"oct": `{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMko"}`, "oct HS256": `{"kty":"oct","alg":"HS256","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMko"}`, "kty absent": ecJWK("kty", ""), "kty lower case": ecJWK("kty", `"ec"`),
		"use enc": ecJWK("use", `"enc"`), "use SIG": ecJWK("use", `"SIG"`), "use number": ecJWK("use", "1"),
		"key_ops encrypt": ecJWK("key_ops", `["encrypt"]`), "key_ops sign": ecJWK("key_ops", `["sign"]`), "key_ops text": ecJWK("key_ops", `"verify"`), "key_ops deriveKey": ecJWK("key_ops", `["deriveKey","wrapKey"]`),
		"alg ES384": ecJWK("alg", `"ES384"`), "alg RS256 on EC": ecJWK("alg", `"RS256"`), "alg none": ecJWK("alg", `"none"`), "alg HS256": ecJWK("alg", `"HS256"`), "alg ECDH-ES": ecJWK("alg", `"ECDH-ES"`),
		"RSA PS256": strings.Replace(rsaJWK(n, f4), `"kty"`, `"alg":"PS256","kty"`, 1), "RSA RSA-OAEP": strings.Replace(rsaJWK(n, f4), `"kty"`, `"alg":"RSA-OAEP","kty"`, 1),
		"Ed448": `{"kty":"OKP","crv":"Ed448","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`, "X25519": `{"kty":"OKP","crv":"X25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`,
		"Ed25519 short": `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHUR"}`, "Ed25519 as ES256": `{"kty":"OKP","crv":"Ed25519","alg":"ES256","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`,
		"duplicate member": strings.Replace(ecJWK(), `"kid"`, `"kty":"EC","kid"`, 1), "not JSON": "x", "null": "null", "array": "[]", "PEM": "-----BEGIN PUBLIC KEY-----", "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			if k, err := parseOwnJWK([]byte(key)); err == nil {
				t.Errorf("loaded as %s", k.Algorithm)
			}
			if k, err := parseOwnJWKS([]byte(`{"keys":[` + key + `]}`)); err == nil {
				t.Errorf("loaded from a set as %s", k[0].Algorithm)
			}
		})
	}
	for name, key := range map[string]string{
		"bare": ecJWK(), "use sig": ecJWK("use", `"sig"`), "alg": ecJWK("alg", `"ES256"`), "key_ops": ecJWK("key_ops", `["verify"]`), "both ops": ecJWK("key_ops", `["sign","verify"]`),
		"private half": ecJWK("d", `"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"`), "x5c": ecJWK("x5c", `["MIIB"]`), "RSA": rsaJWK(n, f4), "no kid": ecJWK("kid", ""),
	} {
		if _, err := parseOwnJWK([]byte(key)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestK10SetsThatCannotBeTold(t *testing.T) {
	n := base64.RawURLEncoding.EncodeToString(sharedKeys()[oauth.RS256].public.(*rsa.PublicKey).N.Bytes())
	rsaWith := func(kid, alg string) string {
		return `{"kty":"RSA","e":"AQAB","n":"` + n + `","kid":"` + kid + `","alg":"` + alg + `"}`
	}
	for name, keys := range map[string][]string{
		"duplicate kid": {ecJWK(), ecJWK()}, "duplicate kid, one unusable": {ecJWK(), ecJWK("use", `"enc"`)}, "mixed symmetry": {ecJWK(), `{"kty":"oct","kid":"s","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMko"}`},
		"symmetric without kid": {`{"kty":"oct","k":"AyM1"}`, ecJWK()}, "private": {ecJWK("d", `"AyM1SysPpbyDfgZld3umj1qzKObwVMko"`)}, "a number as kid": {ecJWK("kid", "1"), ecJWK()}, "no object": {"1", ecJWK()}, "nothing": {},
		"one key for two algorithms": {rsaWith("a", "PS256"), rsaWith("b", "RS256")}, "one key for two uses": {ecJWK(), ecJWK("kid", `"e"`, "use", `"enc"`)},
	} {
		if list, err := parseOwnJWKS([]byte(`{"keys":[` + strings.Join(keys, ",") + `]}`)); err == nil {
			t.Errorf("%s: %d keys loaded", name, len(list))
		}
	}
	for _, set := range []string{"", "{}", "[]", "null", `{"keys":{}}`, `{"keys":null}`, `{"Keys":[` + ecJWK() + `]}`, `{"keys":[` + ecJWK() + `],"keys":[]}`, `{"keys":[` + ecJWK() + `]}x`} {
		if _, err := parseOwnJWKS([]byte(set)); err == nil {
			t.Errorf("loaded %s", set)
		}
	}
	// Unusable keys in a set are skipped (RFC 7517 §5).
	list, err := parseOwnJWKS([]byte(`{"keys":[` + rsaWith("e", "RSA-OAEP") + "," + ecJWK() + `,{"kty":"new"}]}`))
	if err != nil || len(list) != 1 || list[0].ID != "a" {
		t.Errorf("%v, %v", list, err)
	}
}

// TestK13OnlyThreeAlgorithmsCanBeConfigured: HS*, none, PS*, RS384 for our own tokens → refused.
func TestK13OnlyThreeAlgorithmsCanBeConfigured(t *testing.T) {
	for _, name := range []string{"ES256", "RS256", "EdDSA"} {
		if a, err := oauth.ParseAlgorithm(name); err != nil || string(a) != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "none", "None", "HS256", "HS384", "HS512", "PS256", "PS384", "PS512", "RS384", "RS512", "ES384", "ES512", "ES256K", "es256", "EDDSA", "Ed25519", " ES256"} {
		if a, err := oauth.ParseAlgorithm(name); err == nil {
			t.Errorf("%q is configured as %s", name, a)
		}
		if _, err := NewSigningKey(oauth.Algorithm(name), tokentest.Start); err == nil {
			t.Errorf("a key was made for %q", name)
		}
		if _, err := LoadSigningKeys(t.Context(), NewFaultyStore(t), nil, tokentest.Start, oauth.Algorithm(name)); err == nil {
			t.Errorf("keys were loaded for %q", name)
		}
	}
}

// TestK13AStoredKeyIsForOwnAlgorithms: algorithms that are accepted from trusted issuers only are refused for our own
// keys.
func TestK13AStoredKeyIsForOwnAlgorithms(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for algorithm, private := range map[oauth.Algorithm]crypto.Signer{oauth.ES384: p384, oauth.PS256: sharedKeys()[oauth.RS256].private, oauth.RS512: sharedKeys()[oauth.RS256].private} {
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		id, err := thumbprint(private.Public())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := LoadSigningKey(store.StoredKey{ID: id, Algorithm: algorithm, Private: der}, nil); err == nil || !strings.Contains(err.Error(), "is not supported") {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
}
