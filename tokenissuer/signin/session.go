package signin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Limits bound how long a browser stays signed in. A zero field means the default.
type Limits struct {
	// Idle is how long a session may be unused. Default: 7 days, or Max if that is shorter.
	Idle time.Duration
	// Max is how long a session lives, regardless of its use. Default: 30 days.
	Max time.Duration
}

const (
	defaultSessionIdle = 7 * store.Day
	defaultSessionMax  = 30 * store.Day

	// minSessionLimit is the minimum of a limit.
	minSessionLimit = 10 * time.Minute
	// MaxLimit is the maximum of a limit.
	MaxLimit = store.MaxFamilyLifetime
)

// MaxAge is how long a session lives at most.
func (l Limits) MaxAge() time.Duration { return cmp.Or(l.Max, defaultSessionMax) }

func (l Limits) idle() time.Duration {
	return cmp.Or(l.Idle, min(defaultSessionIdle, l.MaxAge()))
}

// CheckLimit returns an error for a limit that is out of bounds. name is the name of the setting.
func CheckLimit(name string, d time.Duration) error {
	if d < minSessionLimit || d > MaxLimit {
		return fmt.Errorf("sessions %s %s: use %s to %s", name, d, store.FormatBound(minSessionLimit), store.FormatBound(MaxLimit))
	}
	return nil
}

// Validate returns an error for limits that are out of bounds or contradict each other.
func (l Limits) Validate() error {
	for name, d := range map[string]time.Duration{"idle": l.Idle, "max": l.Max} {
		if d == 0 {
			continue
		}
		if err := CheckLimit(name, d); err != nil {
			return err
		}
	}
	if l.idle() > l.MaxAge() {
		return fmt.Errorf("sessions idle %s: no session lives longer than max, which is %s", l.Idle, l.MaxAge())
	}
	return nil
}

// IsIdle reports whether a session has ended because it was unused.
func (l Limits) IsIdle(f *store.TokenFamily, now time.Time) bool {
	return !now.Before(f.Refresh.RotatedAt.Add(l.idle()))
}

// End returns when a session ends, regardless of its use. The time is stored with the session. If Max has become shorter since, the shorter
// one applies.
func (l Limits) End(f *store.TokenFamily) time.Time {
	if end := f.CreatedAt.Add(l.MaxAge()); end.Before(f.ExpiresAt) {
		return end
	}
	return f.ExpiresAt
}

// IsOver reports whether a session has reached its End.
func (l Limits) IsOver(f *store.TokenFamily, now time.Time) bool { return !now.Before(l.End(f)) }

// touch returns the precision with which the last use of a session is recorded. It is far below Idle, so that a session in use does not
// seem idle.
func (l Limits) touch() time.Duration { return min(store.SessionTouch, l.idle()/10) }

// Sessions are the sessions of browsers, at the issuer and at hosts behind the gate.
type Sessions struct {
	Families *families.Families
	Clients  *clients.Clients
	Limits   Limits
}

// Session is a browser in which a user is signed in.
type Session struct {
	Family *store.TokenFamily
	User   *store.User
}

// OpenSession opens a session for a user who has just signed in, and returns it with its cookie. note describes the browser. form
// identifies the submitted form, which can open only one session. A new session always has a new id, regardless of the browser's cookies.
func (ss *Sessions) OpenSession(ctx context.Context, who SignedIn, note, form string) (*Session, oauth.Secret, error) {
	f := ss.begin(who, store.BrowserSession)
	f.Note, f.Code.RequestID = note, form
	if err := ss.Families.Add(ctx, f, who.User); err != nil {
		return nil, oauth.Secret{}, err
	}
	return &Session{Family: f, User: who.User}, ss.Families.Master.Session(f.ID), nil
}

// begin returns the family of a new session.
func (ss *Sessions) begin(who SignedIn, kind oauth.GrantType) *store.TokenFamily {
	now, client := ss.Families.Now(), ss.Clients.BuiltIn()
	authTime := who.AuthTime
	if authTime.After(now) {
		authTime = now
	}
	f := ss.Families.NewSignIn(who.User, client, kind, authTime)
	f.SignIn.Provider, f.SignIn.Proof, f.Preconditions.Subject = who.Provider, who.Proof, who.Subject
	f.Preconditions.SessionID = who.Session
	f.Scopes, f.ExpiresAt = client.Scopes, now.Add(ss.Limits.MaxAge())
	return f
}

// Session returns the living session of a cookie, or nil if there is none. The error is temporarily_unavailable.
func (ss *Sessions) Session(ctx context.Context, cookie oauth.Secret) (*Session, error) {
	id, genuine := ss.Families.Master.ReadSession(cookie)
	if !genuine {
		return nil, nil
	}
	return ss.LivingSession(ctx, id, store.BrowserSession)
}

// LivingSession returns the living session of that id and kind (BrowserSession or HostSession), and records its use. It returns nil if
// there is none. The error is temporarily_unavailable.
func (ss *Sessions) LivingSession(ctx context.Context, id string, kind oauth.GrantType) (*Session, error) {
	f, err := ss.Families.Living(ctx, id)
	if f == nil || err != nil {
		return nil, err
	}
	now := ss.Families.Now()
	if f.Origin != kind || ss.Limits.IsOver(f, now) || ss.Limits.IsIdle(f, now) {
		return nil, nil
	}
	if kind == store.HostSession && f.SignIn.SessionID != "" { // it ends with the session at the issuer, which is older
		signIn, err := ss.Families.Living(ctx, f.SignIn.SessionID)
		if signIn == nil || err != nil || ss.Limits.IsOver(signIn, now) {
			return nil, err
		}
	}
	user, err := ss.Families.LivingUser(ctx, f)
	if user == nil || err != nil {
		return nil, err
	}
	if now.Sub(f.Refresh.RotatedAt) > ss.Limits.touch() {
		outcome, err := ss.Families.Store.TouchFamily(ctx, f.ID, now)
		if err != nil {
			return nil, err
		}
		if outcome != store.Done {
			return nil, nil // ended after it was read
		}
	}
	return &Session{Family: f, User: user}, nil
}

// SessionID returns the id of a cookie's session, living or not. It returns "" if the cookie is not genuine.
func (ss *Sessions) SessionID(cookie oauth.Secret) string {
	id, genuine := ss.Families.Master.ReadSession(cookie)
	if !genuine {
		return ""
	}
	return id
}

// SignOut ends the session and every application's access to the user. Other browsers' sessions, tokens that an admin created, and grants
// that let an application stay signed in remain. The session ends after the other families, so that a failed sign-out can be repeated.
// Grants approved in the session meanwhile end last, when no further ones can be approved.
func (ss *Sessions) SignOut(ctx context.Context, s *Session) error {
	granted := store.FamilyFilter{
		UserID: s.User.ID, Origins: []oauth.GrantType{oauth.AuthorizationCode},
		ExceptScopes: oauth.Scopes{oauth.ScopeRefreshToken, oauth.ScopeOfflineAccess},
	}
	passwords := store.FamilyFilter{UserID: s.User.ID, Origins: []oauth.GrantType{oauth.PasswordGrant}} // no user was asked about them
	for _, which := range []store.FamilyFilter{granted, passwords, {ID: s.Family.ID}, granted} {
		if err := ss.Families.EndFamilies(ctx, which); err != nil {
			return err
		}
	}
	return nil
}

// EndSession ends a session alone, as a new sign-in in the same browser does with the previous one.
func (ss *Sessions) EndSession(ctx context.Context, s *Session) error {
	return ss.Families.EndFamilies(ctx, store.FamilyFilter{ID: s.Family.ID})
}
