package memstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/patrickmn/go-cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// account is a user with the number that its version spells.
type account struct {
	user    *store.User
	version int64
}

// User returns the user of that id.
func (s *Store) User(ctx context.Context, id string) (*store.User, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading user: %w", err)
	}
	found, err := s.account(id)
	return found.user, err
}

func (s *Store) account(id string) (account, error) {
	if found, ok := s.users.Get(id); ok {
		return found.(account), nil
	}
	return account{}, store.ErrNotFound
}

// UserByEmail returns the user of that canonical address, in one look-up whether there is one or not.
func (s *Store) UserByEmail(ctx context.Context, email string) (*store.User, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading user by e-mail address: %w", err)
	}
	if found, ok := s.emails.Get(email); ok {
		return found.(*store.User), nil
	}
	return nil, store.ErrNotFound
}

// Users lists the users, of one organisation unless its id is empty, by the bytes of their ids.
func (s *Store) Users(ctx context.Context, organisation string) ([]*store.User, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing users: %w", err)
	}
	var list []*store.User
	for _, item := range s.users.Items() {
		if u := item.Object.(account).user; organisation == "" || u.Organisation == organisation {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b *store.User) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// AddUser registers a user. The id of a removed user stays taken for a while, like that of a removed client; the address does not.
func (s *Store) AddUser(ctx context.Context, user *store.User, organisationDeclared bool) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("adding user: %w", err)
	}
	defer s.mu.Unlock()
	return s.addUser(*user, organisationDeclared)
}

// addUser registers a user. The caller holds the lock.
func (s *Store) addUser(user store.User, organisationDeclared bool) error {
	fail := func(err error) error { return fmt.Errorf("adding user: %w", err) }
	if _, stored := s.organisations.Get(user.Organisation); !stored && !organisationDeclared {
		return fail(fmt.Errorf("organisation %q: %w", user.Organisation, store.ErrNotFound))
	}
	if _, taken := s.emails.Get(user.Email); taken {
		return fail(store.ErrEmailTaken)
	}
	// The id comes last: a call that fails does not take it.
	if err := s.takeSubject(user.ID, subject{user: true}, user.CreatedAt); err != nil {
		return fail(err)
	}
	user.Groups, user.ProviderGroups, user.Profile = slices.Clone(user.Groups), slices.Clone(user.ProviderGroups), user.Profile.Clone()
	user.Declared = false // only the configuration declares
	s.putUser(user, 1)
	return nil
}

