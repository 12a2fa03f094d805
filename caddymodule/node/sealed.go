package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
)

// sealedPrefix begins the names of the files that record that the keys of an issuer were sealed under a key-encryption key. The database
// cannot record that: an attacker who can write to it can delete every sealed key.
const sealedPrefix = "sealed-"

// sealedFile returns the path of the file for one key-encryption key.
func (k *keyring) sealedFile(keyID string) string {
	digest := sha256.Sum256([]byte(keyID + " " + k.settings.Issuer))
	return filepath.Join(markerDirectory(), sealedPrefix+hex.EncodeToString(digest[:8]))
}

// sealedBefore returns the path of the file for one of the key-encryption keys, or "" if there is none.
func (k *keyring) sealedBefore() string {
	if k.sealer == nil || k.settings.Store == Memory {
		return ""
	}
	for _, id := range k.sealer.IDs() {
		if path := k.sealedFile(id); isThere(path) {
			return path
		}
	}
	return ""
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// seal encrypts the keys of the store under the current key-encryption key. It logs keys in the clear and refused ones.
func (k *keyring) seal(ctx context.Context) error {
	found, err := keys.Seal(ctx, k.store, k.sealer, k.sealedBefore() != "")
	if found.InClear > 0 && err == nil {
		log().Warn("keys that were stored in the clear are encrypted now. If encrypt_with was set before, somebody has replaced them: "+
			"rotate the signing keys with `caddy oauth keys rotate --now`, and revoke these", zap.Int("keys", found.InClear))
	}
	for _, refused := range found.Refused {
		k.warnOfKey(refused)
	}
	return err
}

// explainInClear adds to an error about keys in the clear how an operator accepts them.
func (k *keyring) explainInClear(err error) error {
	path := k.sealedBefore()
	if !errors.Is(err, keys.ErrInClear) || path == "" {
		return err
	}
	return fmt.Errorf("%w. This machine has seen the keys encrypted. If you have put back a backup from before that, remove %s", err, path)
}

// noteSealed records that the keys are sealed.
func (k *keyring) noteSealed() {
	if k.sealer == nil || k.settings.Store == Memory {
		return
	}
	id := k.sealer.IDs()[0]
	path := k.sealedFile(id)
	if isThere(path) {
		return
	}
	note := fmt.Sprintf("The keys of %s are encrypted under key-encryption key %s.\n"+
		"While this file is here, keys that are not are refused: see \"Encryption\" in docs/operations.md.\n", k.settings.Issuer, id)
	err := os.MkdirAll(markerDirectory(), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(note), 0o600)
	}
	if err == nil {
		err = syncDirectory(markerDirectory())
	}
	if err != nil {
		log().Error("it cannot be noted that keys are encrypted: had somebody replaced them all by keys in the clear, the next start would take them",
			zap.Error(err))
	}
}

// warnOfKey logs that a stored key is refused or cannot be opened.
func (k *keyring) warnOfKey(err error) {
	if errors.Is(err, keys.ErrRefused) {
		k.audit.Logger().Named("audit").Error("stored signing key refused", zap.NamedError("cause", err))
		log().Error("a stored key is refused: it was written or changed without the key-encryption key, or by a node with another "+
			"encrypt_with. It is not used; `caddy oauth keys list` shows it, `caddy oauth keys revoke` takes it out", zap.Error(err))
		return
	}
	log().Error("a signing key cannot be opened: this node goes on with those that it has, and would not start again", zap.Error(err))
}
