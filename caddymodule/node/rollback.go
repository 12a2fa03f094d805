package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// markInterval is how often the file of a marker is written at most.
const markInterval = time.Second

// lastMarksTimeout bounds the last look of a node that closes.
const lastMarksTimeout = time.Second

// maxLooks is how often marks are compared before they settle: before and after a distrust, and with either identity.
const maxLooks = 6

// rollbackDetector remembers beside the database how far that had come, for as long as this machine has its data directory: a
// database that has come less far was put back to an older state.
type rollbackDetector struct {
	identity string // the database's; empty: the store has no marks, or they were not asked for yet
	file     string // in which the database is; empty: it is in none of ours
	seen     sqlstore.Marks
	kept     sqlstore.Marks // what stands in the file
	written  time.Time
	failing  bool
}

// savedPositions are what a marker's file holds.
type savedPositions struct {
	sqlstore.Marks
	// File is the absolute path of the database; empty: the marker is an older build's, or the database a server's.
	File string `json:"file,omitzero"`
}

// readPositions reads a marker's file.
func readPositions(path string) (marks savedPositions, err error) {
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &marks)
	}
	return marks, err
}

// markerPrefix begins the names of markers.
const markerPrefix = "marker-"

func markerDirectory() string { return filepath.Join(caddy.AppDataDir(), "oauth") }

func (m *rollbackDetector) path() string {
	return filepath.Join(markerDirectory(), markerPrefix+m.identity+".json")
}

// positions is a store that may be put back to an older state; see sqlstore.Store.
type positions interface {
	store.KeyStore
	Progress(ctx context.Context, seen sqlstore.Marks) (sqlstore.Progress, error)
	Distrust(ctx context.Context, seen sqlstore.Marks, fresh store.StoredKey, ids []string, at time.Time) (bool, error)
}

// checkRestored answers for a database that was put back to an older state, as from a backup. It is called when the keys
// and the revocations of the store have been read.
func (n *Node) checkRestored(ctx context.Context) error {
	s, ok := n.feed.store.(positions)
	if !ok {
		return nil
	}
	n.keyring.mu.Lock()
	defer n.keyring.mu.Unlock()
	return n.compareMarks(ctx, s)
}

// checkMarks is checkRestored for a store that is in use.
func (n *Node) checkMarks(ctx context.Context) error {
	s, ok := n.store.(positions)
	if !ok {
		return nil
	}
	return n.compareMarks(ctx, s)
}

// compareMarks looks until the database has what was seen of it. A marker is read before the counters with which it is
// compared: another process may move both on in between. And counters are noted only under the identity that came with them:
// a database that was distrusted has another one, and the marker of the former may be that of a database of which this one
// was a copy.
func (n *Node) compareMarks(ctx context.Context, s positions) error {
	for range maxLooks {
		now, err := n.progress(ctx, s)
		switch {
		case err != nil:
			return err
		case now.Behind:
			if err := n.distrust(ctx, s, now.Marks); err != nil {
				return err
			}
		case now.Identity != n.rollbackDetector.identity:
			n.openMarker(now.Identity)
		default:
			n.mark(now.Marks)
			return nil
		}
	}
	return errUnsettled
}

// progress compares the database with what was seen of it, by the feed too.
func (n *Node) progress(ctx context.Context, s positions) (sqlstore.Progress, error) {
	seen := &n.rollbackDetector.seen
	if lost := n.feed.lost.Swap(nil); lost != nil {
		seen.Revocations, seen.Tag = lost.Revocations, lost.Tag
	}
	return s.Progress(ctx, *seen)
}

// errUnsettled: whatever is done, the database has lost something.
var errUnsettled = errors.New("the database is put back to an older state again and again")

// checkEmptied refuses a file of no bytes where a marker tells that it was a database: with a fresh set of keys it would pass
// for one that begins. There is no marker of it yet when the first start breaks off.
func checkEmptied(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return nil // the store says what is wrong
	}
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		return nil // likewise
	}
	found, err := os.ReadDir(markerDirectory())
	if err != nil {
		return nil // there has been no database
	}
	for _, entry := range found {
		if !strings.HasPrefix(entry.Name(), markerPrefix) {
			continue
		}
		marks, err := readPositions(filepath.Join(markerDirectory(), entry.Name()))
		if err == nil && marks.File != "" && marks.File == absolute(path) {
			return fmt.Errorf("the database %s is empty, and %s tells that it was not: "+
				"put a backup in its place, or remove the empty file to begin with nothing", path, entry.Name())
		}
	}
	return nil
}

