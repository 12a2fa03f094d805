package caddymodule

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// StoreConfig says where state is kept.
type StoreConfig struct {
	// Type is `sqlite` (default: durable, one node) or `memory` (demos and tests: all is lost at exit).
	Type string `json:"type,omitempty"`
	// Path is the SQLite file. Default: oauth/gatehouse.db in Caddy's data directory. It must be on a local disk.
	Path string `json:"path,omitempty"`
}

const (
	storeSQLite = "sqlite"
	storeMemory = "memory"
)

// KeysConfig says how tokens are signed.
type KeysConfig struct {
	// Algorithm signs new tokens: ES256 (default), RS256 or EdDSA. Tokens signed before with another one stay good.
	Algorithm string `json:"algorithm,omitempty"`
	// EncryptWith is the key-encryption key: 32 bytes as base64 or hex, under which signing keys are stored. Give it as
	// {env.NAME} or {file./path}; Caddy stores what stands here. Without it the store holds signing keys in the clear.
	EncryptWith string `json:"encrypt_with,omitempty"`
}

func (a *App) readStore(s *settings) error {
	s.engine.store = storeSQLite
	path := filepath.Join(caddy.AppDataDir(), "oauth", "gatehouse.db")
	if a.Store != nil {
		if a.Store.Type != "" {
			s.engine.store = a.Store.Type
		}
		if a.Store.Path != "" {
			var err error
			if path, err = resolve("store path", a.Store.Path); err != nil {
				return err
			}
		}
	}
	switch s.engine.store {
	case storeSQLite:
		absolute, err := filepath.Abs(path)
		s.engine.path = absolute
		return err
	case storeMemory:
		if a.Store.Path != "" {
			return errors.New("store memory has no path")
		}
		return nil
	}
	return fmt.Errorf("unknown store %q: use sqlite or memory", s.engine.store)
}

// errLiteralKey: Caddy shows its configuration to its administrators and saves it to disk.
var errLiteralKey = errors.New("encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}")

func (a *App) readKeys(s *settings) error {
	keys := a.Keys
	if keys == nil {
		keys = new(KeysConfig)
	}
	s.engine.algorithm = tokenissuer.ES256
	if keys.Algorithm != "" {
		var err error
		if s.engine.algorithm, err = tokenissuer.ParseAlgorithm(keys.Algorithm); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
	}
	if keys.EncryptWith == "" {
		return nil
	}
	if !isReference(keys.EncryptWith) {
		return errLiteralKey
	}
	secret, err := resolve("encrypt_with", keys.EncryptWith)
	if err != nil {
		return err
	}
	if s.sealer, err = tokenissuer.NewKeySealer(tokenissuer.NewSecret(secret)); err != nil {
		return fmt.Errorf("encrypt_with: %w", err)
	}
	s.engine.sealer = s.sealer.ID
	return nil
}
