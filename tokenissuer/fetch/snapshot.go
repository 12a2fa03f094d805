package fetch

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
	maxSnapshot = 2*DefaultMaxBytes + 8<<10
	// clockSkew is the tolerated clock difference to nodes that share the storage.
	clockSkew = time.Minute
)

// Snapshots store the last good key set for later processes. The methods may be slow and may fail.
type Snapshots interface {
	// Load returns the data last saved under the name, or fs.ErrNotExist.
	Load(ctx context.Context, name string) ([]byte, error)
	// Save replaces the data.
	Save(ctx context.Context, name string, data []byte) error
}

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

// UseSnapshots sets the storage for key sets; nil: none. It may be called at any time, and again.
func (k *Keys) UseSnapshots(s Snapshots) {
	if s == nil {
		k.snapshots.Store(nil)
		return
	}
	k.snapshots.Store(&snapshotCache{snapshots: s})
}

// snapshotName returns the name under which an issuer's keys are stored.
func (s *server) snapshotName() string {
	kind := s.source.JWKSURI
	if s.source.OpenID != nil {
		kind = "openid" // no URL
	}
	digest := sha256.Sum256([]byte(s.source.Issuer + "\n" + kind))
	return hex.EncodeToString(digest[:])
}

// recall starts to load the snapshot, once, if no keys are known yet. It returns a channel that is closed when the load
// ends.
func (k *Keys) recall() <-chan struct{} {
	s := k.snapshots.Load()
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
			if err := Guard(func() error { return k.load(ctx, s.snapshots) }); err != nil {
				k.options.Warn("the kept keys of "+k.server.source.Owner+" cannot be used", err)
			}
		}()
	}
	return s.read
}

func (k *Keys) load(ctx context.Context, snapshots Snapshots) error {
	data, err := snapshots.Load(ctx, k.server.snapshotName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	set, err := k.server.readSnapshot(data, k.options.Now())
	if err != nil {
		return err
	}
	k.fetching.mu.Lock()
	defer k.fetching.mu.Unlock()
	if before := k.known.Load(); before.set == nil { // else they have been fetched meanwhile
		next := *before
		next.set = set
		k.replace(&next)
	}
	return nil
}

// readSnapshot parses a snapshot, with the same checks as a fetched key set.
func (s *server) readSnapshot(data []byte, now time.Time) (*keySet, error) {
	if len(data) > maxSnapshot {
		return nil, fmt.Errorf("it is longer than %d bytes", maxSnapshot)
	}
	var kept snapshot
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, err
	}
	if kept.Issuer != s.source.Issuer {
		return nil, fmt.Errorf("it is of issuer %q", kept.Issuer)
	}
	if err := s.checkPlace(kept.JWKSURI); err != nil {
		return nil, err
	}
	if s.source.OpenID != nil {
		if uri, err := s.readMetadata(kept.Metadata); err != nil || uri != kept.JWKSURI {
			return nil, cmp.Or(err, fmt.Errorf("its keys are from %s, not from %s", kept.JWKSURI, uri))
		}
	}
	if kept.FetchedAt.After(now.Add(clockSkew)) {
		return nil, fmt.Errorf("it was fetched in the future, at %s", kept.FetchedAt)
	}
	if kept.FetchedAt.After(now) {
		kept.FetchedAt = now
	}
	set, err := s.readKeySet(kept.JWKS, kept.JWKSURI, kept.FetchedAt)
	if err == nil && s.source.OpenID != nil {
		set.metadata = kept.Metadata
	}
	return set, err
}

// keep saves a set in the background if its keys changed or the snapshot is old.
func (k *Keys) keep(set *keySet, changed bool) {
	s := k.snapshots.Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := k.options.Now()
	if age := now.Sub(s.keptAt); !changed && age >= 0 && age < min(keepEvery, k.server.source.MaxStale/2) {
		return
	}
	if s.keeping {
		s.missed = true
		return
	}
	s.keeping, s.keptAt = true, now
	go func() {
		err := Guard(func() error { return k.server.write(s.snapshots, set) })
		s.mu.Lock()
		if err != nil || s.missed {
			s.keptAt = time.Time{} // retry after the next fetch
		}
		s.keeping, s.missed = false, false
		s.mu.Unlock()
		if err != nil {
			k.options.Warn("the keys of "+k.server.source.Owner+" cannot be kept for a start without it", err)
		}
	}()
}

func (s *server) write(snapshots Snapshots, set *keySet) error {
	data, err := json.Marshal(snapshot{
		Issuer: s.source.Issuer, JWKSURI: set.uri, FetchedAt: set.fetchedAt.UTC(), JWKS: set.document, Metadata: set.metadata,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	return snapshots.Save(ctx, s.snapshotName(), data)
}
