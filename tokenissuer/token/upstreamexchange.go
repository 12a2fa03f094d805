package token

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ExchangedTokenLifetime is the longest life of a token that a gate has swapped for a client's. The end of the client's own by its
// id is not asked for elsewhere than at a gate, so this is how long an upstream may go on after it.
const ExchangedTokenLifetime = 5 * time.Minute

// maxSwappedBytes bounds what is remembered of swapped tokens.
const maxSwappedBytes = 32 << 20

// UseExchange has ExchangeForUpstream make tokens. It is called before that is.
func (u *UpstreamTokens) UseExchange() {
	if u.exchanged != nil {
		return
	}
	u.exchanged = cache.New[*swappedToken](maxSwappedBytes)
}

// swappedToken is never changed.
type swappedToken struct {
	token     oauth.Secret
	keyID     string
	source    *AccessToken // the client's
	issuedAt  time.Time
	expiresAt time.Time
}

// TokenExchange says what a client's token is to be swapped for.
type TokenExchange struct {
	// Shown is the client's token as it stands, and Token what it says. It has just been verified.
	Shown oauth.Secret
	Token *AccessToken
	// Trust is what the token's issuer is called here; empty: it is ours.
	Trust string
	// Audience is the one upstream that the new token is for.
	Audience string
}

// ExchangeForUpstream returns an access token of ours that tells one upstream what the client's token tells, and is of no use elsewhere
// (as RFC 8693 has it, delegated). It ends with the client's token, and after five minutes at the latest. One is signed
// for a client's token and an audience, until a fifth of its life is left. The client's token is verified by the caller,
// every time.
func (u *UpstreamTokens) ExchangeForUpstream(s TokenExchange) (oauth.Secret, error) {
	if u.exchanged == nil {
		return oauth.Secret{}, oauth.NewError(oauth.ServerError, "swaps_not_kept")
	}
	now := u.birth()
	key := s.key()
	if known, ok := u.exchanged.Get(key); ok && u.isCurrent(known, s.Token, now) {
		return known.token, nil
	}
	swapped, err, _ := u.signing.Do(key, func() (any, error) {
		if known, ok := u.exchanged.Get(key); ok && u.isCurrent(known, s.Token, now) { // a concurrent caller was faster
			return known, nil
		}
		fresh, err := u.swap(s, now)
		if err != nil {
			return nil, err
		}
		u.exchanged.Put(key, fresh, fresh.weight())
		return fresh, nil
	})
	if err != nil {
		return oauth.Secret{}, err
	}
	return swapped.(*swappedToken).token, nil
}

// key returns the cache key. It has the issuer because two issuers may introspect the same opaque token.
func (s TokenExchange) key() string {
	digest := oauth.DigestOf(s.Shown.Reveal())
	return string(digest[:]) + s.Token.Issuer + "\x00" + s.Audience
}

// weight estimates the memory of s, in bytes.
func (s *swappedToken) weight() uint64 {
	return uint64(s.source.Size()) + uint64(len(s.token.Reveal()))
}

// isCurrent reports whether a swapped token can be given again: it has some life left, unless a new one would have no more,
// its key is good, and the client's token still says the same. An opaque one may not.
func (u *UpstreamTokens) isCurrent(s *swappedToken, source *AccessToken, now time.Time) bool {
	near := s.expiresAt.Add(-s.expiresAt.Sub(s.issuedAt) / 5)
	endsWithSource := !source.ExpiresAt.IsZero() && !source.ExpiresAt.Truncate(time.Second).After(s.expiresAt)
	if !now.Before(near) && !endsWithSource || !now.Before(s.expiresAt) {
		return false
	}
	if _, err := u.credentials().Keys.Find(s.keyID, ""); err != nil {
		return false
	}
	return s.source == source || s.source.SaysTheSame(source)
}

// swap makes a token.
func (u *UpstreamTokens) swap(s TokenExchange, now time.Time) (*swappedToken, error) {
	expires := now.Add(ExchangedTokenLifetime)
	if end := s.Token.ExpiresAt.Truncate(time.Second); !end.IsZero() && end.Before(expires) {
		expires = end
	}
	if !now.Before(expires) { // it was let in because clocks differ, and nothing of it is left
		return nil, oauth.NewError(oauth.InvalidToken, "token_expired").WithDescription("The access token expired")
	}
	key, err := u.credentials().Keys.Signing(u.now())
	if err != nil {
		return nil, err
	}
	claims, err := u.swappedClaims(s, key.ID, now, expires)
	if err != nil {
		return nil, err
	}
	signed, err := u.credentials().JTIMAC.Sign(key, claims)
	if err != nil {
		return nil, oauth.AsError(err)
	}
	if len(signed.Text) > MaxTokenBytes {
		return nil, oauth.NewError(oauth.InvalidToken, "identity_too_long").WithCause(errors.New("the claims do not fit a swapped token of 8 KiB"))
	}
	return &swappedToken{oauth.NewSecret(signed.Text), key.ID, s.Token, now, expires}, nil
}

// swappedClaims are the client's token's.
func (u *UpstreamTokens) swappedClaims(s TokenExchange, kid string, now, expires time.Time) ([]byte, error) {
	source := s.Token
	if s.Trust != "" {
		source = s.qualified(now)
	}
	swapped := &AccessToken{
		Issuer: u.url, Audience: []string{s.Audience}, ClientID: source.ClientID, Scopes: source.Scopes, ID: NewID(0),
		IssuedAt: now, ExpiresAt: expires, KeyID: kid,
	}
	swapped.Delegate(source, ExchangeActor)
	claims, err := AppendClaims(make([]byte, 0, 768), swapped)
	if err != nil {
		return nil, oauth.NewError(oauth.ServerError, "claims_unwritable").WithCause(err)
	}
	return claims, nil
}

// qualifiedID is the token of another issuer with ids that are nobody's of ours. What it calls a subject, a client or an organisation is
// nobody of ours, a role is one in an organisation of ours, and its sessions are not ours to end.
func (s TokenExchange) qualified(now time.Time) *AccessToken {
	t := s.Token
	q := &AccessToken{
		Issuer: t.Issuer, ID: t.ID, Subject: qualifiedID(s.Trust, t.Subject), ClientID: qualifiedID(s.Trust, t.ClientID), Scopes: t.Scopes,
		IssuedAt: t.IssuedAt, SignIn: SignIn{AuthTime: t.AuthTime},
	}
	if t.IssuedAt.IsZero() { // its issuer did not say
		q.IssuedAt = now
	}
	if t.Organisation != "" {
		q.Organisation = qualifiedID(s.Trust, t.Organisation)
	}
	actors := slices.Clone(t.Actors)
	for i := range actors {
		actors[i].Subject = qualifiedID(s.Trust, actors[i].Subject)
		if actors[i].ClientID != "" {
			actors[i].ClientID = qualifiedID(s.Trust, actors[i].ClientID)
		}
	}
	q.Actors = actors
	return q
}

// qualifiedID is the id that something of another issuer's has here. Nothing before the colon is ever empty; behind it
// nothing is when the issuer did not say which client it was.
func qualifiedID(trust, id string) string { return trust + ":" + id }
