package hosts

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// What is remembered of sessions.
const (
	maxBytes = 96 << 20
	// overhead is what an entry takes in the cache, beside what it holds.
	overhead = 320
	// fresh is how long a session is not asked for again: what ends it comes by the revocations, but not what its user is called.
	fresh = time.Minute
	// retry is how soon it is asked for again when the store did not answer.
	retry = 5 * time.Second
	// stale is how long a session goes on while the store does not answer. Its revocations are kept for longer.
	stale = time.Hour
)

// Sessions are those of browsers at hosts behind the gate.
type Sessions struct {
	issuer     *tokenissuer.Issuer
	enter      Enter
	allowed    oauth.Scopes
	remembered *otter.Cache[key, *entry]
}

// key is the digest of a cookie and the origin at which it came.
type key = [sha256.Size]byte

// entry is a session that was loaded.
type entry struct {
	token      accesstoken.AccessToken
	person     accesstoken.Person
	generation atomic.Uint64
	// loaded is when it was read from the store, and tried when that was last attempted, in Unix nanoseconds.
	loaded int64
	tried  atomic.Int64
}

// Enter registers somebody who asks the store. The context that it returns bounds how long that may take.
type Enter func(context.Context) (ctx context.Context, leave func(), err error)

// New returns the sessions that an issuer keeps.
func New(issuer *tokenissuer.Issuer, enter Enter) *Sessions {
	return &Sessions{issuer: issuer, enter: enter, allowed: issuer.HostScopes(), remembered: otter.Must(&otter.Options[key, *entry]{
		MaximumWeight: maxBytes,
		Weigher:       func(_ key, e *entry) uint32 { return overhead + e.token.Size() },
	})}
}

// errNone is all that is said of a cookie that stands for no session.
var errNone = oauth.NewError(oauth.Unauthorized, "session_missing")

// keyOf does not allocate for a cookie of ours.
func keyOf(cookie string, host tokenissuer.Host) key {
	var room [256]byte
	text := append(append(append(append(room[:0], cookie...), 0), host.Scheme...), 0)
	return sha256.Sum256(append(text, host.Authority...))
}

// Token returns who is calling, by the cookie of a session and the host at which it came. It asks the store for a session that it
// has not seen for a minute, and otherwise whether it was revoked. The error is unauthorized when there is no such session any more,
// and temporarily_unavailable.
func (s *Sessions) Token(ctx context.Context, cookie string, host tokenissuer.Host) (*accesstoken.AccessToken, error) {
	key := keyOf(cookie, host)
	known, found := s.remembered.GetIfPresent(key)
	now := s.issuer.Verifier.Now()
	if found {
		if err := s.check(known); err != nil {
			if oauth.AsError(err).Code == oauth.InvalidToken {
				s.remembered.Invalidate(key)
				return nil, errNone
			}
			return nil, err
		}
		if !known.isDue(now) {
			return &known.token, nil
		}
	}
	ctx, leave, err := s.enter(ctx)
	var loaded *entry
	if err == nil {
		loaded, err = s.load(ctx, cookie, host, now)
		leave()
	}
	switch {
	case err != nil && found && since(now, known.loaded) < stale:
		return &known.token, nil // as with access tokens, until the revocations are too old
	case err != nil:
		return nil, err
	case loaded == nil:
		s.remembered.Invalidate(key)
		return nil, errNone
	}
	if err := s.check(loaded); err != nil {
		if oauth.AsError(err).Code == oauth.InvalidToken {
			return nil, errNone
		}
		return nil, err
	}
	s.remembered.Set(key, loaded)
	return &loaded.token, nil
}

// IsGenuine reports whether a cookie is one that was made for the host, whatever has become of its session.
func (s *Sessions) IsGenuine(cookie string, host tokenissuer.Host) bool {
	if s.issuer.Master == nil {
		return false
	}
	_, genuine := s.issuer.Master.ReadHostSession(cookie, host.Origin())
	return genuine
}

// Remembered returns the number of sessions in memory.
func (s *Sessions) Remembered() int { return s.remembered.EstimatedSize() }

func (s *Sessions) check(e *entry) error {
	return s.issuer.Verifier.CheckUnsigned(&e.token, &e.generation)
}

// isDue reports whether the caller is to load the session again. Of concurrent callers one is.
func (e *entry) isDue(now time.Time) bool {
	tried := e.tried.Load()
	if age := since(now, e.loaded); age >= 0 && age < fresh {
		return false
	}
	if age := since(now, tried); age >= 0 && age < retry && since(now, e.loaded) < stale {
		return false
	}
	return e.tried.CompareAndSwap(tried, now.UnixNano()) || since(now, e.loaded) >= stale
}

// session returns the session of a cookie; nil: there is none.
func (s *Sessions) session(ctx context.Context, cookie string, host tokenissuer.Host) (*tokenissuer.Session, error) {
	if s.issuer.Master == nil {
		return nil, oauth.Unavailable("keys_not_loaded", nil)
	}
	id, genuine := s.issuer.Master.ReadHostSession(cookie, host.Origin())
	if !genuine {
		return nil, nil
	}
	session, err := s.issuer.LivingSession(ctx, id, store.HostSession)
	if session == nil || err != nil || session.Family.Code.RedirectURI != host.Callback() {
		return nil, err
	}
	return session, nil
}

// load reads a session from the store; nil: there is none.
func (s *Sessions) load(ctx context.Context, cookie string, host tokenissuer.Host, now time.Time) (*entry, error) {
	session, err := s.session(ctx, cookie, host)
	if session == nil || err != nil {
		return nil, err
	}
	f, user := session.Family, session.User
	e := &entry{loaded: now.UnixNano()}
	e.tried.Store(e.loaded)
	e.token = accesstoken.AccessToken{
		Issuer: s.issuer.URL, Subject: user.ID, Audience: s.issuer.Audience, ClientID: store.BuiltInClientID, Scopes: s.scopes(f), ID: f.ID,
		IssuedAt: f.CreatedAt.Truncate(time.Second), ExpiresAt: f.ExpiresAt, FamilyID: f.ID, Organisation: user.Organisation,
		AuthTime: f.AuthTime.Truncate(time.Second),
	}
	if s.issuer.Roles.Has(user.Role) {
		e.token.Role = string(user.Role)
	}
	e.person = accesstoken.Person{Name: user.Name, Email: user.Email, EmailVerified: user.EmailVerified, Groups: user.Groups}
	// An address that nobody has verified is the operator's word, unless a provider has brought it.
	e.person.EmailKnown = user.EmailVerified || !user.External || user.Declared
	if f.Provider == "" { // how others prove who somebody is they do not say
		e.person.ACR, e.person.AMR = tokenissuer.PasswordProof()
	}
	e.token.WithPerson(&e.person)
	return e, nil
}

// scopes are the session's, without those that the operator has taken away since.
func (s *Sessions) scopes(f *store.TokenFamily) oauth.Scopes {
	if slices.Equal(s.allowed, f.Scopes) {
		return s.allowed
	}
	return slices.DeleteFunc(slices.Clone(f.Scopes), func(name string) bool { return !s.allowed.Has(name) })
}
