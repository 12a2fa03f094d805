package keys

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func sealer(t *testing.T, text string) *Sealer {
	t.Helper()
	s, err := NewSealer("https://issuer.example", oauth.NewSecret(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	kek      = bytes.Repeat([]byte{7}, 31)
	firstKEK = base64.StdEncoding.EncodeToString(append([]byte{1}, kek...))
	otherKEK = base64.StdEncoding.EncodeToString(append([]byte{2}, kek...))
)

func TestK6SealedKeysOpenUnderTheirKEKOnly(t *testing.T) {
	first, other := sealer(t, firstKEK), sealer(t, otherKEK)
	for _, key := range sharedKeys() {
		sealed, plain := stored(t, key, first), stored(t, key, nil)
		if sealed.SealedWith != first.ID || plain.SealedWith != "" || bytes.Contains(sealed.Private, plain.Private[len(plain.Private)-16:]) {
			t.Fatal("the key is not sealed")
		}
		if again := stored(t, key, first); bytes.Equal(again.Private, sealed.Private) {
			t.Error("two seals are equal: the nonce repeats")
		}
		got, err := LoadSigningKey(sealed, first)
		if err != nil || got.ID != key.ID {
			t.Fatalf("%v, %v", got, err)
		}
		edit := func(f func(*store.StoredKey)) store.StoredKey {
			k := sealed
			k.Private = slices.Clone(sealed.Private)
			f(&k)
			return k
		}
		swapped := stored(t, foreignKeys()[key.Algorithm], first)
		for name, v := range map[string]struct {
			row    store.StoredKey
			sealer *Sealer
		}{
			"wrong KEK":                  {sealed, other},
			"wrong KEK under its name":   {edit(func(k *store.StoredKey) { k.SealedWith = other.ID }), other},
			"no KEK":                     {sealed, nil},
			"first byte":                 {edit(func(k *store.StoredKey) { k.Private[0] ^= 1 }), first},
			"last byte":                  {edit(func(k *store.StoredKey) { k.Private[len(k.Private)-1] ^= 1 }), first},
			"middle":                     {edit(func(k *store.StoredKey) { k.Private[len(k.Private)/2] ^= 0x80 }), first},
			"truncated":                  {edit(func(k *store.StoredKey) { k.Private = k.Private[:len(k.Private)-1] }), first},
			"nonce only":                 {edit(func(k *store.StoredKey) { k.Private = k.Private[:12] }), first},
			"shorter than a nonce":       {edit(func(k *store.StoredKey) { k.Private = k.Private[:11] }), first},
			"empty":                      {edit(func(k *store.StoredKey) { k.Private = nil }), first},
			"kid of another":             {edit(func(k *store.StoredKey) { k.ID = swapped.ID }), first},
			"another's key":              {edit(func(k *store.StoredKey) { k.Private = swapped.Private }), first},
			"sealed bytes, not so named": {edit(func(k *store.StoredKey) { k.SealedWith = "" }), first},
			"plain bytes, named sealed":  {edit(func(k *store.StoredKey) { k.Private = plain.Private }), first},
		} {
			if _, err := LoadSigningKey(v.row, v.sealer); err == nil {
				t.Errorf("%s, %s: opened", key.Algorithm, name)
			} else if strings.Contains(err.Error(), firstKEK) || strings.Contains(err.Error(), hex.EncodeToString(kek)) {
				t.Errorf("the error tells the KEK: %v", err)
			}
		}
	}
}

// TestK6AWrongKEKFailsTheStart: keys under `encrypt_with` and a wrong key-encryption key → the start fails.
func TestK6AWrongKEKFailsTheStart(t *testing.T) {
	st := NewFaultyStore(t)
	if err := st.ChangeKeys(t.Context(), store.AddKey(stored(t, sharedKeys()[oauth.ES256], sealer(t, firstKEK)))); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Sealer{sealer(t, otherKEK), nil} {
		if _, err := LoadSigningKeys(t.Context(), st, s, tokentest.Start, oauth.ES256); err == nil || st.Asked("adding first signing key") != 0 {
			t.Errorf("err %v, added %d", err, st.Asked("adding first signing key"))
		}
	}
}

func TestK6AKEKConfiguredLaterSealsWhatIsThere(t *testing.T) {
	st := NewFaultyStore(t)
	sealedWith := func() string {
		t.Helper()
		rows, err := st.SigningKeys(t.Context())
		if rows = onlySigning(rows); err != nil || len(rows) != 1 {
			t.Fatalf("%v, %v", rows, err)
		}
		return rows[0].SealedWith
	}
	before, err := LoadSigningKeys(t.Context(), st, nil, tokentest.Start, oauth.ES256)
	if err != nil {
		t.Fatal(err)
	}
	if sealedWith() != "" {
		t.Fatal("sealed without a KEK")
	}
	s := sealer(t, firstKEK)
	if _, err := Seal(t.Context(), st, s, false); err != nil {
		t.Fatal(err)
	}
	after, err := LoadSigningKeys(t.Context(), st, s, tokentest.Start, oauth.ES256)
	if err != nil || after[0].ID != before[0].ID {
		t.Fatalf("%v, %v", after, err)
	}
	if sealedWith() != s.ID || st.Asked("replacing signing keys") != 1 {
		t.Errorf("sealed with %q, %d times", sealedWith(), st.Asked("replacing signing keys"))
	}
	if _, err := Seal(t.Context(), st, s, false); err != nil || st.Asked("replacing signing keys") != 1 {
		t.Errorf("%v, sealed %d times", err, st.Asked("replacing signing keys"))
	}
	if _, err := LoadSigningKeys(t.Context(), st, nil, tokentest.Start, oauth.ES256); err == nil {
		t.Error("the sealed key opens without a KEK")
	}
	first, err := LoadSigningKeys(t.Context(), NewFaultyStore(t), s, tokentest.Start, oauth.EdDSA)
	if err != nil || len(first) != 1 {
		t.Fatalf("%v, %v", first, err)
	}
}

func TestKEKForms(t *testing.T) {
	raw := append([]byte{0xfb, 0xff}, bytes.Repeat([]byte{9}, 30)...)
	want := sealer(t, hex.EncodeToString(raw)).ID
	for name, text := range map[string]string{
		"hex": hex.EncodeToString(raw), "HEX": strings.ToUpper(hex.EncodeToString(raw)), "base64": base64.StdEncoding.EncodeToString(raw), "no padding": base64.RawStdEncoding.EncodeToString(raw),
		"url": base64.URLEncoding.EncodeToString(raw), "url, no padding": base64.RawURLEncoding.EncodeToString(raw), "newline": base64.StdEncoding.EncodeToString(raw) + "\n",
	} {
		if got := sealer(t, text).ID; got != want {
			t.Errorf("%s gives another key", name)
		}
	}
	for _, bad := range []string{"", "x", strings.Repeat("x", 31), strings.Repeat("x", 32), strings.Repeat("x", 33), string(raw), hex.EncodeToString(raw[:16]), hex.EncodeToString(raw[:31]), base64.StdEncoding.EncodeToString(raw[:31]), base64.StdEncoding.EncodeToString(append(raw, 1)), "{env.KEK}"} {
		if s, err := NewSealer("https://issuer.example", oauth.NewSecret(bad)); err == nil {
			t.Errorf("%q is the KEK %s", bad, s.ID)
		}
	}
}
