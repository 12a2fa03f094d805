package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// keepTimeout bounds one round of maintaining the keys.
const keepTimeout = 10 * time.Second

// keyring keeps the keys in memory equal to those in the store.
type keyring struct {
	keys     *keys.Set
	sealer   *keys.Sealer // nil: keys are stored in the clear
	settings Settings
	clock    *sharedClock
	audit    *auditlog.Log
	store    store.KeyStore // set before anything is read

	nodeSecrets

	mu      sync.Mutex
	version int64        // of the keys in memory; 0: not known
	failing atomic.Bool  // the last sync has failed
	refused atomic.Int64 // number of stored signing keys that are not used

	manifest atomic.Pointer[keys.Manifest] // as last read; nil: it is missing or was changed
}

// nodeSecrets are read once, when the node opens.
type nodeSecrets struct {
	master *keys.MasterKey
	jtiMAC *token.JTIMAC
}

// KeyRing returns the key ring of a node that is open.
func (n *Node) KeyRing() *keys.Ring { return n.keyring.ring() }

func (k *keyring) ring() *keys.Ring {
	return &keys.Ring{
		Store: k.store, Sealer: k.sealer, Algorithms: k.settings.algorithms(), Keys: k.keys, Rotation: k.settings.Rotation,
		Now: k.clock.Now, Earliest: k.clock.earliest, Warn: k.warnOfKey,
	}
}

// load reads the signing keys and the master key. It creates them in an empty store.
func (k *keyring) load(ctx context.Context) error {
	if err := k.loadKeys(ctx); err != nil {
		return k.explainInClear(err)
	}
	k.noteSealed()
	k.jtiMAC = token.NewJTIMAC(k.master)
	return nil
}

func (k *keyring) loadKeys(ctx context.Context) error {
	if err := k.readManifest(ctx); err != nil {
		return err
	}
	if err := k.seal(ctx); err != nil {
		return err
	}
	loaded, err := keys.LoadSigningKeys(ctx, k.store, k.sealer, k.clock.Now(), k.settings.algorithms()...)
	if err != nil {
		return err
	}
	if err := k.keys.Replace(loaded, k.settings.algorithms()...); err != nil {
		return err
	}
	if k.master, err = keys.LoadMasterKey(ctx, k.store, k.sealer, k.clock.Now()); err != nil {
		return err
	}
	return k.readManifest(ctx)
}

// readManifest reads the manifest of the keys.
func (k *keyring) readManifest(ctx context.Context) error {
	m, err := keys.ReadManifest(ctx, k.store, k.sealer)
	switch {
	case err == nil:
		k.manifest.Store(&m)
	case errors.Is(err, keys.ErrOldSet):
		k.manifest.Store(nil)
	}
	return err
}

// isPutBack reports whether the keys are an older set, or cannot be shown to be the current one: the manifest is missing, belongs to another
// database, or is older than the one that this machine has seen.
func (k *keyring) isPutBack(identity string, seen int64) bool {
	m := k.manifest.Load()
	return k.sealer != nil && (m == nil || m.Counter > 0 && m.Identity != identity || m.Counter < seen)
}

// sync reads the keys of the store if they have changed. If it fails, the node keeps the keys that it has.
func (k *keyring) sync(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// The version is read first: a change in between is read twice, and never missed.
	version, err := k.store.KeysVersion(ctx)
	if err != nil || version == k.version {
		return err
	}
	ring, refused := k.ring(), int64(0)
	ring.Warn = func(err error) {
		refused++
		k.warnOfKey(err)
	}
	if err = k.readManifest(ctx); err == nil { // the rollback detector handles an old one
		err = ring.Refresh(ctx)
	}
	k.refused.Store(refused)
	if err != nil {
		return err
	}
	k.version = version
	return nil
}

// syncKeys checks that the database was not restored to an older state, and reads the keys that have changed. It logs the first of several
// failures.
func (d *rollbackDetector) syncKeys(caller context.Context) error {
	ctx, cancel := context.WithTimeout(caller, feedTimeout)
	defer cancel()
	err := d.check(ctx)
	if err == nil {
		err = d.keyring.sync(ctx)
	}
	if errors.Is(err, keys.ErrOldSet) { // which the check did not see yet
		if err = d.check(ctx); err == nil {
			err = d.keyring.sync(ctx)
		}
	}
	if caller.Err() != nil {
		return err // which says nothing about the store
	}
	if failed := d.keyring.failing.Swap(err != nil); err != nil && !failed {
		log().Error("reading signing keys: going on with those that are known", zap.Error(err))
	}
	return err
}

// KeysChanged reads a change of the keys into this node. It returns no error: the keys are read again within a second.
func (n *Node) KeysChanged(ctx context.Context) { _ = n.rollback.syncKeys(ctx) }

// keepKeys publishes the next key when it is due, and drops keys that have signed no valid token.
func (n *Node) keepKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	// An older set may have been restored without a change of the version. No poll reads it then.
	if err := n.keyring.readManifest(ctx); errors.Is(err, keys.ErrOldSet) {
		return n.rollback.syncKeys(ctx)
	}
	done, err := n.KeyRing().Maintain(ctx)
	for _, next := range done.Published {
		log().Info("the next signing key is published", zap.String("kid", next.ID), zap.String("algorithm", string(next.Algorithm)),
			zap.Time("signs_from", next.ActiveFrom))
	}
	for _, id := range done.Dropped {
		log().Info("a signing key was dropped: no living token was signed with it", zap.String("kid", id))
	}
	if len(done.Published) > 0 || len(done.Dropped) > 0 {
		n.KeysChanged(ctx)
	}
	return err
}

// replacement returns a new signing key of the issuer's algorithm, which is not stored, and the ids of the keys that it would replace: all
// that are not revoked.
func (k *keyring) replacement(ctx context.Context) (fresh store.StoredKey, older []string, err error) {
	list, err := k.ring().List(ctx)
	if err != nil {
		return fresh, nil, err
	}
	for _, key := range list {
		if key.RevokedAt.IsZero() {
			older = append(older, key.ID)
		}
	}
	key, err := keys.NewSigningKey(k.settings.Algorithm, k.clock.Now())
	if err != nil {
		return fresh, nil, err
	}
	fresh, err = key.Stored(k.sealer)
	return fresh, older, err
}

// states returns the number of signing keys in memory by state, and of stored ones that are refused.
func (k *keyring) states() map[keys.State]int {
	now := k.clock.Now()
	states := map[keys.State]int{keys.StatePublished: 0, keys.StateSigning: 0, keys.StateSuperseded: 0}
	states[keys.StateRefused] = int(k.refused.Load())
	for _, key := range k.keys.List() {
		states[k.keys.StateOf(key, now)]++
	}
	return states
}

// signing returns the kids of the signing keys by algorithm; empty: the algorithm has none.
func (k *keyring) signing() map[oauth.Algorithm]string {
	now, kids := k.clock.Now(), make(map[oauth.Algorithm]string)
	for _, algorithm := range k.settings.algorithms() {
		kids[algorithm] = ""
		if key, err := k.keys.SigningWith(algorithm, now); err == nil {
			kids[algorithm] = key.ID
		}
	}
	return kids
}
