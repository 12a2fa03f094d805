package caddymodule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// KeysConfig says how tokens are signed.
type KeysConfig struct {
	// Algorithm signs new tokens: ES256 (default), RS256 or EdDSA. Tokens signed before with another one stay good.
	Algorithm string `json:"algorithm,omitempty"`
	// EncryptWith is the key-encryption key: 32 bytes as base64 or hex, under which signing keys are stored. Give it as
	// {env.NAME} or {file./path}; Caddy stores what stands here. Without it the store holds signing keys in the clear.
	EncryptWith string `json:"encrypt_with,omitempty"`
	// DecryptWith are older key-encryption keys. What is stored under one of them is encrypted again under EncryptWith.
	DecryptWith []string `json:"decrypt_with,omitempty"`
	// Rotate is how long a key signs before the next one does: 1h or more, default 90d. The next one is published before.
	// 0: no key follows until an operator asks for it.
	Rotate *caddy.Duration `json:"rotate,omitempty"`
}

const defaultRotation = 90 * 24 * time.Hour

// errLiteralKey: Caddy shows its configuration to its administrators and saves it to disk.
var errLiteralKey = errors.New("encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}")

func (a *App) readKeys(s *settings) error {
	keys := a.Keys
	if keys == nil {
		keys = new(KeysConfig)
	}
	s.engine.algorithm = oauth.ES256
	if keys.Algorithm != "" {
		var err error
		if s.engine.algorithm, err = oauth.ParseAlgorithm(keys.Algorithm); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
	}
	s.engine.rotation = defaultRotation
	if keys.Rotate != nil {
		if s.engine.rotation = time.Duration(*keys.Rotate); !isRotation(s.engine.rotation) {
			return fmt.Errorf("keys: rotate %s: %w", s.engine.rotation, errRotation)
		}
	}
	return a.at(keys.readSealer(s), "encrypt_with")
}

// errRotation: a key is published for ten minutes before it signs.
var errRotation = errors.New("use 1h or more, or off")

func isRotation(d time.Duration) bool { return d == 0 || d >= keys.LeastRotation }

func (c *KeysConfig) readSealer(s *settings) error {
	if c.EncryptWith == "" {
		if len(c.DecryptWith) > 0 {
			return errors.New("keys: decrypt_with needs encrypt_with: keys that were encrypted stay so")
		}
		return nil
	}
	var secrets []oauth.Secret
	for _, reference := range append([]string{c.EncryptWith}, c.DecryptWith...) {
		if !isReference(reference) {
			return errLiteralKey
		}
		secret, err := resolve("encrypt_with", reference)
		if err != nil {
			return err
		}
		secrets = append(secrets, oauth.NewSecret(secret))
	}
	var err error
	if s.sealer, err = keys.NewSealer(s.issuer, secrets[0], secrets[1:]...); err != nil {
		return fmt.Errorf("encrypt_with: %w", err)
	}
	s.engine.sealer = strings.Join(s.sealer.IDs(), " ")
	return nil
}
