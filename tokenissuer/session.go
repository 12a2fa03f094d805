package tokenissuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// SessionLimits are how long a browser stays signed in. A zero member means the default.
type SessionLimits struct {
	// Idle is how long a session may rest. Default: 7 days, or Max if that is shorter.
	Idle time.Duration
	// Max is how long it lives at most, however often it is used. Default: 30 days.
	Max time.Duration
}

const (
	defaultSessionIdle = 7 * store.Day
	defaultSessionMax  = 30 * store.Day

	// minSessionLimit and maxSessionLimit bound what can be set.
	minSessionLimit = 10 * time.Minute
	maxSessionLimit = store.MaxFamilyLifetime
)

func (l SessionLimits) max() time.Duration { return cmp.Or(l.Max, defaultSessionMax) }

func (l SessionLimits) idle() time.Duration {
	return cmp.Or(l.Idle, min(defaultSessionIdle, l.max()))
}

// CheckSessionLimit refuses a lifetime that is out of bounds. The name is that of the member in the configuration.
func CheckSessionLimit(name string, d time.Duration) error {
	if d < minSessionLimit || d > maxSessionLimit {
		return fmt.Errorf("sessions %s %s: use %s to %s", name, d, store.FormatBound(minSessionLimit), store.FormatBound(maxSessionLimit))
	}
	return nil
}

// Validate refuses limits that are out of bounds or contradict each other.
func (l SessionLimits) Validate() error {
	for name, d := range map[string]time.Duration{"idle": l.Idle, "max": l.Max} {
		if d == 0 {
			continue
		}
		if err := CheckSessionLimit(name, d); err != nil {
			return err
		}
	}
	if l.idle() > l.max() {
		return fmt.Errorf("sessions idle %s: no session lives longer than max, which is %s", l.Idle, l.max())
	}
	return nil
}

// HasRested reports whether a session was not used for so long that it has ended.
func (l SessionLimits) HasRested(f *store.TokenFamily, now time.Time) bool {
	return !now.Before(f.RotatedAt.Add(l.idle()))
}

// end is when a session ends however often it is used. It was stored when the session began; a shorter Max holds for sessions of before.
func (l SessionLimits) end(f *store.TokenFamily) time.Time {
	if end := f.CreatedAt.Add(l.max()); end.Before(f.ExpiresAt) {
		return end
	}
	return f.ExpiresAt
}

// IsOver reports whether a session has reached the end of its life.
func (l SessionLimits) IsOver(f *store.TokenFamily, now time.Time) bool { return !now.Before(l.end(f)) }

// touch is how exactly it is known when a session was last used: a session in use must not seem to rest.
func (l SessionLimits) touch() time.Duration { return min(store.SessionTouch, l.idle()/10) }

// Session is a browser in which a user is signed in.
type Session struct {
	Family *store.TokenFamily
	User   *store.User
}

// OpenSession begins a session of somebody who has just signed in, and returns its cookie. Note is the browser in
// words. Form names the form that was sent: it opens one session only. Every session has a new id, whatever cookie the
// browser came with.
func (is *Issuer) OpenSession(ctx context.Context, who SignedIn, note, form string) (*Session, oauth.Secret, error) {
	now, user := is.Now(), who.User
	authTime := who.AuthTime
	if authTime.After(now) {
		authTime = now
	}
	f := is.newSignIn(user, is.builtInClient(), store.BrowserSession, authTime)
	f.Note, f.Provider, f.Proof, f.Preconditions.Subject, f.ExpiresAt = note, who.Provider, who.Proof, who.Subject, now.Add(is.Sessions.max())
	f.Scopes = is.builtInClient().Scopes
	f.Code.RequestID = form
	if err := is.addFamily(ctx, f, user); err != nil {
		return nil, oauth.Secret{}, err
	}
	return &Session{Family: f, User: user}, is.Master.Session(f.ID), nil
}

// newFamily returns a family that is born now, of somebody who signed in at authTime; zero: nobody knows when.
func (is *Issuer) newFamily(user *store.User, client *store.Client, origin oauth.GrantType, authTime time.Time) *store.TokenFamily {
	now := is.Now()
	return &store.TokenFamily{
		ID: oauth.NewID(), UserID: user.ID, UserVersion: user.Version, UserDeclared: user.Declared, ClientID: client.ID,
		Origin: origin, AuthTime: authTime, CreatedAt: now, RotatedAt: now, TokenLifetime: is.lifetimes(client).For(origin),
	}
}

