package store

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TokenFamily is everything that descends from one act of authorization: the code, each access token, each refresh
// token. It is born with the code, so that one step ends all of it. A browser's session is a family too; its cookie
// stands where others have a refresh token.
//
// A family is one record. None of its credentials is in it: code, refresh tokens and cookie are made of the family's
// id and a MAC under the issuer's master key (see credential.go), so that any one that was ever issued is recognised
// for as long as the record lives, and using one up changes the record in one conditional step.
type TokenFamily struct {
	ID string
	// UserID and UserVersion are for whom it was made, and in which state the user was then.
	UserID      string
	UserVersion string
	// UserDeclared: the user stands in the configuration, and no stored user is held against UserVersion.
	UserDeclared bool
	ClientID     string
	// Origin is the grant that made it; the lifetime of its access tokens follows from it.
	Origin oauth.GrantType
	Scopes oauth.Scopes
	// SessionID is the session of the browser in which it was approved, which is the sid of its ID tokens; empty: there was none.
	// A HostSession ends with it.
	SessionID string
	// Provider is the identity provider at which the user has signed in; empty: with a password of ours.
	Provider string
	// Claims is the request for single claims, as package token writes it; empty: there was none.
	Claims string
	// Audience are the resources for which it was asked (RFC 8707); empty: the issuer's own audience.
	Audience []string
	// Actor is the admin who created it, when it was one.
	Actor Actor
	// Note is what a person may recognise it by on the account page: the browser of a session.
	Note string
	// Proof is how the user proved who they are.
	Proof Proof
	// AuthTime is when the user proved who they are; zero: unknown, or it was not the user.
	AuthTime  time.Time
	CreatedAt time.Time
	// ExpiresAt is when nothing more can come of it. Access tokens issued before may live longer, so the record is kept for
	// MaxLifetime beyond it. Until its code is redeemed it has no access tokens, and ExpiresAt lies MaxLifetime before
	// Code.ExpiresAt.
	ExpiresAt time.Time
	// RevokedAt is when it was ended; zero: it was not.
	RevokedAt time.Time

	// Preconditions must hold at the moment in which the family is stored. Stores ask about them and do not keep them.
	Preconditions Preconditions

	// TellsLogout says that the client is to be told when the session SessionID ends, which Preconditions name too. Stores keep a
	// record of that beside the session, and not here; see LogoutStore.
	TellsLogout bool

	// Code is what its authorization code is bound to; the zero value: it never had one.
	Code CodeBinding

	// Generation counts refresh tokens: the newest one's number, 0 when there is none.
	Generation int64
	// RotatedAt is when the newest refresh token came to be, or when a session was last seen.
	RotatedAt time.Time
	// RotatedBy is a keyed digest of who asked for it: of the address and of the family of user agents. Empty: unknown, or
	// it came to be in another way than by a refresh.
	RotatedBy string

	// TokenLifetime is the longest that its access tokens live, whatever the configuration says later.
	TokenLifetime time.Duration
}

// Proof says how a user has signed in (OpenID Connect Core §2). The zero value says nothing.
type Proof struct {
	// ACR is an authentication context class of ours; empty: none is known.
	ACR string `json:"acr,omitzero"`
	// AMR are the methods (RFC 8176), by our own knowledge or the provider's word; empty: they are not known.
	AMR []string `json:"amr,omitempty"`
}

// tokenSlack is how long after RotatedAt an access token may still be issued: a session is touched once an hour, and a
// refresh may be repeated within the grace.
const tokenSlack = SessionTouch + time.Hour

// RevokedUntil is how long a revocation of the family is kept: until the last access token that may have come of it has
// expired. Stores ask.
func (f *TokenFamily) RevokedUntil(end Ending) time.Time {
	last := f.RotatedAt
	if f.CreatedAt.After(last) {
		last = f.CreatedAt
	}
	until := last.Add(f.TokenLifetime + tokenSlack)
	if until.After(end.Until) {
		return end.Until
	}
	return until
}

// CodeBinding is what an authorization code is bound to (RFC 6749 §4.1.3, RFC 7636 §4.4).
type CodeBinding struct {
	// RequestID names the authorization request that was approved, or the form that opened a session. One request is
	// decided once.
	RequestID   string
	RedirectURI string
	// Challenge is the S256 code_challenge; empty: none was sent.
	Challenge string
	// Nonce is that of the authorization request, exactly as it was sent (OpenID Connect Core 1.0 §3.1.2.1); empty: none was.
	Nonce string
	// Refreshable: the exchange gives a refresh token.
	Refreshable bool
	ExpiresAt   time.Time
	// SpentAt is when the code was redeemed; zero: it was not.
	SpentAt time.Time
	// Failures counts wrong code verifiers.
	Failures int
}

// Preconditions names those in whose name a family is born, beside its user. They were looked at before, and may have been
// ended since.
type Preconditions struct {
	// SessionID is the session in which it was approved; empty: there was none.
	SessionID string
	// ActorVersion is the version of Actor.Subject, when that is a stored user.
	ActorVersion string
	// Subject names the identity of the family's Provider with which its user has just signed in; empty: there was none.
	Subject string
}

// Actor is who acts for a user whom they are not (RFC 8693 §4.1). The zero value is no actor.
type Actor struct {
	Subject  string
	ClientID string
}

// IsZero reports whether there is no actor.
func (a Actor) IsZero() bool { return a == Actor{} }

// The origins of families beside the grant types of the token endpoint.
const (
	// AdminCreated is an organisation's admin obtaining a token for a member.
	AdminCreated oauth.GrantType = "admin_created"
	// BrowserSession is a sign-in with a browser.
	BrowserSession oauth.GrantType = "session"
	// HostSession is the session of a browser at one host behind the gate. Its SessionID is the sign-in that it came of, and its
	// Code.RedirectURI says at which host.
	HostSession oauth.GrantType = "host_session"
)

// SessionTouch is how exactly it is known when a session was last seen.
const SessionTouch = time.Hour
