package trust

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// keepEvery is the maximum age of a snapshot while fetches succeed: a later process derives staleness from its date.
	keepEvery = time.Hour
	// keepTimeout bounds one load and one save.
	keepTimeout = 5 * time.Second
	maxSnapshot = 2*maxAnswer + 8<<10
	// clockSkew is the tolerated clock difference to nodes that share the storage.
	clockSkew = time.Minute
)

// snapshot is the stored form of a key set.
type snapshot struct {
	Issuer    string         `json:"issuer"`
	JWKSURI   string         `json:"jwks_uri"`
	FetchedAt time.Time      `json:"fetched_at"`
	JWKS      jsontext.Value `json:"jwks"`
	// Metadata is that of an OpenID provider; else empty.
	Metadata jsontext.Value `json:"metadata,omitzero"`
}

// snapshotCache is the snapshot storage and the state of its use.
type snapshotCache struct {
	snapshots Snapshots

	mu      sync.Mutex
	read    <-chan struct{} // closed when the load has ended or timed out; nil: not started
	keeping bool
	keptAt  time.Time
	missed  bool // a set arrived while another was being saved
}

// useSnapshots sets the storage; nil: none.
func (k *remoteKeys) useSnapshots(s Snapshots) {
	if s == nil {
		k.snapshotCache.Store(nil)
		return
	}
	k.snapshotCache.Store(&snapshotCache{snapshots: s})
}

// snapshotName returns the name under which an issuer's keys are stored.
func (k *remoteKeys) snapshotName() string {
	kind := k.settings.JWKSURI
	if k.openID != nil {
		kind = "openid" // no URL
	}
	digest := sha256.Sum256([]byte(k.settings.Issuer + "\n" + kind))
	return hex.EncodeToString(digest[:])
}

// recall starts to load the snapshot, once, if no keys are known yet. It returns a channel that is closed when the load
// ends.
func (k *remoteKeys) recall() <-chan struct{} {
	s := k.snapshotCache.Load()
	if s == nil || k.known.Load().set != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == nil {
		ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
		s.read = ctx.Done()
		go func() {
			defer cancel()
			if err := guarded(func() error { return k.load(ctx, s.snapshots) }); err != nil {
				k.warn("the kept keys of "+k.whose()+" cannot be used", err)
			}
		}()
	}
	return s.read
}

func (k *remoteKeys) load(ctx context.Context, snapshots Snapshots) error {
	data, err := snapshots.Load(ctx, k.snapshotName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	set, err := k.readSnapshot(data)
	if err != nil {
		return err
	}
	k.restore(set)
	return nil
}

// readSnapshot parses a snapshot, with the same checks as a fetched key set.
func (k *remoteKeys) readSnapshot(data []byte) (*keySet, error) {
	if len(data) > maxSnapshot {
		return nil, fmt.Errorf("it is longer than %d bytes", maxSnapshot)
	}
	var s snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	if s.Issuer != k.settings.Issuer {
		return nil, fmt.Errorf("it is of issuer %q", s.Issuer)
	}
	if err := k.checkPlace(s.JWKSURI); err != nil {
		return nil, err
	}
	if k.openID != nil {
		if uri, err := k.readMetadata(s.Metadata); err != nil || uri != s.JWKSURI {
			return nil, cmp.Or(err, fmt.Errorf("its keys are from %s, not from %s", s.JWKSURI, uri))
		}
	}
	now := k.now()
	if s.FetchedAt.After(now.Add(clockSkew)) {
		return nil, fmt.Errorf("it was fetched in the future, at %s", s.FetchedAt)
	}
	if s.FetchedAt.After(now) {
		s.FetchedAt = now
	}
	set, err := k.readKeySet(s.JWKS, s.JWKSURI, s.FetchedAt)
	if err == nil && k.openID != nil {
		set.metadata = s.Metadata
	}
	return set, err
}

// keep saves a set in the background if its keys changed or the snapshot is old.
func (k *remoteKeys) keep(set *keySet, changed bool) {
	s := k.snapshotCache.Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := k.now()
	if age := now.Sub(s.keptAt); !changed && age >= 0 && age < min(keepEvery, k.settings.MaxStale/2) {
		return
	}
	if s.keeping {
		s.missed = true
		return
	}
	s.keeping, s.keptAt = true, now
	go func() {
		err := guarded(func() error { return k.write(s.snapshots, set) })
		s.mu.Lock()
		if err != nil || s.missed {
			s.keptAt = time.Time{} // retry after the next fetch
		}
		s.keeping, s.missed = false, false
		s.mu.Unlock()
		if err != nil {
			k.warn("the keys of "+k.whose()+" cannot be kept for a start without it", err)
		}
	}()
}

func (k *remoteKeys) write(snapshots Snapshots, set *keySet) error {
	data, err := json.Marshal(snapshot{
		Issuer: k.settings.Issuer, JWKSURI: set.uri, FetchedAt: set.fetchedAt.UTC(), JWKS: set.document, Metadata: set.metadata,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	return snapshots.Save(ctx, k.snapshotName(), data)
}
