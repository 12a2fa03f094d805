package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// stage is how far a family has progressed, or the revocation of a token.
type stage int

const (
	unborn stage = iota
	born
	redeemed // generation 1; each rotation adds one
	ended    = stage(1000)
)

// books are what the callers of a Store know: the steps that they began, and those that were acknowledged.
type books struct{ begun, acknowledged map[string]stage }

func newBooks() books {
	return books{begun: make(map[string]stage), acknowledged: make(map[string]stage)}
}

// entry is one record of the books: a note on a disk.
type entry struct {
	id           string
	stage        stage
	acknowledged bool
}

func (b books) enter(e entry) {
	if e.acknowledged {
		b.acknowledged[e.id] = e.stage
	} else {
		b.begun[e.id] = e.stage
	}
}

// tokenPrefix begins the ids of revoked tokens in the books. All other ids are families.
const tokenPrefix = "token "

// audit compares the books with a Store. An acknowledged step must be there, one that was only begun may be there, and no step may be
// there partly.
func (b books) audit(ctx context.Context, s *Store) error {
	list, _, err := s.Revocations.Revocations(ctx, store.FeedPosition{})
	if err != nil {
		return err
	}
	revoked := make(map[string]bool)
	for _, r := range list {
		revoked[r.ID] = true
	}
	for id, most := range b.begun {
		at := unborn
		if !strings.HasPrefix(id, tokenPrefix) {
			f, err := s.Families.Family(ctx, id)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if at, err = stageOf(f, revoked[id]); err != nil {
				return err
			}
		} else if revoked[id] {
			at = born
		}
		if at < b.acknowledged[id] || at > most {
			return fmt.Errorf("%s is at stage %d: %d was acknowledged, %d was begun", id, at, b.acknowledged[id], most)
		}
	}
	return nil
}

// stageOf returns the stage of a family; nil: there is none.
func stageOf(f *store.TokenFamily, revoked bool) (stage, error) {
	if f == nil {
		if revoked {
			return ended, errors.New("a family is revoked that is not there")
		}
		return unborn, nil
	}
	if spent := !f.Code.SpentAt.IsZero(); spent != (f.Refresh.Generation > 0) || revoked == f.RevokedAt.IsZero() {
		return unborn, fmt.Errorf("half a step: generation %d, code spent %v, ended %v, in the feed %v",
			f.Refresh.Generation, spent, !f.RevokedAt.IsZero(), revoked)
	}
	if revoked {
		return ended, nil
	}
	return born + stage(f.Refresh.Generation), nil
}

// inspect checks a database that is not open: its pages, indexes and references, and that each family has its decided request.
func inspect(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, question := range []struct{ query, want string }{
		{`PRAGMA integrity_check`, "ok"},
		{`SELECT COUNT(*) FROM pragma_foreign_key_check`, "0"},
		{`SELECT COUNT(*) FROM (SELECT code_request_id FROM families WHERE code_request_id <> ''
			EXCEPT SELECT id FROM decided_requests)`, "0"},
		{`SELECT COUNT(*) FROM (SELECT id FROM decided_requests EXCEPT SELECT code_request_id FROM families)`, "0"},
	} {
		var got string
		if err := db.QueryRowContext(ctx, question.query).Scan(&got); err != nil {
			return fmt.Errorf("%s: %w", question.query, err)
		}
		if got != question.want {
			return fmt.Errorf("%s in %s: %s", question.query, filepath.Base(path), got)
		}
	}
	return nil
}

// scribe takes steps and keeps the books on a disk.
type scribe struct {
	store *Store
	note  func(any)
}

// take takes one step that brings id to that stage.
func (w scribe) take(id string, to stage, step func() error) error {
	w.note(entry{id: id, stage: to})
	if err := step(); err != nil {
		return fmt.Errorf("taking %s to stage %d: %w", id, to, err)
	}
	w.note(entry{id: id, stage: to, acknowledged: true})
	return nil
}

// live takes a family through its life: the code, its redemption, some rotations, the revocation of a token and, if end is set, the end.
// It stops at the first step that fails.
func (w scribe) live(ctx context.Context, id string, rotations int, end bool) error {
	now := time.Now()
	f := newFamily(id, "ada")
	f.User.Declared, f.Refresh.Generation = true, 0
	if err := w.take(id, born, func() error { return storetest.Done(w.store.Families.AddFamily(ctx, f)) }); err != nil {
		return err
	}
	err := w.take(id, redeemed, func() error {
		return storetest.Used(w.store.Families.RedeemCode(ctx, id, store.Redemption{At: now, Generation: 1, ExpiresAt: now.Add(time.Hour), MaxFailures: 5}))
	})
	if err != nil {
		return err
	}
	for n := range rotations {
		err := w.take(id, redeemed+stage(n)+1, func() error {
			return storetest.Used(w.store.Families.RotateRefreshToken(ctx, id, int64(n)+1, store.Rotation{At: now}))
		})
		if err != nil {
			return err
		}
	}
	token := tokenPrefix + id
	err = w.take(token, born, func() error {
		return w.store.Revocations.Revoke(ctx, store.Revocation{Kind: store.RevokeToken, ID: token, ExpiresAt: now.Add(time.Hour)})
	})
	if err != nil || !end {
		return err
	}
	return w.take(id, ended, func() error {
		_, err := w.store.Families.EndFamilies(ctx, store.FamilyFilter{ID: id}, ending())
		return err
	})
}

// seal replaces an unsealed key, which moves the whole log into the database.
func (w scribe) seal(ctx context.Context, id string) error {
	key := store.StoredKey{ID: id, Algorithm: oauth.Algorithm("of " + id), Private: []byte("clear")}
	if err := w.store.Keys.ChangeKeys(ctx, store.AddFirstKey(key)); err != nil {
		return err
	}
	sealed := key
	sealed.Private, sealed.SealedWith = []byte("sealed"), "kek"
	err := w.store.Keys.ChangeKeys(ctx, store.ReplaceKeys(store.KeyReplacement{Was: key, Becomes: sealed}))
	return err
}
