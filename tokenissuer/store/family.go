package store

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TokenFamily is the record of one authorization: its code and all access tokens and refresh tokens that descend from it. It is created
// with the code, and revoking it ends all of them in one step. The session of a browser is a family too, with a cookie in place of a
// refresh token.
//
// The record contains no credentials. Code, refresh tokens and cookie consist of the family's id and a MAC under the issuer's master key
// (see credential.go). Every one that was ever issued is therefore recognised as long as the record exists, and using one is a single
// conditional update of the record.
type TokenFamily struct {
	ID   string
	User FamilyUser
	Grant
	SignIn SignIn
	// Actor is the admin who created the family, if one did.
	Actor Actor
	// Note helps a person recognise the family on the account page, such as the browser of a session.
	Note string
	Validity
	// Code is the binding of the authorization code; the zero value: the family never had a code.
	Code    CodeBinding
	Refresh RefreshState

	// Preconditions must hold at the moment the family is stored. Stores check them and do not keep them.
	Preconditions Preconditions
	// TellsLogout requests a notice to the client when the session SignIn.SessionID ends, which Preconditions must name too. Stores record
	// this with the session instead of the family; see LogoutStore.
	TellsLogout bool
}

// FamilyUser is the user of a family.
type FamilyUser struct {
	ID string
	// Version is the user's version when the family was created.
	Version string
	// Declared reports that the user is declared in the configuration. Version is then not compared with a stored user.
	Declared bool
}

// Grant is what a family was granted.
type Grant struct {
	ClientID string
	// Origin is the grant that created the family. It determines the lifetime of access tokens.
	Origin oauth.GrantType
	Scopes oauth.Scopes
	// Audience lists the requested resources (RFC 8707); empty: the issuer's own audience.
	Audience []string
	// Claims is the claims request parameter (OpenID Connect Core 1.0 §5.5), as package token encodes it; empty: there was none.
	Claims string
}

// SignIn is the authentication from which a family results.
type SignIn struct {
	// SessionID is the browser session in which the family was approved, and the sid of its ID tokens; empty: there was none. A
	// HostSession ends with that session.
	SessionID string
	// Provider is the identity provider at which the user signed in; empty: the user signed in with a password stored here.
	Provider string
	// Proof is how the user authenticated.
	Proof Proof
	// Time is when the user authenticated; zero: unknown, or the user did not.
	Time time.Time
}

// Validity is the time in which a family and its access tokens are valid.
type Validity struct {
	CreatedAt time.Time
	// ExpiresAt is when the family can no longer be used to obtain tokens. Access tokens issued before may live longer, and the record is
	// therefore kept for MaxLifetime after it. Until its code is redeemed a family has no access tokens, and ExpiresAt is MaxLifetime
	// before Code.ExpiresAt.
	ExpiresAt time.Time
	// RevokedAt is when the family was revoked; zero: it was not.
	RevokedAt time.Time
	// TokenLifetime is the longest lifetime of the family's access tokens, whatever the configuration says later.
	TokenLifetime time.Duration
}

// RefreshState is the state of a family's refresh tokens.
type RefreshState struct {
	// Generation is the number of the newest refresh token; 0: there is none.
	Generation int64
	// RotatedAt is when the newest refresh token was issued, or when a session was last used.
	RotatedAt time.Time
	// RotatedBy is a keyed digest of the address and the user agent family that requested the newest refresh token. Empty: unknown, or
	// the token was not issued by a refresh.
	RotatedBy string
}

// Proof is how a user authenticated (OpenID Connect Core 1.0 §2). The zero value says nothing.
type Proof struct {
	// ACR is the authentication context class reference, one that Gatehouse defines; empty: unknown.
	ACR string `json:"acr,omitzero"`
	// AMR lists the authentication methods (RFC 8176), known first-hand or reported by the provider; empty: unknown.
	AMR []string `json:"amr,omitempty"`
}

// tokenSlack is how long after RotatedAt an access token may still be issued: a session is touched once an hour, and a refresh may be
// repeated within the grace period.
const tokenSlack = SessionTouch + time.Hour

// RevokedUntil returns until when a revocation of the family must be kept: until the last of its access tokens has expired.
func (f *TokenFamily) RevokedUntil(end Ending) time.Time {
	last := f.Refresh.RotatedAt
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
	// RequestID identifies the authorization request that was approved, or the form that opened a session. A request can be decided once.
	RequestID   string
	RedirectURI string
	// Challenge is the S256 code_challenge; empty: none was sent.
	Challenge string
	// Nonce is the nonce of the authorization request, byte for byte (OpenID Connect Core 1.0 §3.1.2.1); empty: none was sent.
	Nonce string
	// Refreshable reports whether redeeming the code issues a refresh token.
	Refreshable bool
	ExpiresAt   time.Time
	// SpentAt is when the code was redeemed; zero: it was not.
	SpentAt time.Time
	// Failures counts wrong code verifiers.
	Failures int
}

// Preconditions names what a new family depends on besides its user. Callers have checked these before, and they may have ended since.
type Preconditions struct {
	// SessionID is the session in which the family was approved; empty: there was none.
	SessionID string
	// ActorVersion is the version of Actor.Subject, if that is a stored user.
	ActorVersion string
	// Subject is the identity at the family's Provider with which the user has just signed in; empty: there was none.
	Subject string
}

// Actor is the party that acts for a user (RFC 8693 §4.1). The zero value means none.
type Actor struct {
	Subject  string
	ClientID string
}

// IsZero reports whether a is the zero Actor.
func (a Actor) IsZero() bool { return a == Actor{} }

// Origins of families other than the grant types of the token endpoint.
const (
	// AdminCreated is a token that an organisation's admin created for a member.
	AdminCreated oauth.GrantType = "admin_created"
	// BrowserSession is a sign-in with a browser.
	BrowserSession oauth.GrantType = "session"
	// HostSession is the session of a browser at one host behind the gate. Its SessionID is the sign-in it was created from, and its
	// Code.RedirectURI names the host.
	HostSession oauth.GrantType = "host_session"
)

// SessionTouch is the precision with which the last use of a session is recorded.
const SessionTouch = time.Hour
