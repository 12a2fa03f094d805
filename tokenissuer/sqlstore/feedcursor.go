package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// keptTags is how many of the latest positions of the feed have their tag. At the highest rate of revocations it is that of
// half a minute.
const keptTags = 1 << 14

// feedCursor is what a Store remembers of the feed.
type feedCursor struct {
	mu    sync.Mutex
	known Marks // the last position of the counter that was read, and its tag
	lost  Marks // one that the database had, and has not any more; zero: none
	page  int64 // where the page ended that was read last; 0: no other follows
}

// standing is where the feed stands.
type standing struct {
	Marks
	page int64 // see followed
	anew bool  // what was read of the feed before cannot be relied on
}

// follow reads where the feed stands, and finds out whether what was seen of it is still there. Who has read the feed so far
// calls reached.
func (s *Store) follow(ctx context.Context) (standing, error) {
	f := &s.feedCursor
	f.mu.Lock()
	known, page := f.known, f.page
	f.mu.Unlock()
	now, err := s.progress(ctx, known)
	if err != nil {
		return standing{}, err
	}
	if now.gone {
		f.mu.Lock()
		f.lost = known
		f.mu.Unlock()
	}
	// Beyond the tags that are kept nobody can tell, so that what may be new there is read.
	untold := known.Tag != 0 && now.Revocations-known.Revocations >= keptTags
	return standing{now.Marks, page, now.gone || untold}, nil
}

// reached remembers where the feed stood, and where the page ended that was read of it; 0: it was the last.
func (f *feedCursor) reached(now Marks, page int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.page = Marks{Revocations: now.Revocations, Tag: now.Tag}, page
}

// hasLost returns what the database has lost before the eyes of this Store.
func (f *feedCursor) hasLost() Marks {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// forgive forgets that something was lost: it has been answered for.
func (f *feedCursor) forgive(lost Marks) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost == lost {
		f.lost = Marks{}
	}
}

// tagFeed gives the feed's newest position $2 its tag $3, in the slot $1. The caller holds the counter.
const (
	tagFeed   = `INSERT INTO feed_tags (slot, position, tag) VALUES ($1, $2, $3)` + orTagAnew
	orTagAnew = ` ON CONFLICT (slot) DO UPDATE SET position = excluded.position, tag = excluded.tag`
)

// randomNumber is never 0.
func randomNumber() int64 {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return int64(binary.BigEndian.Uint64(random[:])>>1) | 1
}
