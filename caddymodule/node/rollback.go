package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// markInterval is the least time between two writes of a marker.
	markInterval = time.Second
	// lastMarksTimeout bounds the query when a node closes.
	lastMarksTimeout = time.Second
	// maxLooks bounds the comparisons of one check: before and after a distrust, and with either identity.
	maxLooks = 10
)

// errUnsettled is returned if a database is behind even after its keys were distrusted.
var errUnsettled = errors.New("the database is put back to an older state again and again")

// markedStore is a store that may be restored to an older state: an sqlstore.Store that is not in memory.
type markedStore interface {
	Progress(ctx context.Context, seen sqlstore.Marks) (sqlstore.Progress, error)
	Distrust(ctx context.Context, seen sqlstore.Marks, fresh store.StoredKey, ids []string, at time.Time) (bool, error)
}

// rollbackDetector detects that the database was restored to an older state, as from a backup: its counters are behind those that this
// node has seen, or that the marker has from earlier processes. See docs/decisions/0018-a-restored-backup.md.
type rollbackDetector struct {
	store   markedStore // nil: it cannot be restored
	feed    *revocationFeed
	keyring *keyring
	clock   *sharedClock

	mu     sync.Mutex     // guards what follows
	seen   sqlstore.Marks // of the database that the marker names
	marker marker
}

// recall reads the marker and compares the manifest of the keys with it, before anything is written: a write would make an old manifest the
// current one. It returns keys.ErrOldSet for an older set. A manifest without keys is not one.
func (d *rollbackDetector) recall(ctx context.Context) error {
	if d.store == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := d.compare(ctx)
	if err != nil {
		return err
	}
	if now.Identity != d.marker.identity {
		d.seen = d.marker.open(now.Identity)
	}
	d.keyring.sealer.Expect(d.seen.Manifest)
	if err := d.keyring.readManifest(ctx); err != nil {
		return d.keyring.explainInClear(err)
	}
	if m := d.keyring.manifest.Load(); m.Counter > 0 && d.keyring.isPutBack(now.Identity, d.seen.Manifest) {
		return keys.ErrOldSet
	}
	return nil
}

// check compares the counters of the database with those that were seen, and distrusts the keys of one that was restored.
//
// The marker is read before the counters with which it is compared: another process may move both in between. Counters are
// noted only under the identity that was read together with them: a database that was distrusted has a new one, and the former
// marker may belong to the database from which this one was copied.
func (d *rollbackDetector) check(ctx context.Context) error {
	if d.store == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for look := range maxLooks {
		now, err := d.compare(ctx)
		switch {
		case err != nil:
			return err
		case d.keyring.isPutBack(now.Identity, d.seen.Manifest) && look < maxLooks/2: // another node may have changed both in between
			if err := d.keyring.readManifest(ctx); err != nil && !errors.Is(err, keys.ErrOldSet) {
				return err
			}
		case now.Behind || d.keyring.isPutBack(now.Identity, d.seen.Manifest):
			if err := d.distrust(ctx, now); err != nil {
				return err
			}
		case now.Identity != d.marker.identity:
			d.seen = d.marker.open(now.Identity)
		default:
			d.seen = now.Marks
			if d.clock.now().Sub(d.marker.written).Abs() >= markInterval {
				d.marker.update(d.seen, d.clock.now())
			}
			return nil
		}
	}
	return errUnsettled
}

// compare compares the counters of the database with those that were seen, also by the feed.
func (d *rollbackDetector) compare(ctx context.Context) (sqlstore.Progress, error) {
	if lost := d.feed.lost.Swap(nil); lost != nil {
		d.seen.Revocations, d.seen.Tag = lost.Revocations, lost.Tag
	}
	now, err := d.store.Progress(ctx, d.seen)
	if m := d.keyring.manifest.Load(); m != nil {
		now.Manifest = max(m.Counter, d.seen.Manifest)
	}
	return now, err
}

// distrust revokes every signing key and makes a new one sign. Revocations since the backup are lost, so no token of an older key can be
// trusted.
func (d *rollbackDetector) distrust(ctx context.Context, now sqlstore.Progress) error {
	seen := d.seen
	if d.keyring.isPutBack(now.Identity, seen.Manifest) {
		d.keyring.audit.Logger().Named("audit").Error("signing keys distrusted", zap.String("cause", "the stored keys are not those that were stored last: the manifest of the keys is missing, was "+
			"changed or is an older one. Somebody has written to the database, or has put back a part of it"))
		seen.Keys = max(now.Keys, seen.Keys, seen.Manifest) + 1 // a counter that the database does not have
	}
	log().Error("the database was put back to an older state, and what was revoked since then is forgotten: every older signing key is "+
		"revoked, and clients must get new tokens. Sign-ins, clients and people that were ended since then are back: end them again",
		zap.Int64("revocations", now.Revocations), zap.Int64("revocations_seen", d.seen.Revocations),
		zap.Int64("keys", now.Keys), zap.Int64("keys_seen", d.seen.Keys))
	fresh, older, err := d.keyring.replacement(ctx)
	if err != nil {
		return err
	}
	done, err := d.store.Distrust(ctx, seen, fresh, older, d.clock.Now())
	if err != nil {
		return err
	}
	if done {
		log().Info("a new key signs", zap.String("kid", fresh.ID), zap.Strings("revoked", older))
	}
	if d.keyring.master == nil {
		return d.keyring.readManifest(ctx) // the node starts: it reads the keys next, makes those of new algorithms, and then reads the feed
	}
	// The new key is read first: once the feed has the revocations of the older keys, none of them may sign.
	if err := d.keyring.sync(ctx); err != nil {
		return err
	}
	return d.feed.catchUp(ctx)
}

// keepMarks updates the marker when the node closes, so that it is complete after an orderly stop. It does not ask a database that did
// not answer the last poll. It does not distrust keys: the next start does.
func (d *rollbackDetector) keepMarks() {
	if d.store == nil || d.feed.failing || !d.mu.TryLock() { // a request has the lock: Destruct calls this again after the last one
		return
	}
	defer d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), lastMarksTimeout)
	defer cancel()
	now, err := d.compare(ctx)
	if err != nil || now.Behind || now.Identity != d.marker.identity || d.keyring.isPutBack(now.Identity, d.seen.Manifest) {
		return
	}
	d.seen = now.Marks
	d.marker.update(d.seen, d.clock.now())
}
