package keys_test

import (
	"errors"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func sealerOf(tb testing.TB, hexKey string) *Sealer {
	tb.Helper()
	sealer, err := NewSealer(sealedIssuer, oauth.NewSecret(hexKey))
	if err != nil {
		tb.Fatal(err)
	}
	return sealer
}

const (
	firstKEK  = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	secondKEK = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// sameMaster reports whether two master keys make the same values, so that each accepts the other's.
func sameMaster(tb testing.TB, a, b *MasterKey) bool {
	tb.Helper()
	_, genuine := b.ReadCode(a.Code(oauth.NewID()))
	return genuine
}

// TestOneMasterKeyForAllNodes checks that all nodes have one master key, however many start at once, and after a
// restart.
func TestOneMasterKeyForAllNodes(t *testing.T) {
	store := teststore.New(t)
	made := make([]*MasterKey, 16)
	for _, err := range tokentest.Together(len(made), func(i int) (err error) {
		made[i], err = LoadMasterKey(t.Context(), store.Keys, nil, tokentest.Start)
		return err
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range made[1:] {
		if !sameMaster(t, made[0], k) {
			t.Fatal("two nodes have two master keys")
		}
	}
	keys, err := store.Keys.SigningKeys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	// The master key signs nothing, and the signing keys load with it in the store.
	signing, err := LoadSigningKeys(t.Context(), store.Keys, nil, tokentest.Start, oauth.EdDSA)
	if err != nil || len(signing) != 1 || signing[0].ID == keys[0].ID {
		t.Errorf("%v, %v", signing, err)
	}
	if again, err := LoadMasterKey(t.Context(), store.Keys, nil, tokentest.Start); err != nil || !sameMaster(t, made[0], again) {
		t.Errorf("another one after the signing key was made: %v", err)
	}
	if other, err := LoadMasterKey(t.Context(), teststore.New(t).Keys, nil, tokentest.Start); err != nil || sameMaster(t, made[0], other) {
		t.Errorf("another installation has the same: %v", err)
	}
}

// TestK6TheMasterKeyIsSealed checks that the master key is sealed as signing keys are, and that one that cannot be
// opened is never replaced.
func TestK6TheMasterKeyIsSealed(t *testing.T) {
	ctx := t.Context()
	first, second := sealerOf(t, firstKEK), sealerOf(t, secondKEK)
	store := teststore.New(t)
	plain, err := LoadMasterKey(ctx, store.Keys, nil, tokentest.Start)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadMasterKey(ctx, store.Keys, first, tokentest.Start); !errors.Is(err, ErrRefused) {
		t.Errorf("in the clear, with a key-encryption key: %v", err)
	}
	if _, err := Seal(ctx, store.Keys, first, false); err != nil { // a key-encryption key was configured later
		t.Fatal(err)
	}
	sealed, err := LoadMasterKey(ctx, store.Keys, first, tokentest.Start)
	if err != nil || !sameMaster(t, plain, sealed) {
		t.Fatalf("sealing made another one: %v", err)
	}
	keys, err := store.Keys.SigningKeys(ctx)
	if keys = withoutManifest(keys); err != nil || len(keys) != 1 || keys[0].SealedWith != first.ID || len(keys[0].Private) <= 32 {
		t.Fatalf("%+v, %v", keys, err)
	}
	for name, wrong := range map[string]*Sealer{"none": nil, "another": second} {
		if _, err := LoadMasterKey(ctx, store.Keys, wrong, tokentest.Start); err == nil {
			t.Errorf("it opens with %s", name)
		}
	}
	if keys, _ := store.Keys.SigningKeys(ctx); len(withoutManifest(keys)) != 1 {
		t.Error("a master key that did not open was replaced")
	}
	if again, err := LoadMasterKey(ctx, store.Keys, first, tokentest.Start); err != nil || !sameMaster(t, plain, again) {
		t.Errorf("%v", err)
	}
	// A new store is sealed from the start.
	fresh := teststore.New(t)
	if _, err := LoadMasterKey(ctx, fresh.Keys, first, tokentest.Start); err != nil {
		t.Fatal(err)
	}
	rows, err := fresh.Keys.SigningKeys(ctx)
	if rows = withoutManifest(rows); err != nil || len(rows) != 1 || rows[0].SealedWith != first.ID {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestNoMasterKeyWhileTheStoreFails(t *testing.T) {
	for _, step := range []string{"SigningKeys", "adding first signing key", "replacing signing keys"} {
		store := NewFaultyStore(t)
		if step == "replacing signing keys" {
			if _, err := LoadMasterKey(t.Context(), store, nil, tokentest.Start); err != nil {
				t.Fatal(err)
			}
		}
		store.Fail(step)
		sealer := sealerOf(t, firstKEK)
		_, err := Seal(t.Context(), store, sealer, false)
		var key *MasterKey
		if err == nil {
			key, err = LoadMasterKey(t.Context(), store, sealer, tokentest.Start)
		}
		var e *oauth.Error
		if key != nil || !errors.As(err, &e) || e.Code != oauth.TemporarilyUnavailable {
			t.Errorf("%s fails: %v", step, err)
		}
	}
}
