package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// KeysVersion returns the counter that every change of the keys advances.
func (s *Store) KeysVersion(ctx context.Context) (version int64, err error) {
	err = askOne(ctx, s.background(`SELECT position FROM counters WHERE name = 'signing_keys'`), nil, &version)
	if err != nil {
		return 0, fmt.Errorf("reading the version of the keys: %w", err)
	}
	return version, nil
}

// SigningKeys lists all keys, oldest first.
func (s *Store) SigningKeys(ctx context.Context) ([]store.StoredKey, error) {
	list, err := askAll(ctx, s.background(selectKeys), nil, scanKey)
	if err != nil {
		return nil, fmt.Errorf("reading signing keys: %w", err)
	}
	slices.SortFunc(list, func(a, b store.StoredKey) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

const selectKeys = `SELECT id, algorithm, private, sealed_with, created_at, active_from, revoked_at FROM signing_keys`

func scanKey(row scanner) (key store.StoredKey, err error) {
	var created, active, revoked sql.Null[int64]
	err = row.Scan(&key.ID, &key.Algorithm, &key.Private, &key.SealedWith, &created, &active, &revoked)
	key.CreatedAt, key.ActiveFrom, key.RevokedAt = timeOf(created), timeOf(active), timeOf(revoked)
	return key, err
}

// changeKeys is a step that changes the keys. It advances the version first, which locks its row. No other change can be made between a
// query and a statement that depends on its result, and the new version becomes visible with the change.
func (s *Store) changeKeys(ctx context.Context, name string, do work) error {
	return s.announcedStep(ctx, name, func(ctx context.Context, tx session) error {
		if _, err := advance(ctx, tx, "signing_keys"); err != nil {
			return err
		}
		bind := s.bindKeys.Load()
		if bind == nil {
			return do(ctx, tx)
		}
		before, err := queryAll(ctx, tx, selectKeys, nil, scanKey)
		if err != nil {
			return err
		}
		if err := do(ctx, tx); err != nil {
			return err
		}
		return bindAfter(ctx, tx, before, *bind)
	})
}

// BindKeys makes every change of the keys store what bind returns.
func (s *Store) BindKeys(bind func(store.KeyStep) (store.StoredKey, error)) {
	if bind == nil {
		s.bindKeys.Store(nil)
		return
	}
	s.bindKeys.Store(&bind)
}

// bindAfter stores what bind returns for the change that the step has made.
func bindAfter(ctx context.Context, tx session, before []store.StoredKey, bind func(store.KeyStep) (store.StoredKey, error)) error {
	if err := nameDatabase(ctx, tx); err != nil {
		return err
	}
	step, identity := store.KeyStep{Before: before}, int64(0)
	err := tx.QueryRowContext(ctx, `SELECT i.position, k.position FROM counters i, counters k
		WHERE i.name = 'identity' AND k.name = 'signing_keys'`).Scan(&identity, &step.Version)
	if err != nil {
		return err
	}
	step.Identity = identityName(identity)
	if step.After, err = queryAll(ctx, tx, selectKeys, nil, scanKey); err != nil {
		return err
	}
	bound, err := bind(step)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM signing_keys WHERE id = $1`, bound.ID); err != nil {
		return err
	}
	return insertKey(ctx, tx, bound)
}

// AddFirstSigningKey stores the key unless there is one of its algorithm.
func (s *Store) AddFirstSigningKey(ctx context.Context, key store.StoredKey) error {
	key.Private = slices.Clone(key.Private)
	return s.changeKeys(ctx, "adding first signing key", func(ctx context.Context, tx session) error {
		var others int
		err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM signing_keys WHERE algorithm = $1 AND revoked_at IS NULL`,
			string(key.Algorithm)).Scan(&others)
		if err != nil || others > 0 {
			return err
		}
		return insertKey(ctx, tx, key)
	})
}

// AddSigningKey stores a further key.
func (s *Store) AddSigningKey(ctx context.Context, key store.StoredKey) error {
	key.Private = slices.Clone(key.Private)
	return s.changeKeys(ctx, "adding signing key", func(ctx context.Context, tx session) error {
		return insertKey(ctx, tx, key)
	})
}

func insertKey(ctx context.Context, tx session, key store.StoredKey) error {
	return mustAdd(tx.ExecContext(ctx, `INSERT INTO signing_keys
		(id, algorithm, private, sealed_with, created_at, active_from, revoked_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO NOTHING`,
		key.ID, string(key.Algorithm), key.Private, key.SealedWith, micros(key.CreatedAt), micros(key.ActiveFrom), micros(key.RevokedAt)))
}

// ReplaceSigningKeys replaces the private parts of the keys, all of them or none, and erases the old ones from the database's files.
func (s *Store) ReplaceSigningKeys(ctx context.Context, changes ...store.KeyChange) (bool, error) {
	changes = slices.Clone(changes)
	for i, c := range changes {
		if c.Was.SealedWith != "" && c.Becomes.SealedWith == "" {
			return false, errors.New("replacing signing keys: the replacement is not sealed")
		}
		changes[i].Was.Private, changes[i].Becomes.Private = slices.Clone(c.Was.Private), slices.Clone(c.Becomes.Private)
	}
	err := s.changeKeys(ctx, "replacing signing keys", func(ctx context.Context, tx session) error {
		for _, c := range changes {
			err := mustHit(tx.ExecContext(ctx, `UPDATE signing_keys SET private = $1, sealed_with = $2
				WHERE id = $3 AND private = $4 AND sealed_with = $5 AND revoked_at IS NULL`,
				c.Becomes.Private, c.Becomes.SealedWith, c.Was.ID, c.Was.Private, c.Was.SealedWith))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		for _, c := range changes {
			s.erase(ctx, c.Was.ID)
		}
	}
	return err == nil, err
}

// RevokeSigningKey sets RevokedAt, deletes the private key and records the revocation.
func (s *Store) RevokeSigningKey(ctx context.Context, id string, at time.Time, tokens store.Revocation) error {
	err := s.changeKeys(ctx, "revoking signing key", func(ctx context.Context, tx session) error {
		if err := wipeKeys(ctx, tx, at, `id = $3`, id); err != nil {
			return err
		}
		return s.record(ctx, tx, tokens)
	})
	if err == nil {
		s.erase(ctx, id)
	}
	return err
}

// wipeKeys revokes the keys that match the condition, whose parameters begin with $3. It returns ErrNotFound when there are none.
func wipeKeys(ctx context.Context, tx session, at time.Time, condition string, args ...any) error {
	return mustHit(tx.ExecContext(ctx, `UPDATE signing_keys SET private = $1, sealed_with = '',
		revoked_at = COALESCE(revoked_at, $2) WHERE `+condition, append([]any{[]byte{}, micros(at)}, args...)...))
}

// DropSigningKey deletes a key.
func (s *Store) DropSigningKey(ctx context.Context, id string) error {
	var dropped int64
	err := s.changeKeys(ctx, "dropping signing key", func(ctx context.Context, tx session) error {
		result, err := tx.ExecContext(ctx, `DELETE FROM signing_keys WHERE id = $1`, id)
		if err != nil {
			return err
		}
		dropped, err = result.RowsAffected()
		return err
	})
	if err == nil && dropped > 0 {
		s.erase(ctx, id)
	}
	return err
}

// erase removes a former key from the database's files. The key has changed even if erase fails, and a failure is therefore not the
// caller's.
func (s *Store) erase(ctx context.Context, id string) {
	if err := s.dialect.erase(ctx); err != nil {
		s.options.warn("the former state of signing key %s may stay in the database's files until the store is closed: %v", id, err)
	}
}
