package grants_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// faultyStore is a store in which one step can fail, before or after it is done.
type faultyStore struct {
	*sqlstore.Store

	mu    sync.Mutex
	step  string
	after bool
	log   []string
	first func()
	at    string
}

// meanwhile calls something once, just before a step: after the caller has checked and before it acts.
func (s *faultyStore) meanwhile(step string, something func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.first = step, something
}

// fail makes a step fail; an empty name means none. With after, the step is done but its response is lost.
func (s *faultyStore) fail(step string, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.after = step, after
}

func (s *faultyStore) run(step string, do func() error) error {
	s.mu.Lock()
	fails, after := s.step == step, s.after
	s.log = append(s.log, step)
	var first func()
	if s.at == step {
		first, s.first, s.at = s.first, nil, ""
	}
	s.mu.Unlock()
	if first != nil {
		first()
	}
	if fails && !after {
		return store.Unavailable(fmt.Errorf("%s: the disk is full", step))
	}
	err := do()
	if fails && err == nil {
		return store.Unavailable(fmt.Errorf("%s: the connection was cut", step))
	}
	return err
}

// outcome runs a step that has an outcome.
func (s *faultyStore) outcome(step string, do func() (store.Outcome, error)) (outcome store.Outcome, err error) {
	if err = s.run(step, func() error { outcome, err = do(); return err }); err != nil {
		return 0, err
	}
	return outcome, nil
}

// asked returns the steps since the last call.
func (s *faultyStore) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

// canceled returns the context of a caller that has disconnected.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// The steps of the store that can fail, by name.

func (s *faultyStore) AddFamily(ctx context.Context, f *store.TokenFamily) (store.Outcome, error) {
	return s.outcome("AddFamily", func() (store.Outcome, error) { return s.Store.AddFamily(ctx, f) })
}

func (s *faultyStore) Family(ctx context.Context, id string) (f *store.TokenFamily, err error) {
	err = s.run("Family", func() error { f, err = s.Store.Family(ctx, id); return err })
	return f, err
}

func (s *faultyStore) RedeemCode(ctx context.Context, id string, r store.Redemption) (outcome store.Outcome, f *store.TokenFamily, err error) {
	outcome, err = s.outcome("RedeemCode", func() (store.Outcome, error) { outcome, f, err = s.Store.RedeemCode(ctx, id, r); return outcome, err })
	return outcome, f, err
}

func (s *faultyStore) CountCodeFailure(ctx context.Context, id string) error {
	return s.run("CountCodeFailure", func() error { return s.Store.CountCodeFailure(ctx, id) })
}

func (s *faultyStore) RotateRefreshToken(ctx context.Context, id string, generation int64, r store.Rotation) (outcome store.Outcome, f *store.TokenFamily, err error) {
	outcome, err = s.outcome("RotateRefreshToken", func() (store.Outcome, error) {
		outcome, f, err = s.Store.RotateRefreshToken(ctx, id, generation, r)
		return outcome, err
	})
	return outcome, f, err
}

func (s *faultyStore) TouchFamily(ctx context.Context, id string, at time.Time) (store.Outcome, error) {
	return s.outcome("TouchFamily", func() (store.Outcome, error) { return s.Store.TouchFamily(ctx, id, at) })
}

func (s *faultyStore) EndFamilies(ctx context.Context, which store.FamilyFilter, end store.Ending) (ended []store.Revocation, err error) {
	err = s.run("EndFamilies", func() error { ended, err = s.Store.EndFamilies(ctx, which, end); return err })
	return ended, err
}

func (s *faultyStore) FamiliesOf(ctx context.Context, userID string, expireAfter time.Time) (list []*store.TokenFamily, err error) {
	err = s.run("FamiliesOf", func() error { list, err = s.Store.FamiliesOf(ctx, userID, expireAfter); return err })
	return list, err
}

func (s *faultyStore) DecideRequest(ctx context.Context, id string, expires time.Time) (store.Outcome, error) {
	return s.outcome("DecideRequest", func() (store.Outcome, error) { return s.Store.DecideRequest(ctx, id, expires) })
}

func (s *faultyStore) Consent(ctx context.Context, userID, clientID string) (scopes oauth.Scopes, err error) {
	err = s.run("Consent", func() error { scopes, err = s.Store.Consent(ctx, userID, clientID); return err })
	return scopes, err
}

func (s *faultyStore) PutConsent(ctx context.Context, userID, clientID string, scopes oauth.Scopes, at time.Time) error {
	return s.run("PutConsent", func() error { return s.Store.PutConsent(ctx, userID, clientID, scopes, at) })
}

func (s *faultyStore) Revoke(ctx context.Context, r ...store.Revocation) error {
	return s.run("Revoke", func() error { return s.Store.Revoke(ctx, r...) })
}

func (s *faultyStore) Declarations(ctx context.Context) (declared []store.Declaration, ended []store.EndedDeclaration, err error) {
	err = s.run("Declarations", func() error { declared, ended, err = s.Store.Declarations(ctx); return err })
	return declared, ended, err
}

func (s *faultyStore) PutDeclarations(ctx context.Context, declared []store.Declaration, ended []store.EndedDeclaration) error {
	return s.run("PutDeclarations", func() error { return s.Store.PutDeclarations(ctx, declared, ended) })
}

func (s *faultyStore) Client(ctx context.Context, id string) (c *store.Client, err error) {
	err = s.run("Client", func() error { c, err = s.Store.Client(ctx, id); return err })
	return c, err
}

func (s *faultyStore) User(ctx context.Context, id string) (u *store.User, err error) {
	err = s.run("User", func() error { u, err = s.Store.User(ctx, id); return err })
	return u, err
}

func (s *faultyStore) UserByEmail(ctx context.Context, email string) (u *store.User, err error) {
	err = s.run("UserByEmail", func() error { u, err = s.Store.UserByEmail(ctx, email); return err })
	return u, err
}

func (s *faultyStore) RehashPassword(ctx context.Context, id string, old, hash oauth.Secret) error {
	return s.run("RehashPassword", func() error { return s.Store.RehashPassword(ctx, id, old, hash) })
}

func (s *faultyStore) PasswordSchemes(ctx context.Context) (schemes []string, err error) {
	err = s.run("PasswordSchemes", func() error { schemes, err = s.Store.PasswordSchemes(ctx); return err })
	return schemes, err
}