// newSignIn is newFamily for somebody who has just signed in, which no revocation of before ends: tokens tell whole seconds, and a
// revocation ends all up to and in its own. In that second the sign-in is dated to the next one, and what comes of a family is never
// dated before it.
func (is *Issuer) newSignIn(user *store.User, client *store.Client, origin oauth.GrantType, authTime time.Time) *store.TokenFamily {
	f := is.newFamily(user, client, origin, authTime)
	f.CreatedAt = is.Revocations.Passed(f.CreatedAt, user.ID, user.Organisation)
	return f
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// addFamily stores a family of a user, unless the user, or the admin who creates it, has had too many: then it is rate_limited.
func (is *Issuer) addFamily(ctx context.Context, f *store.TokenFamily, user *store.User) error {
	if err := is.ReserveGrant(ctx, f.Origin, cmp.Or(f.Actor.Subject, f.UserID), is.Now()); err != nil {
		return err
	}
	return is.storeFamily(ctx, f, user)
}

// errSessionEnded is why storeFamily stores nothing that depends on a session which has ended.
var errSessionEnded = oauth.NewError(oauth.InvalidGrant, "user_changed")

// storeFamily stores a family of a user. That the user, or what else it depends on, has changed meanwhile is an invalid_grant, and
// that the request was decided before an invalid_request.
func (k *Records) storeFamily(ctx context.Context, f *store.TokenFamily, user *store.User) error {
	switch outcome, err := k.Store.AddFamily(ctx, f); {
	case err != nil:
		return err
	case outcome == store.Revoked:
		return errSessionEnded
	case outcome == store.Replayed:
		return oauth.ErrDecided
	case outcome != store.Done:
		return oauth.NewError(oauth.InvalidGrant, "user_changed")
	}
	k.Families.Put(f, user)
	return nil
}

// Session returns the session of a cookie; nil when there is none any more, whatever the reason. The error is
// temporarily_unavailable.
func (is *Issuer) Session(ctx context.Context, cookie oauth.Secret) (*Session, error) {
	id, genuine := is.Master.ReadSession(cookie)
	if !genuine {
		return nil, nil
	}
	return is.LivingSession(ctx, id, store.BrowserSession)
}

// LivingSession returns the session of that id and kind, a BrowserSession or a HostSession, and notes that it was used; nil when
// there is none any more. The error is temporarily_unavailable.
func (is *Issuer) LivingSession(ctx context.Context, id string, kind oauth.GrantType) (*Session, error) {
	f, err := is.family(ctx, id)
	if f == nil || err != nil {
		return nil, err
	}
	now := is.Now()
	if f.Origin != kind || is.Sessions.IsOver(f, now) || is.Sessions.HasRested(f, now) {
		return nil, nil
	}
	if kind == store.HostSession && f.SessionID != "" { // it ends with its sign-in, which is older
		signIn, err := is.family(ctx, f.SessionID)
		if signIn == nil || err != nil || is.Sessions.IsOver(signIn, now) {
			return nil, err
		}
	}
	user, err := is.livingUser(ctx, f)
	if user == nil || err != nil {
		return nil, err
	}
	if now.Sub(f.RotatedAt) > is.Sessions.touch() {
		outcome, err := is.Store.TouchFamily(ctx, f.ID, now)
		if err != nil {
			return nil, err
		}
		if outcome != store.Done {
			return nil, nil // it was ended since it was read
		}
	}
	return &Session{Family: f, User: user}, nil
}

// SessionID returns the id of the session that a cookie is of, whether it lives or not; "" when the cookie is not ours.
func (c *Credentials) SessionID(cookie oauth.Secret) string {
	id, genuine := c.Master.ReadSession(cookie)
	if !genuine {
		return ""
	}
	return id
}

// SessionToken returns a user token of the session, for the gate of this issuer and for testing. It does not outlive the session.
func (is *Issuer) SessionToken(s *Session) (Tokens, error) {
	own := is.builtInClient()
	scopes, err := narrowed(s.Family.Scopes, own, "") // the operator may have taken some away
	if err != nil {
		return Tokens{}, err
	}
	return is.Issue(Grant{
		Type: store.BrowserSession, Client: own, User: s.User, Scopes: scopes, FamilyID: s.Family.ID,
		AuthTime: s.Family.AuthTime, Lifetime: min(is.tokenLifetime(s.Family, own), is.Sessions.end(s.Family).Sub(is.Now())), born: s.Family.CreatedAt,
	})
}

// SignOut ends the session and, with it, every application's access to the user: all families but other browsers'
// sessions, tokens that an admin has created, and grants by which the user lets an application stay signed in. The session
// ends after them: while it lives, a sign-out that failed can be repeated. What was approved in the session meanwhile ends
// last, for from then on nothing can be.
func (k *Records) SignOut(ctx context.Context, s *Session) error {
	granted := store.FamilyFilter{
		UserID: s.User.ID, Origins: []oauth.GrantType{oauth.AuthorizationCode},
		ExceptScopes: oauth.Scopes{oauth.ScopeRefreshToken, oauth.ScopeOfflineAccess},
	}
	passwords := store.FamilyFilter{UserID: s.User.ID, Origins: []oauth.GrantType{oauth.PasswordGrant}} // which ask the user nothing
	for _, which := range []store.FamilyFilter{granted, passwords, {ID: s.Family.ID}, granted} {
		if err := k.EndFamilies(ctx, which); err != nil {
			return err
		}
	}
	return nil
}

// EndSession ends a session alone, as a new sign-in in the same browser does with the one before.
func (k *Records) EndSession(ctx context.Context, s *Session) error {
	return k.EndFamilies(ctx, store.FamilyFilter{ID: s.Family.ID})
}

// EndFamilies ends families durably, and then here at once.
func (k *Records) EndFamilies(ctx context.Context, which store.FamilyFilter) error {
	ended, err := k.Store.EndFamilies(ctx, which, k.Ending())
	if err != nil {
		return err
	}
	k.Revocations.Add(ended...)
	return nil
}

// Ending is now, with revocations kept as long as any access token can live.
func (k *Records) Ending() store.Ending {
	now := k.Now()
	return store.Ending{At: now, Until: now.Add(store.MaxLifetime + store.RevocationMargin)}
}

// family returns a family that has not been ended; nil when there is none.
func (k *Records) family(ctx context.Context, id string) (*store.TokenFamily, error) {
	f, err := k.Store.Family(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !f.RevokedAt.IsZero():
		return nil, nil
	}
	return f, nil
}

// livingUser returns the family's user if tokens may still act for them: active, in the same state as when the family
// was born, and with nothing revoked meanwhile. Otherwise it is nil.
func (k *Records) livingUser(ctx context.Context, f *store.TokenFamily) (*store.User, error) {
	user, err := k.Directory.User(ctx, f.UserID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !user.IsActive(), user.Version != f.UserVersion, user.Declared != f.UserDeclared:
		return nil, nil
	case k.Revocations.RevokedFamily(f, user.Organisation):
		return nil, nil
	}
	return user, nil
}

// remembered returns the family of a genuine credential and its user as they were seen last; nil when nothing is known, or when
// something is that speaks against them.
func (k *Records) remembered(id string, genuine bool) (*store.TokenFamily, *store.User) {
	if !genuine {
		return nil, nil
	}
	f, user, ok := k.Families.Get(id)
	if !ok || k.Revocations.RevokedFamily(f, user.Organisation) {
		return nil, nil
	}
	return f, user
}

// storedFamily returns the family of a genuine credential, whatever its state; nil when there is none. The MAC has decided about any
// other: nothing is looked up for it.
func (k *Records) storedFamily(ctx context.Context, id string, genuine bool) (*store.TokenFamily, error) {
	if !genuine {
		return nil, nil
	}
	f, err := k.Store.Family(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return f, nil
}

// standingUser returns the user who was remembered with a family, or else asks for the one who may still stand for it. What a
// family's ID tokens tell of a user is asked each time, because it changes without ending anything.
func (k *Records) standingUser(ctx context.Context, f *store.TokenFamily, remembered *store.User) (*store.User, error) {
	if remembered != nil && f.Claims == "" {
		return remembered, nil
	}
	user, err := k.livingUser(ctx, f)
	if err == nil && user == nil {
		err = oauth.NewError(oauth.InvalidGrant, "user_changed")
	}
	return user, err
}
