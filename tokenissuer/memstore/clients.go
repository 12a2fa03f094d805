package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Client returns the client of that id.
func (s *Store) Client(ctx context.Context, id string) (*store.Client, error) {
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading client: %w", err)
	}
	return s.client(id)
}

func (s *Store) client(id string) (*store.Client, error) {
	if found, ok := s.clients.Get(id); ok {
		return found.(*store.Client), nil
	}
	return nil, store.ErrNotFound
}

// Clients lists every client, by the bytes of its id.
func (s *Store) Clients(ctx context.Context) ([]*store.Client, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing clients: %w", err)
	}
	items := s.clients.Items()
	list := make([]*store.Client, 0, len(items))
	for _, item := range items {
		list = append(list, item.Object.(*store.Client))
	}
	slices.SortFunc(list, func(a, b *store.Client) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// AddClient registers a client. The id of a removed client stays taken for as long as its tokens may live: whoever got it
// next would own tokens that were issued to another.
func (s *Store) AddClient(ctx context.Context, client *store.Client) error {
	fail := func(err error) error { return fmt.Errorf("adding client: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	if err := s.takeSubject(client.ID, subject{}, client.CreatedAt); err != nil {
		return fail(err)
	}
	added := clone(client)
	added.Declared = false // only the configuration declares
	s.put(added)
	return nil
}

// ChangeClient makes the change to a copy.
func (s *Store) ChangeClient(ctx context.Context, clientID string, change store.ClientChange) error {
	return s.change(ctx, "changing client", clientID, func(c *store.Client) {
		change.Apply(c)
		*c = *clone(c) // the lists are the caller's
	})
}

// RotateClientSecret adds a secret and ends the older ones. Those that ended by the time the new one was made are
// dropped. A zero othersUntil leaves the older ones as they are.
func (s *Store) RotateClientSecret(ctx context.Context, clientID string, secret store.ClientSecret, othersUntil time.Time) error {
	return s.change(ctx, "rotating client secret", clientID, func(c *store.Client) {
		secrets := make([]store.ClientSecret, 0, len(c.Secrets)+1)
		for _, old := range c.Secrets {
			if !othersUntil.IsZero() && (old.ExpiresAt.IsZero() || othersUntil.Before(old.ExpiresAt)) {
				old.ExpiresAt = othersUntil
			}
			ended := !old.ExpiresAt.IsZero() && !old.ExpiresAt.After(secret.CreatedAt)
			// The same secret again is a caller that did not hear the first answer.
			if !ended && old.Digest != secret.Digest {
				secrets = append(secrets, old)
			}
		}
		c.Secrets = append(secrets, secret)
	})
}

// DisableClient marks the client and revokes its tokens.
func (s *Store) DisableClient(ctx context.Context, clientID string, tokens store.Revocation) error {
	return s.change(ctx, "disabling client", clientID, func(c *store.Client) {
		c.Disabled = true
		s.record(tokens)
	})
}

// EnableClient takes the mark away.
func (s *Store) EnableClient(ctx context.Context, clientID string) error {
	return s.change(ctx, "enabling client", clientID, func(c *store.Client) { c.Disabled = false })
}

// TouchClient sets when the client was used last.
func (s *Store) TouchClient(ctx context.Context, clientID string, at time.Time) error {
	return s.change(ctx, "touching client", clientID, func(c *store.Client) {
		if at.After(c.LastUsedAt) {
			c.LastUsedAt = at
		}
	})
}

// CountClients counts the clients of an origin.
func (s *Store) CountClients(ctx context.Context, origin store.ClientOrigin) (n int, err error) {
	list, err := s.Clients(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting clients: %w", err)
	}
	for _, c := range list {
		if c.Origin == origin {
			n++
		}
	}
	return n, nil
}

// RemoveClient deletes the client and revokes its tokens. Its id stays taken for a while.
func (s *Store) RemoveClient(ctx context.Context, clientID string, tokens store.Revocation) error {
	fail := func(err error) error { return fmt.Errorf("removing client: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	if _, err := s.client(clientID); err != nil {
		return fail(err)
	}
	// The revocation comes first: a reader that no longer finds the client finds its tokens revoked.
	s.record(tokens)
	s.clients.Delete(clientID)
	s.subjects.Set(clientID, subject{freeAt: tokens.FreeAt()}, cache.NoExpiration)
	return nil
}

// change replaces a client by a changed copy, so that those who hold the old one see no change.
func (s *Store) change(ctx context.Context, step, clientID string, edit func(*store.Client)) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	defer s.mu.Unlock()
	old, err := s.client(clientID)
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	changed := clone(old)
	edit(changed)
	s.put(changed)
	return nil
}

func (s *Store) put(c *store.Client) { s.clients.Set(c.ID, c, cache.NoExpiration) }

func clone(c *store.Client) *store.Client {
	copied := *c
	copied.Secrets = slices.Clone(c.Secrets)
	copied.Grants = slices.Clone(c.Grants)
	copied.Scopes = slices.Clone(c.Scopes)
	copied.RedirectURIs = slices.Clone(c.RedirectURIs)
	copied.CORSOrigins = slices.Clone(c.CORSOrigins)
	copied.Exchange = slices.Clone(c.Exchange)
	for i := range copied.Exchange {
		rule := &copied.Exchange[i]
		rule.Audiences, rule.From, rule.Scopes = slices.Clone(rule.Audiences), slices.Clone(rule.From), slices.Clone(rule.Scopes)
	}
	copied.OpenID.PostLogoutRedirectURIs = slices.Clone(c.OpenID.PostLogoutRedirectURIs)
	return &copied
}
