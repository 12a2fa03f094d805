package issuer

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Introspection describes an active token (RFC 7662 §2.2).
type Introspection struct {
	// Access is the access token. It is nil for a refresh token.
	Access *token.AccessToken
	// Family and ExpiresAt are those of a refresh token.
	Family    *store.TokenFamily
	ExpiresAt time.Time
	// Username is the user's e-mail address. It is empty for a server token.
	Username string
}

// Asker is the client that introspects a token.
type Asker struct {
	ClientID string
	// Bearer is the access token that authenticates the call. It is nil if the client itself has authenticated.
	Bearer *token.AccessToken
}

// mayKnow reports whether the asker may learn about tokens with that client and subject. The holder of an access token learns only about
// its own subject.
func (a Asker) mayKnow(clientID, subject string) bool {
	return a.ClientID == clientID && (a.Bearer == nil || a.Bearer.Subject == subject)
}

// Introspect describes an access or refresh token (RFC 7662 §2.2). It returns nil for any inactive token and for one that the asker may not
// learn about. It reads the current state of the store, and returns temporarily_unavailable if the store fails.
func (it *IssuedTokens) Introspect(ctx context.Context, asker Asker, token oauth.Secret) (*Introspection, error) {
	if err := it.Families.CatchUp(ctx); err != nil {
		return nil, err
	}
	if it.IsPersonal(token) {
		return it.introspectPersonal(ctx, asker, token)
	}
	f, _, err := it.refreshable(ctx, token)
	if err != nil {
		return nil, err
	}
	if f != nil {
		return it.introspectRefresh(ctx, asker, f, token)
	}
	t, err := it.verifyForIssuer(ctx, token)
	if err != nil {
		if oauth.AsError(err).Code == oauth.InvalidToken {
			return nil, nil
		}
		return nil, err
	}
	if !asker.mayKnow(t.ClientID, t.Subject) {
		return nil, nil
	}
	result := &Introspection{Access: t}
	if !t.IsServerToken() {
		result.Username, err = it.username(ctx, t.Subject)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// introspectRefresh describes a refresh token of a family that has not ended. A token is active if the token endpoint would accept it: the
// newest one, and within the grace period its predecessor. Otherwise a thief of the predecessor could see when the owner refreshes. A
// public client learns nothing about refresh tokens, because anyone can use its id.
func (it *IssuedTokens) introspectRefresh(ctx context.Context, asker Asker, f *store.TokenFamily, token oauth.Secret) (*Introspection, error) {
	if !asker.mayKnow(f.ClientID, f.User.ID) {
		return nil, nil
	}
	now := it.Families.Now()
	client := it.Clients.Authenticated.Recall(f.ClientID, now) // it has just authenticated, or its token was verified
	if client == nil {
		var err error
		if client, err = it.Clients.Find(ctx, f.ClientID); errors.Is(err, store.ErrNotFound) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	lifetimes := it.Families.LifetimesOf(client)
	_, generation, _, err := it.Families.ReadRefreshToken(ctx, token)
	if err != nil {
		return nil, err
	}
	if client.IsPublic() || generation != f.Refresh.Generation && !Repeatable(f, generation, lifetimes.RefreshGrace, now) {
		return nil, nil
	}
	expires := f.Refresh.RotatedAt.Add(lifetimes.RefreshIdle)
	if f.ExpiresAt.Before(expires) {
		expires = f.ExpiresAt
	}
	user, err := it.Families.LivingUser(ctx, f)
	if user == nil || err != nil || !now.Before(expires) {
		return nil, err
	}
	return &Introspection{Family: f, ExpiresAt: expires, Username: user.Email}, nil
}
