package store

import (
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ClientChange is a change of a client and of its tokens.
type ClientChange struct {
	// Edit edits the client, if it is not nil. It may be called several times and must not use the store. An error aborts the change.
	Edit func(*Client) error
	// Ends are revocations to record.
	Ends []Revocation
}

// DisableClient returns the change that disables the client and revokes its tokens.
func DisableClient(tokens Revocation) ClientChange {
	return ClientChange{Edit: func(c *Client) error { c.Disabled = true; return nil }, Ends: []Revocation{tokens}}
}

// EnableClient returns the change that enables the client again. Its tokens stay revoked.
func EnableClient() ClientChange {
	return ClientChange{Edit: func(c *Client) error { c.Disabled = false; return nil }}
}

// TouchClient returns the change that sets LastUsedAt, unless it is later already.
func TouchClient(at time.Time) ClientChange {
	return ClientChange{Edit: func(c *Client) error {
		if at.After(c.LastUsedAt) {
			c.LastUsedAt = at
		}
		return nil
	}}
}

// RotateSecret returns the change that adds a secret and makes every older secret expire at othersUntil at the latest. A zero othersUntil
// leaves them unchanged. The change deletes secrets that had expired when the new one was created. Adding a secret again, as a caller does
// that did not receive the first answer, replaces it.
func RotateSecret(secret ClientSecret, othersUntil time.Time) ClientChange {
	return ClientChange{Edit: func(c *Client) error {
		secrets := slices.Clone(c.Secrets)
		for i, s := range secrets {
			if !othersUntil.IsZero() && (s.ExpiresAt.IsZero() || s.ExpiresAt.After(othersUntil)) {
				secrets[i].ExpiresAt = othersUntil
			}
		}
		secrets = slices.DeleteFunc(secrets, func(s ClientSecret) bool {
			return s.Digest == secret.Digest && s.Hash.IsEmpty() || !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(secret.CreatedAt)
		})
		c.Secrets = append(secrets, secret)
		return nil
	}}
}

// LearnSecret returns the change that replaces a hash by the digest of its secret, which has just been used.
func LearnSecret(hash, secret oauth.Secret) ClientChange {
	return ClientChange{Edit: func(c *Client) error {
		c.Secrets = slices.Clone(c.Secrets)
		for i := range c.Secrets {
			if s := &c.Secrets[i]; !s.Hash.IsEmpty() && s.Hash.Digest() == hash.Digest() {
				s.Digest, s.Hash = secret.Digest(), oauth.Secret{}
			}
		}
		return nil
	}}
}
