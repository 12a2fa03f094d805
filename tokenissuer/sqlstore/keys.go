package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// SigningKeys lists every key, oldest first.
func (s *Store) SigningKeys(ctx context.Context) ([]tokenissuer.StoredKey, error) {
	list, err := askAll(ctx, s.background(`SELECT id, algorithm, private, sealed_with, created_at FROM signing_keys`), nil, scanKey)
	if err != nil {
		return nil, fmt.Errorf("reading signing keys: %w", err)
	}
	slices.SortFunc(list, func(a, b tokenissuer.StoredKey) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

func scanKey(row scanner) (key tokenissuer.StoredKey, err error) {
	var created sql.Null[int64]
	err = row.Scan(&key.ID, &key.Algorithm, &key.Private, &key.SealedWith, &created)
	key.CreatedAt = timeOf(created)
	return key, err
}

// AddFirstSigningKey stores the key unless there is one of its algorithm.
func (s *Store) AddFirstSigningKey(ctx context.Context, key tokenissuer.StoredKey) error {
	key.Private = slices.Clone(key.Private)
	return s.step(ctx, "adding first signing key", func(ctx context.Context, tx session) error {
		// Who holds the counter is alone here: nobody else's first key can come between the question and the insert.
		if _, err := advance(ctx, tx, "signing_keys"); err != nil {
			return err
		}
		var others int
		err := tx.QueryRowContext(ctx,
			`SELECT COUNT(*) FROM signing_keys WHERE algorithm = $1`, string(key.Algorithm)).Scan(&others)
		if err != nil || others > 0 {
			return err
		}
		_, err = tx.ExecContext(ctx,
			`INSERT INTO signing_keys (id, algorithm, private, sealed_with, created_at) VALUES ($1, $2, $3, $4, $5)`,
			key.ID, string(key.Algorithm), key.Private, key.SealedWith, micros(key.CreatedAt))
		return err
	})
}

// SealSigningKey replaces the private part of a key that is not sealed yet, and clears the old one out of the
// database's files. ErrNotFound when there is no such key.
func (s *Store) SealSigningKey(ctx context.Context, sealed tokenissuer.StoredKey) error {
	if sealed.SealedWith == "" {
		return errors.New("sealing signing key: the replacement is not sealed")
	}
	sealed.Private = slices.Clone(sealed.Private)
	replaced := false
	err := s.step(ctx, "sealing signing key", func(ctx context.Context, tx session) error {
		err := mustHit(tx.ExecContext(ctx, `UPDATE signing_keys SET private = $1, sealed_with = $2
			WHERE id = $3 AND sealed_with = ''`, sealed.Private, sealed.SealedWith, sealed.ID))
		if !errors.Is(err, tokenissuer.ErrNotFound) {
			replaced = err == nil
			return err
		}
		var found int
		err = tx.QueryRowContext(ctx, `SELECT 1 FROM signing_keys WHERE id = $1`, sealed.ID).Scan(&found)
		if errors.Is(err, sql.ErrNoRows) {
			return tokenissuer.ErrNotFound
		}
		return err
	})
	if err != nil || !replaced {
		return err
	}
	// The key is sealed whatever comes now, so a failure is not the caller's.
	if err := s.dialect.erase(ctx, s.write); err != nil {
		s.options.warn("the unsealed form of signing key %s may stay in the database's files until the store is closed: %v", sealed.ID, err)
	}
	return nil
}
