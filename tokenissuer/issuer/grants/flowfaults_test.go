package grants_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// faultyStore is a store in which one step can fail, before or after it is done.
type faultyStore struct {
	store.Store
	whole store.Store // in which no step fails

	mu    sync.Mutex
	step  string
	after bool
	log   []string
	first func()
	at    string
}

func newFaultyStore(whole store.Store) *faultyStore {
	s := &faultyStore{Store: whole, whole: whole}
	s.Clients, s.Users = faultyClients{whole.Clients, s}, faultyUsers{whole.Users, s}
	s.Families, s.Devices = faultyFamilies{whole.Families, s}, faultyDevices{whole.Devices, s}
	s.Revocations, s.Declarations = faultyRevocations{whole.Revocations, s}, faultyDeclarations{whole.Declarations, s}
	return s
}

// The parts with steps that can fail.
type (
	faultyClients struct {
		store.ClientStore
		faults *faultyStore
	}
	faultyUsers struct {
		store.UserStore
		faults *faultyStore
	}
	faultyFamilies struct {
		store.FamilyStore
		faults *faultyStore
	}
	faultyDevices struct {
		store.DeviceStore
		faults *faultyStore
	}
	faultyRevocations struct {
		store.RevocationStore
		faults *faultyStore
	}
	faultyDeclarations struct {
		store.DeclarationStore
		faults *faultyStore
	}
)

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

func (s faultyDevices) AddDevice(ctx context.Context, d *store.Device, most int) (added bool, err error) {
	err = s.faults.run("AddDevice", func() error { added, err = s.DeviceStore.AddDevice(ctx, d, most); return err })
	return added, err
}

func (s faultyDevices) DeviceByUserCode(ctx context.Context, userCode string) (d *store.Device, err error) {
	err = s.faults.run("DeviceByUserCode", func() error { d, err = s.DeviceStore.DeviceByUserCode(ctx, userCode); return err })
	return d, err
}

func (s faultyDevices) ChangeDevice(ctx context.Context, id string, change func(*store.Device) error) error {
	return s.faults.run("ChangeDevice", func() error { return s.DeviceStore.ChangeDevice(ctx, id, change) })
}

func (s faultyFamilies) AddFamily(ctx context.Context, f *store.TokenFamily) (store.Outcome, error) {
	return s.faults.outcome("AddFamily", func() (store.Outcome, error) { return s.FamilyStore.AddFamily(ctx, f) })
}

func (s faultyFamilies) Family(ctx context.Context, id string) (f *store.TokenFamily, err error) {
	err = s.faults.run("Family", func() error { f, err = s.FamilyStore.Family(ctx, id); return err })
	return f, err
}

func (s faultyFamilies) RedeemCode(ctx context.Context, id string, r store.Redemption) (outcome store.Outcome, f *store.TokenFamily, err error) {
	outcome, err = s.faults.outcome("RedeemCode", func() (store.Outcome, error) {
		outcome, f, err = s.FamilyStore.RedeemCode(ctx, id, r)
		return outcome, err
	})
	return outcome, f, err
}

func (s faultyFamilies) CountCodeFailure(ctx context.Context, id string) error {
	return s.faults.run("CountCodeFailure", func() error { return s.FamilyStore.CountCodeFailure(ctx, id) })
}

func (s faultyFamilies) RotateRefreshToken(ctx context.Context, id string, generation int64, r store.Rotation) (outcome store.Outcome, f *store.TokenFamily, err error) {
	outcome, err = s.faults.outcome("RotateRefreshToken", func() (store.Outcome, error) {
		outcome, f, err = s.FamilyStore.RotateRefreshToken(ctx, id, generation, r)
		return outcome, err
	})
	return outcome, f, err
}

func (s faultyFamilies) TouchFamily(ctx context.Context, id string, at time.Time) (store.Outcome, error) {
	return s.faults.outcome("TouchFamily", func() (store.Outcome, error) { return s.FamilyStore.TouchFamily(ctx, id, at) })
}

func (s faultyFamilies) EndFamilies(ctx context.Context, which store.FamilyFilter, end store.Ending) (ended []store.Revocation, err error) {
	err = s.faults.run("EndFamilies", func() error { ended, err = s.FamilyStore.EndFamilies(ctx, which, end); return err })
	return ended, err
}

func (s faultyFamilies) FamiliesOf(ctx context.Context, userID string, expireAfter time.Time) (list []*store.TokenFamily, err error) {
	err = s.faults.run("FamiliesOf", func() error { list, err = s.FamilyStore.FamiliesOf(ctx, userID, expireAfter); return err })
	return list, err
}

func (s faultyFamilies) DecideRequest(ctx context.Context, id string, expires time.Time) (store.Outcome, error) {
	return s.faults.outcome("DecideRequest", func() (store.Outcome, error) { return s.FamilyStore.DecideRequest(ctx, id, expires) })
}

func (s faultyFamilies) Consent(ctx context.Context, userID, clientID string) (scopes oauth.Scopes, err error) {
	err = s.faults.run("Consent", func() error { scopes, err = s.FamilyStore.Consent(ctx, userID, clientID); return err })
	return scopes, err
}

func (s faultyFamilies) PutConsent(ctx context.Context, userID, clientID string, scopes oauth.Scopes, at time.Time) error {
	return s.faults.run("PutConsent", func() error { return s.FamilyStore.PutConsent(ctx, userID, clientID, scopes, at) })
}

func (s faultyRevocations) Revoke(ctx context.Context, r ...store.Revocation) error {
	return s.faults.run("Revoke", func() error { return s.RevocationStore.Revoke(ctx, r...) })
}

func (s faultyDeclarations) Declarations(ctx context.Context) (declared []store.Declaration, ended []store.EndedDeclaration, err error) {
	err = s.faults.run("Declarations", func() error { declared, ended, err = s.DeclarationStore.Declarations(ctx); return err })
	return declared, ended, err
}

func (s faultyDeclarations) PutDeclarations(ctx context.Context, declared []store.Declaration, ended []store.EndedDeclaration) error {
	return s.faults.run("PutDeclarations", func() error { return s.DeclarationStore.PutDeclarations(ctx, declared, ended) })
}

func (s faultyClients) Client(ctx context.Context, id string) (c *store.Client, err error) {
	err = s.faults.run("Client", func() error { c, err = s.ClientStore.Client(ctx, id); return err })
	return c, err
}

func (s faultyUsers) User(ctx context.Context, id string) (u *store.User, err error) {
	err = s.faults.run("User", func() error { u, err = s.UserStore.User(ctx, id); return err })
	return u, err
}

func (s faultyUsers) UserByEmail(ctx context.Context, email string) (u *store.User, err error) {
	err = s.faults.run("UserByEmail", func() error { u, err = s.UserStore.UserByEmail(ctx, email); return err })
	return u, err
}

func (s faultyUsers) RehashPassword(ctx context.Context, id string, old, hash oauth.Secret) error {
	return s.faults.run("RehashPassword", func() error { return s.UserStore.RehashPassword(ctx, id, old, hash) })
}

func (s faultyUsers) PasswordSchemes(ctx context.Context) (schemes []string, err error) {
	err = s.faults.run("PasswordSchemes", func() error { schemes, err = s.UserStore.PasswordSchemes(ctx); return err })
	return schemes, err
}
