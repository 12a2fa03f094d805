package grants

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// fakeDirectory is a Directory that counts look-ups and can fail.
type fakeDirectory struct {
	mu      sync.Mutex
	clients map[string]*store.Client
	users   []*store.User
	asked   []string
	fault   error
}

func newFakeDirectory(clients ...*store.Client) *fakeDirectory {
	d := &fakeDirectory{clients: make(map[string]*store.Client)}
	for _, c := range clients {
		d.clients[c.ID] = c
	}
	return d
}

func (d *fakeDirectory) Client(_ context.Context, id string) (*store.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, id)
	if d.fault != nil {
		return nil, d.fault
	}
	if c, ok := d.clients[id]; ok {
		return c, nil
	}
	return nil, store.ErrNotFound
}

func (d *fakeDirectory) User(_ context.Context, id string) (*store.User, error) {
	return d.user(func(u *store.User) bool { return u.ID == id })
}

func (d *fakeDirectory) UserByEmail(_ context.Context, email string) (*store.User, error) {
	return d.user(func(u *store.User) bool { return u.Email == email })
}

func (d *fakeDirectory) user(wanted func(*store.User) bool) (*store.User, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault != nil {
		return nil, d.fault
	}
	if i := slices.IndexFunc(d.users, wanted); i >= 0 {
		return d.users[i], nil
	}
	return nil, store.ErrNotFound
}

func (d *fakeDirectory) Organisation(context.Context, string) (*store.Organisation, error) {
	return nil, cmp.Or(d.fault, store.ErrNotFound)
}

func (d *fakeDirectory) put(c *store.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients[c.ID] = c
}

// questions returns the number of look-ups since the last call.
func (d *fakeDirectory) questions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.asked)
	d.asked = nil
	return n
}

// fakeAttempts is an AttemptCounter.
type fakeAttempts struct {
	mu      sync.Mutex
	buckets map[string]fakeBucket
	counted int
}

type fakeBucket struct {
	n     int
	until time.Time
}

func newFakeAttempts() *fakeAttempts { return &fakeAttempts{buckets: make(map[string]fakeBucket)} }

func (a *fakeAttempts) Failures(_ context.Context, bucket string, now time.Time) (int, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.buckets[bucket]; now.Before(b.until) {
		return b.n, b.until
	}
	return 0, time.Time{}
}

func (a *fakeAttempts) Fail(_ context.Context, bucket string, window time.Duration, now time.Time) (int, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.buckets[bucket]
	if !now.Before(b.until) {
		b = fakeBucket{until: now.Add(window)}
	}
	b.n++
	a.buckets[bucket] = b
	a.counted++
	return b.n, b.until
}

// Forgive removes one failure.
func (a *fakeAttempts) Forgive(_ context.Context, bucket string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.buckets[bucket]; now.Before(b.until) && b.n > 0 {
		b.n--
		a.buckets[bucket] = b
	}
}

// fakeStore is a families.Store without families that keeps a list of revocations. It does not implement other methods: the tests of
// package grants_test use a real store.
type fakeStore struct {
	families.ClientStore
	store.FamilyStore
	store.LogoutStore
	store.FactorStore
	store.AttemptStore

	mu          sync.Mutex
	list        []store.Revocation
	schemes     []string
	schemesRead int
	fault       error
}

func newFakeStore() *fakeStore { return new(fakeStore) }

func (s *fakeStore) Revoke(_ context.Context, r ...store.Revocation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return s.fault
	}
	s.list = append(s.list, r...)
	return nil
}

func (s *fakeStore) Revocations(_ context.Context, after store.FeedPosition) ([]store.Revocation, store.FeedPosition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list[after.At:]), store.FeedPosition{At: int64(len(s.list))}, s.fault
}

func (s *fakeStore) Family(context.Context, string) (*store.TokenFamily, error) {
	return nil, cmp.Or(s.fault, store.ErrNotFound)
}

func (s *fakeStore) EndFamilies(ctx context.Context, which store.FamilyFilter, end store.Ending) ([]store.Revocation, error) {
	ended := store.Revocation{Kind: store.RevokeFamily, ID: which.ID, ExpiresAt: end.Until}
	return []store.Revocation{ended}, s.Revoke(ctx, ended)
}

func (s *fakeStore) RehashPassword(context.Context, string, oauth.Secret, oauth.Secret) error {
	return s.fault
}

func (s *fakeStore) PasswordSchemes(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schemesRead++
	return s.schemes, s.fault
}

// Factors returns none.
func (*fakeStore) Factors(context.Context, string) ([]*store.Factor, error) { return nil, nil }