// absolute is a path as it is the same from every directory; empty when there is none.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	return path
}

// openMarker goes over to the marker of a database.
func (n *Node) openMarker(identity string) {
	m := &n.rollbackDetector
	m.identity, m.file, m.written = identity, absolute(n.settings.Path), time.Time{}
	found, err := readPositions(m.path())
	m.kept = found.Marks
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.log().Error("the marker cannot be read: had the database been put back to an older state, nobody would know", zap.Error(err))
	}
	m.seen = m.kept
}

// distrust begins anew with a fresh key. Which tokens were revoked since the backup is not known any more, so that none that
// an older key has signed can be trusted.
func (n *Node) distrust(ctx context.Context, s positions, now sqlstore.Marks) error {
	n.log().Error("the database was put back to an older state, and what was revoked since then is forgotten: every older signing key is "+
		"revoked, and clients must get new tokens. Sign-ins, clients and people that were ended since then are back: end them again",
		zap.Int64("revocations", now.Revocations), zap.Int64("revocations_seen", n.rollbackDetector.seen.Revocations),
		zap.Int64("keys", now.Keys), zap.Int64("keys_seen", n.rollbackDetector.seen.Keys))
	ring := n.keyRingOf(s)
	older, err := ring.List(ctx)
	if err != nil {
		return err
	}
	var ids []string
	for _, key := range older {
		if key.RevokedAt.IsZero() {
			ids = append(ids, key.ID)
		}
	}
	key, err := keys.NewSigningKey(n.settings.Algorithm, n.time.Now())
	if err != nil {
		return err
	}
	fresh, err := key.Stored(n.keySeal)
	if err != nil {
		return err
	}
	done, err := s.Distrust(ctx, n.rollbackDetector.seen, fresh, ids, n.time.Now())
	if err != nil {
		return err
	}
	if done {
		n.log().Info("a new key signs", zap.String("kid", fresh.ID), zap.Strings("revoked", ids))
	}
	if err := ring.Refresh(ctx); err != nil {
		return err
	}
	return n.catchUp(ctx)
}

// mark takes note of how far the store has come.
func (n *Node) mark(now sqlstore.Marks) {
	n.rollbackDetector.seen = now
	if n.now().Sub(n.rollbackDetector.written).Abs() >= markInterval {
		n.writeMarker()
	}
}

// keepMarks takes note of how far the store has come when the node closes, so that the marker lacks nothing of an orderly
// stop. A database that is away delays no stop, and the next start answers for one that was put back.
func (n *Node) keepMarks() {
	s, ok := n.store.(positions)
	if !ok || n.feed.failing || !n.keyring.mu.TryLock() { // taken: by a request, and when those are through this is called again
		return
	}
	defer n.keyring.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), lastMarksTimeout)
	defer cancel()
	now, err := n.progress(ctx, s)
	if err != nil || now.Behind || now.Identity != n.rollbackDetector.identity {
		return
	}
	n.rollbackDetector.seen = now.Marks
	n.writeMarker()
}

// writeMarker brings the file up to date.
func (n *Node) writeMarker() {
	m := &n.rollbackDetector
	if m.seen == m.kept {
		return
	}
	m.written = n.now()
	err := m.write()
	if err != nil && !m.failing {
		n.log().Error("the marker cannot be written: a database that is put back to an older state will not be noticed", zap.Error(err))
	}
	m.failing = err != nil
}

// write replaces the file, or leaves it as it is. Another node of this machine, which began with a reload or in a process
// beside, may have come farther.
func (m *rollbackDetector) write() (err error) {
	if found, err := readPositions(m.path()); err == nil && isFarther(found.Marks, m.seen) {
		m.kept = m.seen
		return nil
	}
	directory := markerDirectory()
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(directory, ".marker-*") // for the owner alone
	if err != nil {
		return err
	}
	err = errors.Join(json.MarshalWrite(file, savedPositions{m.seen, m.file}), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), m.path())
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	m.kept = m.seen
	return syncDirectory(directory)
}

// isFarther reports whether the one marks are beyond the others.
func isFarther(marks, others sqlstore.Marks) bool {
	return marks.Revocations >= others.Revocations && marks.Keys >= others.Keys &&
		(marks.Revocations > others.Revocations || marks.Keys > others.Keys)
}

// syncDirectory makes a new name durable.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
