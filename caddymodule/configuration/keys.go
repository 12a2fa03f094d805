package configuration

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Keys are the settings of the signing keys.
type Keys struct {
	// Algorithm signs new tokens: ES256 (default), RS256 or EdDSA. Tokens that were signed with another one stay valid.
	Algorithm string `json:"algorithm,omitempty"`
	// EncryptWith is the key-encryption key: 32 bytes as base64 or hex, under which signing keys are stored. Give it as {env.NAME} or
	// {file./path}: Caddy stores the value of this member. Without it the store holds signing keys in the clear.
	EncryptWith string `json:"encrypt_with,omitempty"`
	// DecryptWith are older key-encryption keys. Keys that are stored under one of them are encrypted again under EncryptWith.
	DecryptWith []string `json:"decrypt_with,omitempty"`
	// Rotate is the time between two signing keys: 1h or more, default 90d. The next key is published before it signs.
	// 0: keys are rotated only by an operator.
	Rotate *caddy.Duration `json:"rotate,omitempty"`
}

const defaultRotation = 90 * 24 * time.Hour

var (
	// errLiteralKey is the error for a key that is written out: Caddy shows its configuration to administrators and saves it to disk.
	errLiteralKey = errors.New("encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}")
	// errRotation is the error for a short rotation: a key is published for ten minutes before it signs.
	errRotation = errors.New("use 1h or more, or off")
)

// parseKeys reads:
//
//	keys {
//		algorithm    ES256 | RS256 | EdDSA
//		rotate       <duration> | off
//		encrypt_with <key> [<old>...]
//	}
func parseKeys(d *caddyfile.Dispenser, keys **Keys, at *Sources) error {
	c := orNew(keys)
	return options{
		"algorithm": checkedText(&c.Algorithm, func(name string) error {
			_, err := oauth.ParseAlgorithm(name)
			return err
		}),
		"rotate": c.parseRotate,
		"encrypt_with": func(d *caddyfile.Dispenser) error {
			at.note(d, "encrypt_with")
			return c.parseEncryptWith(d)
		},
	}.parseAlone(d, "unknown keys option %q")
}

func (c *Keys) parseRotate(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "rotate", c.Rotate != nil); err != nil {
		return err
	}
	value, err := setting.OneArg(d)
	if err != nil {
		return err
	}
	c.Rotate = new(caddy.Duration)
	if value == "off" {
		return nil
	}
	duration, err := setting.DurationOf(d, value)
	if err == nil && duration < keys.LeastRotation {
		err = d.Errf("rotate %s: %v", duration, errRotation)
	}
	*c.Rotate = caddy.Duration(duration)
	return err
}

// parseEncryptWith reads the current key-encryption key, and older ones after it.
func (c *Keys) parseEncryptWith(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "encrypt_with", c.EncryptWith != ""); err != nil {
		return err
	}
	references := d.RemainingArgs()
	if len(references) == 0 {
		return d.ArgErr()
	}
	for _, reference := range references {
		if reference == "" {
			return d.Errf("the value is empty; is a variable unset?")
		}
		if err := setting.RefuseRequest(d, reference); err != nil {
			return err
		}
		if !setting.IsReference(reference) {
			return d.Errf("%v", errLiteralKey)
		}
	}
	c.EncryptWith = references[0]
	c.DecryptWith = append(c.DecryptWith, references[1:]...)
	return nil
}

func (c *Keys) read(s *Settings, at *Sources) (err error) {
	if c == nil {
		c = new(Keys)
	}
	s.Node.Algorithm, s.Node.Rotation, s.Node.OpenID = oauth.ES256, defaultRotation, s.Issuer.OpenID
	if c.Algorithm != "" {
		if s.Node.Algorithm, err = oauth.ParseAlgorithm(c.Algorithm); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
	}
	if c.Rotate != nil {
		if s.Node.Rotation = time.Duration(*c.Rotate); s.Node.Rotation != 0 && s.Node.Rotation < keys.LeastRotation {
			return fmt.Errorf("keys: rotate %s: %w", s.Node.Rotation, errRotation)
		}
	}
	s.Sealer, err = c.newSealer(s.Issuer.URL)
	return at.At(err, "encrypt_with")
}

// newSealer returns the sealer of the issuer's keys; nil: they are stored in the clear.
func (c *Keys) newSealer(issuer string) (*keys.Sealer, error) {
	if c.EncryptWith == "" {
		if len(c.DecryptWith) > 0 {
			return nil, errors.New("keys: decrypt_with needs encrypt_with: keys that were encrypted stay so")
		}
		return nil, nil
	}
	var secrets []oauth.Secret
	for _, reference := range append([]string{c.EncryptWith}, c.DecryptWith...) {
		if !setting.IsReference(reference) {
			return nil, errLiteralKey
		}
		secret, err := setting.Resolve("encrypt_with", reference)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, oauth.NewSecret(secret))
	}
	sealer, err := keys.NewSealer(issuer, secrets[0], secrets[1:]...)
	if err != nil {
		return nil, fmt.Errorf("encrypt_with: %w", err)
	}
	return sealer, nil
}