// ChangeUser makes the change and ends every family of the user: what was granted before it is worth nothing after it.
func (s *Store) ChangeUser(ctx context.Context, userID string, change store.UserChange, end store.Ending) ([]store.Revocation, error) {
	fail := func(err error) ([]store.Revocation, error) { return nil, fmt.Errorf("changing user: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	old, err := s.account(userID)
	if err != nil {
		return fail(err)
	}
	changed := *old.user
	change.Apply(&changed)
	changed.Groups, changed.ProviderGroups, changed.UpdatedAt = slices.Clone(changed.Groups), slices.Clone(changed.ProviderGroups), end.At
	if change.Organisation != nil {
		if _, stored := s.organisations.Get(changed.Organisation); !stored && !change.OrganisationDeclared && changed.Organisation != "" {
			return fail(fmt.Errorf("organisation %q: %w", changed.Organisation, store.ErrNotFound))
		}
	}
	if changed.Email != old.user.Email {
		if _, taken := s.emails.Get(changed.Email); taken {
			return fail(store.ErrEmailTaken)
		}
		s.emails.Delete(old.user.Email)
	}
	for name, i := range s.identities {
		if i.UserID != userID {
			continue
		}
		if changed.Email != old.user.Email { // nobody has vouched for the new one yet
			i.Vouches = false
		}
		if change.EmailVerifiedBy != nil && *change.EmailVerifiedBy == store.VerifiedByOperator {
			i.Vouches = true
		}
		if change.KeepIdentities {
			i.LinkedAt = end.At
		}
		s.identities[name] = i
	}
	if change.KeepsTokens() {
		s.putUser(changed, old.version)
		return nil, nil
	}
	s.putUser(changed, old.version+1)
	var ended []store.Revocation
	if change.UnlinkIdentities {
		maps.DeleteFunc(s.identities, func(_ identityName, i store.Identity) bool { return i.UserID == userID })
		ended = s.endPersonalTokens(store.PersonalTokenFilter{UserID: userID}, end)
	}
	return slices.Concat(ended, s.ownerChanged(&changed, end), s.endFamiliesOf(userID, end)), nil
}

// RehashPassword replaces the hash old. A user that is gone has it no more than one whose password was changed.
func (s *Store) RehashPassword(ctx context.Context, userID string, old, hash oauth.Secret) error {
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("rehashing password: %w", err)
	}
	defer s.mu.Unlock()
	found, err := s.account(userID)
	if err != nil || found.user.PasswordHash.Reveal() != old.Reveal() {
		return nil
	}
	rehashed := *found.user
	rehashed.PasswordHash = hash
	s.putUser(rehashed, found.version)
	return nil
}

// subject is what is known of an id that a client or a user has, or had.
type subject struct {
	user   bool
	freeAt time.Time // of one who was removed: from when on another may have it
}

// takeSubject gives an id to a client or a user. ErrTaken when somebody has it, RemovedError when somebody had it whose
// tokens may still live at that time.
func (s *Store) takeSubject(id string, of subject, now time.Time) error {
	if found, known := s.subjects.Get(id); known {
		former := found.(subject)
		switch {
		case former.freeAt.IsZero():
			return store.ErrTaken
		case now.Before(former.freeAt):
			return store.RemovedError{FreeAt: former.freeAt}
		}
	}
	// What is there of the id is somebody else's, who was removed or declared.
	if of.user {
		s.forgetUser(id)
	} else {
		s.forgetConsents(id)
	}
	s.subjects.Set(id, of, cache.NoExpiration)
	return nil
}

// forgetUser deletes what is kept of a user beside the user. The caller holds the lock.
func (s *Store) forgetUser(id string) {
	s.consents.Delete(id)
	maps.DeleteFunc(s.identities, func(_ identityName, i store.Identity) bool { return i.UserID == id })
	maps.DeleteFunc(s.personalTokens, func(_ [sha256.Size]byte, t *store.PersonalToken) bool { return t.UserID == id })
}

// HadUser reports whether the id is or was a user's.
func (s *Store) HadUser(ctx context.Context, userID string) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return false, fmt.Errorf("asking for an id: %w", err)
	}
	found, known := s.subjects.Get(userID)
	return known && found.(subject).user, nil
}

// RemoveUser deletes the user with its consents and ends every family. Its id stays taken, for a while or for ever.
func (s *Store) RemoveUser(ctx context.Context, userID string, end store.Ending) ([]store.Revocation, error) {
	fail := func(err error) ([]store.Revocation, error) { return nil, fmt.Errorf("removing user: %w", err) }
	if err := s.lock(ctx); err != nil {
		return fail(err)
	}
	defer s.mu.Unlock()
	removed, err := s.account(userID)
	if err != nil {
		return fail(err)
	}
	s.users.Delete(userID)
	s.emails.Delete(removed.user.Email)
	tokens := s.endPersonalTokens(store.PersonalTokenFilter{UserID: userID}, end)
	s.forgetUser(userID)
	former := subject{user: true, freeAt: end.Until}
	if end.KeepsID {
		former.freeAt = time.Time{} // as if somebody had it
	}
	s.subjects.Set(userID, former, cache.NoExpiration)
	return append(tokens, s.endFamiliesOf(userID, end)...), nil
}

// PasswordSchemes lists the distinct schemes of the stored hashes.
func (s *Store) PasswordSchemes(ctx context.Context) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("listing password schemes: %w", err)
	}
	var schemes []string
	for _, item := range s.users.Items() {
		hash := item.Object.(account).user.PasswordHash
		if scheme := passwords.SchemeOf(hash); !hash.IsEmpty() && !slices.Contains(schemes, scheme) {
			schemes = append(schemes, scheme)
		}
	}
	return schemes, nil
}

// putUser stores a user of its own, under its id and its address. The caller holds the lock.
func (s *Store) putUser(u store.User, version int64) {
	u.Version = strconv.FormatInt(version, 10)
	s.users.Set(u.ID, account{&u, version}, cache.NoExpiration)
	s.emails.Set(u.Email, &u, cache.NoExpiration)
}
