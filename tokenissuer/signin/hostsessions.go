package signin

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// maxBytes bounds the memory for cached sessions.
const maxBytes = 96 << 20

// HostSessions are the sessions of browsers at hosts behind the gate.
type HostSessions struct {
	sessions   *Sessions
	signIns    *SignIns
	roles      store.RoleCatalogue
	allowed    oauth.Scopes
	remembered *token.OpaqueCache
}

// NewHostSessions returns the host sessions of an issuer. roles are those that users can have, and verifier reads the issuer's tokens.
func NewHostSessions(sessions *Sessions, signIns *SignIns, roles store.RoleCatalogue, verifier *token.Verifier, enter token.EnterStore) *HostSessions {
	return &HostSessions{
		sessions: sessions, signIns: signIns, roles: roles, allowed: sessions.Clients.BuiltIn().Scopes,
		remembered: token.NewOpaqueCache(verifier, enter, maxBytes),
	}
}

func (s *HostSessions) families() *families.Families { return s.sessions.Families }

// errNone is the error for a cookie without a living session.
var errNone = oauth.NewError(oauth.Unauthorized, "session_missing")

// keyOf returns the cache key of a cookie. It does not allocate for a cookie of ours.
func keyOf(cookie string, host oauth.Host) token.OpaqueKey {
	var room [256]byte
	text := append(append(append(append(room[:0], cookie...), 0), host.Scheme...), 0)
	return sha256.Sum256(append(text, host.Authority...))
}

// Token returns the caller for a session cookie and the host that received it. A session read within the last minute is only checked
// against revocations; others are read from the store. The error is unauthorized if there is no such session, or temporarily_unavailable.
func (s *HostSessions) Token(ctx context.Context, cookie string, host oauth.Host) (*token.AccessToken, error) {
	key := keyOf(cookie, host)
	if t, known, err := s.remembered.Recall(key); known {
		return t, err
	}
	t, err := s.remembered.Read(ctx, key, nil, func(ctx context.Context) (*token.AccessToken, error) {
		return s.load(ctx, cookie, host)
	})
	if t == nil && err == nil {
		err = errNone
	}
	return t, err
}

// Remembered returns the number of cached sessions.
func (s *HostSessions) Remembered() int { return s.remembered.Len() }

// session returns the session of a cookie, or nil if there is none.
func (s *HostSessions) session(ctx context.Context, cookie string, host oauth.Host) (*Session, error) {
	if s.families().Master == nil {
		return nil, oauth.Unavailable("keys_not_loaded", nil)
	}
	id, genuine := s.families().Master.ReadHostSession(cookie, host.Origin())
	if !genuine {
		return nil, nil
	}
	session, err := s.sessions.LivingSession(ctx, id, store.HostSession)
	if session == nil || err != nil || session.Family.Code.RedirectURI != host.Callback() {
		return nil, err
	}
	return session, nil
}

// load reads a session from the store. It returns nil if there is none.
func (s *HostSessions) load(ctx context.Context, cookie string, host oauth.Host) (*token.AccessToken, error) {
	session, err := s.session(ctx, cookie, host)
	if session == nil || err != nil {
		return nil, err
	}
	f, user := session.Family, session.User
	t := &token.AccessToken{
		Issuer: s.sessions.Clients.URL, Subject: user.ID, Audience: s.sessions.Clients.Audience, ClientID: store.BuiltInClientID, Scopes: s.scopes(f), ID: f.ID,
		IssuedAt: f.CreatedAt.Truncate(time.Second), ExpiresAt: f.ExpiresAt,
		SignIn: token.SignIn{FamilyID: f.ID, Organisation: user.Organisation, AuthTime: f.SignIn.Time.Truncate(time.Second)},
	}
	if s.roles.Has(user.Role) {
		t.Role = string(user.Role)
	}
	person := &token.Person{Name: user.Name, Email: user.Email, EmailVerified: user.EmailVerified(), Groups: user.AllGroups(), Profile: user.Profile, UpdatedAt: user.LastChange()}
	// An operator has set the address, unless it came from a provider or with an import.
	person.EmailKnown = user.EmailVerified() || user.Declared || !user.External && user.EmailVerifiedBy != store.Unvouched
	person.ACR, person.AMR = f.SignIn.Proof.ACR, f.SignIn.Proof.AMR
	t.WithPerson(person)
	return t, nil
}

// scopes returns the session's scopes, without those that the operator has removed since.
func (s *HostSessions) scopes(f *store.TokenFamily) oauth.Scopes {
	if slices.Equal(s.allowed, f.Scopes) {
		return s.allowed
	}
	return slices.DeleteFunc(slices.Clone(f.Scopes), func(name string) bool { return !s.allowed.Has(name) })
}
