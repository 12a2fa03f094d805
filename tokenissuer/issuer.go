package tokenissuer

import (
	"context"
	"errors"
	"time"
)

// Issuer is the authorization server (RFC 6749 §1.1). Its fields are set once, before use.
type Issuer struct {
	// URL is the issuer identifier (RFC 8414 §2). It never comes from a request.
	URL string
	// Audience is what goes into aud; never empty.
	Audience []string
	// Lifetimes are the issuer's; a client may have its own.
	Lifetimes Lifetimes
	// Scopes are the scopes that are known.
	Scopes ScopeCatalogue
	// Directory answers who exists.
	Directory Directory
	// Authenticated remembers for a moment which clients have proved who they are; see AuthenticateClient.
	Authenticated *ClientCache
	// Store takes the revocations.
	Store RevocationStore
	// Keys sign.
	Keys *KeySet
	// Revocations learn at once what this process revokes.
	Revocations *RevocationSet
	// Refresh brings Revocations up to what the store holds now; nil: they always are.
	Refresh func(context.Context) error
	// Verifier reads our own tokens; it is told of every token from its birth.
	Verifier *Verifier
	// Attempts count failed client authentications; nil: nobody counts.
	Attempts AttemptCounter
	// ClientLimit bounds them.
	ClientLimit Limit
	// Now is the clock.
	Now func() time.Time
}

// Limit allows so many failures in a window. The zero value sets no limit.
type Limit struct {
	Failures int
	Window   time.Duration
}

// Tokens are what the token endpoint hands out (RFC 6749 §5.1).
type Tokens struct {
	AccessToken Secret
	ExpiresIn   time.Duration
	// RefreshToken is empty when there is none.
	RefreshToken Secret
	Scopes       Scopes
	CreatedAt    time.Time
	// Claims are those of the access token, for the audit log.
	Claims *AccessToken
}

// Issue makes the tokens of a grant (RFC 9068 §2). It is the only place where tokens are made. It fails when no key
// can sign, and for a user whose id is the client's: that token would pass for a server token.
func (is *Issuer) Issue(g Grant) (Tokens, error) {
	key, err := is.Keys.Signing()
	if err != nil {
		return Tokens{}, err
	}
	lifetime := g.Lifetime
	if lifetime == 0 {
		lifetime = g.Client.Lifetimes.Or(is.Lifetimes).of(g.Type)
	}
	now := is.Now().Truncate(time.Second)
	t := &AccessToken{
		Issuer: is.URL, Subject: g.Client.ID, Audience: is.Audience, ClientID: g.Client.ID, Scopes: g.Scopes, ID: NewID(),
		IssuedAt: now, ExpiresAt: now.Add(lifetime), KeyID: key.ID,
	}
	if g.User != nil {
		if g.User.ID == g.Client.ID {
			return Tokens{}, NewError(ServerError, "user_is_client").WithCause(errors.New("user id equals client id"))
		}
		t.Subject, t.Organisation, t.Role = g.User.ID, g.User.Organisation, g.User.Role
		t.FamilyID, t.AuthTime = g.FamilyID, g.AuthTime
	}
	claims, err := appendClaims(make([]byte, 0, 512), t)
	if err != nil {
		return Tokens{}, AsError(err)
	}
	signed, err := key.sign(claims)
	if err != nil {
		return Tokens{}, AsError(err)
	}
	if len(signed) > MaxTokenBytes {
		return Tokens{}, NewError(ServerError, "token_too_long").WithCause(errors.New("the claims do not fit a token of 8 KiB"))
	}
	is.Verifier.Remember(signed, t)
	return Tokens{
		AccessToken: NewSecret(signed), ExpiresIn: lifetime, Scopes: g.Scopes, CreatedAt: now, Claims: t,
	}, nil
}
