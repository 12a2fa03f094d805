package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// signingKeys is a part of a Store.
type signingKeys struct {
	db   *database
	bind atomic.Pointer[func(store.KeyStep) (store.StoredKey, error)] // nil: BindKeys was not called
}

// KeysVersion returns the counter that every change of the keys advances.
func (s *signingKeys) KeysVersion(ctx context.Context) (version int64, err error) {
	err = askOne(ctx, s.db.background(`SELECT position FROM counters WHERE name = 'signing_keys'`), nil, &version)
	if err != nil {
		return 0, fmt.Errorf("reading the version of the keys: %w", err)
	}
	return version, nil
}

// SigningKeys lists all keys, oldest first.
func (s *signingKeys) SigningKeys(ctx context.Context) ([]store.StoredKey, error) {
	list, err := askAll(ctx, s.db.background(selectKeys), nil, scanKey)
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

// ChangeKeys makes the change and records its revocations.
func (s *signingKeys) ChangeKeys(ctx context.Context, change store.KeyChange) error {
	ends := slices.Clone(change.Ends)
	return s.changeKeys(ctx, change.Name, func(ctx context.Context, tx session, keys []store.StoredKey) ([]store.StoredKey, error) {
		keys, err := change.Edit(keys)
		if err != nil {
			return nil, editError{err}
		}
		if len(ends) == 0 {
			return keys, nil
		}
		return keys, s.db.record(ctx, tx, ends...)
	})
}

// changeKeys is a step that changes the keys: edit returns all keys as they are to be stored. The step advances the version first, which
// locks its row. No other change can be made between the query and a statement that depends on its result, and the new version becomes
// visible with the change.
func (s *signingKeys) changeKeys(ctx context.Context, name string, edit func(context.Context, session, []store.StoredKey) ([]store.StoredKey, error)) error {
	var gone []string // read only after the step has succeeded: without an answer it may still run
	err := s.db.announcedStep(ctx, name, func(ctx context.Context, tx session) error {
		gone = nil
		if _, err := advance(ctx, tx, "signing_keys"); err != nil {
			return err
		}
		before, err := queryAll(ctx, tx, selectKeys, nil, scanKey)
		if err != nil {
			return err
		}
		after, err := edit(ctx, tx, slices.Clone(before))
		if err != nil {
			return err
		}
		if gone, err = storeKeys(ctx, tx, before, after); err != nil {
			return err
		}
		if bind := s.bind.Load(); bind != nil {
			return bindAfter(ctx, tx, before, *bind)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range gone {
		s.erase(ctx, id)
	}
	return nil
}

// storeKeys stores what differs between the two lists of all keys. It returns the ids of the keys whose former private part was replaced
// or deleted.
func storeKeys(ctx context.Context, tx session, before, after []store.StoredKey) (gone []string, err error) {
	rest := make(map[string]store.StoredKey, len(after))
	for _, key := range after {
		rest[key.ID] = key
	}
	for _, was := range before {
		key, kept := rest[was.ID]
		delete(rest, was.ID)
		if kept && reflect.DeepEqual(key, was) {
			continue
		}
		if len(was.Private) > 0 && !bytes.Equal(key.Private, was.Private) {
			gone = append(gone, was.ID)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM signing_keys WHERE id = $1`, was.ID); err != nil {
			return nil, err
		}
		if kept {
			if err := insertKey(ctx, tx, key); err != nil {
				return nil, err
			}
		}
	}
	for _, key := range after {
		if _, isNew := rest[key.ID]; isNew {
			if err := insertKey(ctx, tx, key); err != nil {
				return nil, err
			}
		}
	}
	return gone, nil
}

// BindKeys makes every change of the keys store what bind returns.
func (s *signingKeys) BindKeys(bind func(store.KeyStep) (store.StoredKey, error)) {
	if bind == nil {
		s.bind.Store(nil)
		return
	}
	s.bind.Store(&bind)
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

func insertKey(ctx context.Context, tx session, key store.StoredKey) error {
	return mustAdd(tx.ExecContext(ctx, `INSERT INTO signing_keys
		(id, algorithm, private, sealed_with, created_at, active_from, revoked_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO NOTHING`,
		key.ID, string(key.Algorithm), append([]byte{}, key.Private...), key.SealedWith, micros(key.CreatedAt), micros(key.ActiveFrom), micros(key.RevokedAt)))
}

// erase removes a former key from the database's files. The key has changed even if erase fails, and a failure is therefore not the
// caller's.
func (s *signingKeys) erase(ctx context.Context, id string) {
	if err := s.db.dialect.erase(ctx); err != nil {
		s.db.options.warn("the former state of signing key %s may stay in the database's files until the store is closed: %v", id, err)
	}
}
