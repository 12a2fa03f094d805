package token

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ExchangedTokenLifetime is the maximum lifetime of a token that a gate exchanged for a client's. Only gates check whether the client's token
// was revoked by its id, so an upstream may accept the exchanged token for this long after it was.
const ExchangedTokenLifetime = 5 * time.Minute

// maxSwappedBytes bounds the cache of swapped tokens.
const maxSwappedBytes = 32 << 20

// UseExchange enables ExchangeForUpstream. Call it first.
func (u *UpstreamTokens) UseExchange() {
	if u.exchanged != nil {
		return
	}
	u.exchanged = cache.New[*swappedToken](maxSwappedBytes)
}

// swappedToken is immutable.
type swappedToken struct {
	token     oauth.Secret
	keyID     string
	source    *AccessToken // the client's
	issuedAt  time.Time
	expiresAt time.Time
}

// Exchange describes the exchange of a client's token.
type Exchange struct {
	// Shown is the text of the client's token, and Token its claims. The caller has just verified it.
	Shown oauth.Secret
	Token *AccessToken
	// Trust is the configured name of the token's issuer; empty: it is ours.
	Trust string
	// Audience is the only audience of the new token.
	Audience string
}

// ExchangeForUpstream returns an access token of ours with the claims of the client's token, for one upstream (delegation, RFC 8693). It ends
// with the client's token, and after ExchangedTokenLifetime at the latest. One token is signed for a client's token and an audience, until a
// fifth of its life is left. The caller verifies the client's token every time.
func (u *UpstreamTokens) ExchangeForUpstream(s Exchange) (oauth.Secret, error) {
	if u.exchanged == nil {
		return oauth.Secret{}, oauth.NewError(oauth.ServerError, "swaps_not_kept")
	}
	now := u.birth()
	key := s.key()
	if known, ok := u.exchanged.Get(key); ok && u.isCurrent(known, s.Token, now) {
		return known.token, nil
	}
	renew := func() (any, error) {
		if known, ok := u.exchanged.Get(key); ok && u.isCurrent(known, s.Token, now) { // a concurrent caller was faster
			return known, nil
		}
		fresh, err := u.swap(s, now)
		if err != nil {
			return nil, err
		}
		u.exchanged.Put(key, fresh, fresh.weight())
		return fresh, nil
	}
	swapped, err, shared := u.signing.Do(key, renew)
	if shared && (err != nil || !u.isCurrent(swapped.(*swappedToken), s.Token, now)) { // the concurrent caller's token has other claims
		swapped, err = renew()
	}
	if err != nil {
		return oauth.Secret{}, err
	}
	return swapped.(*swappedToken).token, nil
}

// key returns the cache key. It has the issuer because two issuers may introspect the same opaque token.
func (s Exchange) key() string {
	digest := oauth.DigestOf(s.Shown.Reveal())
	return string(digest[:]) + s.Token.Issuer + "\x00" + s.Audience
}

// weight estimates the memory of s, in bytes.
func (s *swappedToken) weight() uint64 {
	return uint64(s.source.Size()) + uint64(len(s.token.Reveal()))
}

// isCurrent reports whether a swapped token can be used again: at least a fifth of its life is left or a new one would end no later, its key
// is valid, and the client's token has the same claims, which may change for an opaque one.
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
func (u *UpstreamTokens) swap(s Exchange, now time.Time) (*swappedToken, error) {
	expires := now.Add(ExchangedTokenLifetime)
	if end := s.Token.ExpiresAt.Truncate(time.Second); !end.IsZero() && end.Before(expires) {
		expires = end
	}
	if !now.Before(expires) { // it was accepted within the leeway
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
func (u *UpstreamTokens) swappedClaims(s Exchange, kid string, now, expires time.Time) ([]byte, error) {
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

// qualified returns the token of another issuer with qualified ids for subject, client and organisation, none of which is one of ours. It
// omits the role, which would be one in our organisations, and the session, which we cannot end.
func (s Exchange) qualified(now time.Time) *AccessToken {
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

// qualifiedID returns the id of another issuer's entity here. The part before the colon is never empty; that behind it is if the issuer
// named no client.
func qualifiedID(trust, id string) string { return trust + ":" + id }
