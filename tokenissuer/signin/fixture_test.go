package signin_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// providerPeople is an issuer with the organisation acme, the stored user u-ada, and the declared user u-dora.
type providerPeople struct {
	*testing.T
	Accounts
	registry *people.Registry
	stored   *countingStore
	at       time.Time
}

// countingStore counts writes of identities and users.
type countingStore struct {
	store.Store
	writes atomic.Int64
	away   bool
	// beforeTouch is called before TouchIdentity. It may be nil.
	beforeTouch func()
	// beforeLink is called before an identity is linked. It may be nil.
	beforeLink func()
}

func newCountingStore(whole store.Store) *countingStore {
	s := &countingStore{Store: whole}
	s.Users, s.Identities = countedUsers{whole.Users, s}, countedIdentities{whole.Identities, s}
	return s
}

type countedUsers struct {
	store.UserStore
	counts *countingStore
}

type countedIdentities struct {
	store.IdentityStore
	counts *countingStore
}

func (s countedIdentities) UserByIdentity(ctx context.Context, provider, subject string) (store.Identity, error) {
	if s.counts.away {
		return store.Identity{}, store.Unavailable(errors.New("the store is away"))
	}
	return s.IdentityStore.UserByIdentity(ctx, provider, subject)
}

func (s countedIdentities) TouchIdentity(ctx context.Context, i store.Identity) error {
	s.counts.writes.Add(1)
	if s.counts.beforeTouch != nil {
		s.counts.beforeTouch()
	}
	return s.IdentityStore.TouchIdentity(ctx, i)
}

func (s countedIdentities) LinkIdentity(ctx context.Context, i store.Identity) error {
	i.LinkedAt = s.counts.moment(i.LinkedAt)
	if s.counts.beforeLink != nil {
		s.counts.beforeLink()
	}
	return s.IdentityStore.LinkIdentity(ctx, i)
}

// moment counts a write, and returns a different time for each one.
func (s *countingStore) moment(at time.Time) time.Time {
	return at.Add(time.Duration(s.writes.Add(1)) * time.Microsecond)
}

func (s countedUsers) AddUser(ctx context.Context, u *store.User, declared bool, identities ...store.Identity) error {
	for i := range identities {
		identities[i].LinkedAt = s.counts.moment(identities[i].LinkedAt)
	}
	return s.UserStore.AddUser(ctx, u, declared, identities...)
}

func (s countedUsers) ChangeUser(ctx context.Context, id string, change store.UserChange, end store.Ending) ([]store.Revocation, error) {
	s.counts.writes.Add(1)
	return s.UserStore.ChangeUser(ctx, id, change, end)
}

func newPeople(t *testing.T) *providerPeople {
	t.Helper()
	p := &providerPeople{T: t, stored: newCountingStore(teststore.New(t).Store), at: time.Unix(1_800_000_000, 0).UTC()}
	declared, err := store.NewStaticDirectory(store.Declarations{
		Users: []*store.User{{ID: "u-dora", Email: "dora@acme.example", Name: "Dora", Status: store.UserActive, External: true, Groups: []string{"desk"}}},
	})
	p.must(err)
	p.must(p.stored.Users.AddOrganisation(t.Context(), &store.Organisation{ID: "acme", Name: "Acme"}))
	p.must(p.stored.Users.AddUser(t.Context(), &store.User{
		ID: "u-ada", Email: "ada@acme.example", Name: "Ada", Organisation: "acme", Status: store.UserActive, CreatedAt: p.at.Add(-time.Hour),
		PasswordHash: oauth.NewSecret("$2a$04$abcdefghijklmnopqrstuuZ7ZmX5rQ9rQ9rQ9rQ9rQ9rQ9rQ9rQ9r"), Groups: []string{"founders"},
	}, false))
	now := func() time.Time { return p.at }
	revocations := token.NewRevocationSet()
	p.Families = &families.Families{
		Opened:      families.Opened{Directory: store.OverlayDirectory{Declared: declared, Stored: p.stored.Directory()}, Store: families.StoreOf(p.stored.Store)},
		Revocations: revocations, Now: now, NodeNow: now,
	}
	p.registry = &people.Registry{
		Clients: &clients.Registry{Families: p.Families, Known: &clients.Clients{Families: p.Families}, Declared: declared, Stored: p.stored.Clients},
		People:  &people.Users{Families: p.Families, Declared: declared, Stored: people.StoreOf(p.stored.Store)},
	}
	p.Users = p.registry.People
	return p
}

func (p *providerPeople) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// signsIn returns the user of an account that the rules admit.
func (p *providerPeople) signsIn(account Account, rules Rules) *store.User {
	p.Helper()
	user, err := p.User(p.Context(), account, rules)
	p.must(err)
	return user
}

// refuses fails unless the account is refused for the reason and nothing is written.
func (p *providerPeople) refuses(account Account, rules Rules, reason string) {
	p.Helper()
	before := p.stored.writes.Load()
	user, err := p.User(p.Context(), account, rules)
	if user != nil || err == nil {
		p.Errorf("%s %q was let in as %+v", account.Provider, account.Subject, user)
		return
	}
	tokentest.WantCode(p, err, oauth.AccessDenied)
	if got := oauth.AsError(err).Reason; got != reason {
		p.Errorf("refused for %s, not for %s", got, reason)
	}
	if reason != ReasonAddressTaken && p.stored.writes.Load() != before {
		p.Error("something was written for somebody who was refused")
	}
}

func (p *providerPeople) identities(userID string) []store.Identity {
	p.Helper()
	list, err := p.stored.Identities.Identities(p.Context(), userID)
	p.must(err)
	return list
}

func (p *providerPeople) count() int {
	p.Helper()
	list, err := p.stored.Users.Users(p.Context(), "")
	p.must(err)
	return len(list)
}

// google returns an account of the provider google.
func google(subject, email string, verified bool) Account {
	return Account{Provider: "google", Subject: subject, Email: email, EmailVerified: verified, Name: "Grace Hopper"}
}

var (
	creates = Rules{Create: &Creation{}}
	links   = Rules{Link: LinkVerifiedEmail}
	both    = Rules{Link: LinkVerifiedEmail, Create: &Creation{}}
)

func same(a, b []string) bool { return slices.Equal(a, b) }
