package tokenissuer

import (
	"context"
	"errors"
	"time"
)

// revocationMargin keeps a revocation a little longer than any token that it hits can be accepted.
const revocationMargin = time.Minute

// RevokeFor ends a token at its client's request (RFC 7009 §2). A token that is not ours, unknown or dead already is no
// error: nothing is left to do. Another client's token is refused and stays as it is. A token with a family takes the
// family with it.
func (is *Issuer) RevokeFor(ctx context.Context, client *Client, token Secret) (*AccessToken, error) {
	t, err := is.Verifier.VerifyForIssuer(token.Reveal())
	if err != nil {
		if AsError(err).Code == InvalidToken {
			return nil, nil
		}
		return nil, err
	}
	if t.ClientID != client.ID {
		return nil, NewError(TokenNotYours, "token_of_another_client")
	}
	r := Revocation{Kind: RevokeToken, ID: t.ID, ExpiresAt: t.ExpiresAt.Add(revocationMargin)}
	if t.FamilyID != "" {
		r = is.RevocationOf(RevokeFamily, t.FamilyID)
	}
	return t, is.Revoke(ctx, r)
}

// RevocationOf returns a revocation that hits every token of that id issued until now. A token, a family or a key is
// revoked whenever its tokens were issued.
func (is *Issuer) RevocationOf(kind RevocationKind, id string) Revocation {
	now := is.Now()
	r := Revocation{Kind: kind, ID: id, ExpiresAt: now.Add(MaxLifetime + revocationMargin)}
	switch kind {
	case RevokeUser, RevokeClient, RevokeOrganisation:
		r.IssuedUntil = now
	}
	return r
}

// Revoke records a revocation and, once it is durable, applies it here. It is temporarily_unavailable, and nothing is
// promised, when the store cannot record it.
func (is *Issuer) Revoke(ctx context.Context, r Revocation) error {
	if r.ID == "" {
		return errors.New("a revocation needs an id")
	}
	if err := is.Store.Revoke(ctx, r); err != nil {
		return Unavailable("store_unavailable", err)
	}
	is.Revocations.Add(r)
	return nil
}

// Introspect looks at a token for a client (RFC 7662 §2.2). It returns nil for a token that is inactive, whatever the
// reason, another client's included. Unlike the gate, which goes on for a while with what it knows, it answers from the
// store's state of this moment, and is temporarily_unavailable without it.
func (is *Issuer) Introspect(ctx context.Context, clientID string, token Secret) (*AccessToken, error) {
	if is.Refresh != nil {
		if err := is.Refresh(ctx); err != nil {
			return nil, Unavailable("store_unavailable", err)
		}
	}
	t, err := is.Verifier.VerifyForIssuer(token.Reveal())
	if err != nil {
		if AsError(err).Code == InvalidToken {
			return nil, nil
		}
		return nil, err
	}
	if t.ClientID != clientID {
		return nil, nil
	}
	return t, nil
}
