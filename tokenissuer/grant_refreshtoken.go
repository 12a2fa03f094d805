package tokenissuer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// exchangeRefreshToken gives a fresh access token and the successor of a refresh token (RFC 6749 §6, RFC 9700 §4.14).
//
// Each refresh token has exactly one successor. The same token again within the grace, and before the successor was
// used, gives the same successor again, so that a lost answer or two racing tabs lose nothing. Later it is a reuse: one of
// two holders has stolen it, nobody knows which, and the family ends.
func (is *Issuer) exchangeRefreshToken(ctx context.Context, client *store.Client, r TokenRequest) (Grant, error) {
	if r.RefreshToken.IsEmpty() {
		return Grant{}, oauth.MissingParameter("refresh_token")
	}
	// 1. The token is ours. What is remembered of its family is enough for a token that is good; for any other, ours or not,
	// the store is asked.
	id, generation, genuine := is.Master.ReadRefreshToken(r.RefreshToken)
	if genuine {
		if f, user := is.remembered(id); f != nil && f.Generation == generation {
			if grant, err := is.refreshOf(ctx, client, &r, f, user, generation); err == nil {
				return grant, nil
			}
		}
	}
	f, err := is.Store.Family(ctx, id)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return Grant{}, oauth.Unavailable("store_unavailable", err)
	case err != nil || !genuine || generation > f.Generation:
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "refresh_token_unknown")
	}
	return is.refreshOf(ctx, client, &r, f, nil, generation)
}

// refreshOf is the rest of the walk for a token of a family. The user is the one who was remembered with it; nil: nothing
// was.
func (is *Issuer) refreshOf(ctx context.Context, client *store.Client, r *TokenRequest, f *store.TokenFamily, user *store.User, generation int64) (Grant, error) {
	if f.ClientID != client.ID {
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "refresh_token_of_another_client")
	}
	// 2. The family lives.
	now := is.Now()
	lifetimes := is.lifetimes(client)
	if !f.RevokedAt.IsZero() {
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "refresh_token_revoked")
	}
	if !now.Before(f.ExpiresAt) || now.After(f.RotatedAt.Add(lifetimes.RefreshIdle)) {
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "refresh_token_expired")
	}
	// 3. The token is the newest, or the one before it within the grace.
	use := refreshUse{by: is.Master.RequesterDigest(f.ID, r.Client.Address, userAgentFamily(r.UserAgent)), lifetimes: lifetimes, revokePrevious: client.RevokePrevious}
	// A thief who holds the access token as well sees it end when its owner refreshes, and could repeat in time.
	use.lifetimes.SameAddress = lifetimes.SameAddress || client.RevokePrevious
	again := generation < f.Generation
	if again {
		if err := is.repeat(ctx, f, generation, &use); err != nil {
			return Grant{}, err
		}
	}
	// 4. Its user still is who they were.
	user, err := is.standingUser(ctx, f, user)
	if err != nil {
		return Grant{}, err
	}
	// 5. The scope is no wider.
	scopes, err := narrowed(f.Scopes, client, r.Scope)
	if err != nil {
		return Grant{}, err
	}
	grant := is.grantOf(f, client, user, nil)
	grant.Scopes, grant.Generation, grant.repetition = scopes, generation+1, &use.repetition
	if !again {
		grant.consume = func() error { return is.rotate(ctx, f, user, &use) }
	}
	return grant, nil
}

// refreshUse is the use of a refresh token: by whom, under which rules, and what came of it.
type refreshUse struct {
	by        string
	lifetimes store.Lifetimes
	// revokePrevious: the access tokens issued before it end with it.
	revokePrevious bool
	repetition
}

// repetition says whether a refresh token had been used before, and what differs between who used it and who repeats it.
type repetition struct {
	again bool
	from  string
}

// repeat notes that a token is used again. Nil: it gives its successor once more.
func (is *Issuer) repeat(ctx context.Context, f *store.TokenFamily, generation int64, use *refreshUse) error {
	if !repeatable(f, generation, use.lifetimes.RefreshGrace, is.Now()) {
		return is.reused(ctx, f, oauth.ReasonRefreshReused)
	}
	use.repetition = repetition{again: true, from: elsewhere(f.RotatedBy, use.by)}
	if use.from != "" && use.lifetimes.SameAddress {
		return is.reused(ctx, f, oauth.ReasonRepeatedElsewhere)
	}
	return nil
}

// rotate uses the newest refresh token of a family up. When another request has done so at the same time, both get the same
// successor.
func (is *Issuer) rotate(ctx context.Context, f *store.TokenFamily, user *store.User, use *refreshUse) error {
	r := store.Rotation{At: is.Now(), By: use.by}
	if use.revokePrevious {
		end, refreshed := is.ending(), *f
		refreshed.RotatedAt = end.At // the last of them may be issued a moment later, by a repeat
		r.Ended = []store.Revocation{tokensUpTo(&refreshed, f.Generation, end)}
	}
	err := is.Store.RotateRefreshToken(ctx, f.ID, f.Generation, r)
	if err == nil {
		is.Revocations.Add(r.Ended...)
		is.Families.rotated(f, user, r)
		return nil
	}
	is.Families.forget(f.ID)
	if !errors.Is(err, store.ErrSpent) {
		return oauth.Unavailable("store_unavailable", err)
	}
	return is.lostRotation(ctx, f, use)
}

// tokensUpTo is the revocation of the access tokens that came with the family's refresh tokens up to that generation.
func tokensUpTo(f *store.TokenFamily, generation int64, end store.Ending) store.Revocation {
	return store.Revocation{Kind: store.RevokeGenerations, ID: f.ID, IssuedUntil: time.Unix(generation, 0), ExpiresAt: f.RevokedUntil(end)}
}

// lostRotation says why the newest refresh token could not be used up. Nil: another request has just used it.
func (is *Issuer) lostRotation(ctx context.Context, seen *store.TokenFamily, use *refreshUse) error {
	f, err := is.family(ctx, seen.ID)
	switch {
	case err != nil:
		return err
	case f == nil:
		return oauth.NewError(oauth.InvalidGrant, "refresh_token_revoked")
	case f.Generation < seen.Generation: // the store was put back to an older state
		return oauth.NewError(oauth.InvalidGrant, "refresh_token_unknown")
	case f.Generation == seen.Generation && !is.Now().Before(f.ExpiresAt):
		return oauth.NewError(oauth.InvalidGrant, "refresh_token_expired")
	case f.Generation == seen.Generation: // the token still is the newest: it is the user who does not stand
		return oauth.NewError(oauth.InvalidGrant, "user_changed")
	}
	if err := is.repeat(ctx, f, seen.Generation, use); err != nil {
		return err
	}
	// No step has asked for the user, and the one who was remembered may be another by now.
	_, err = is.standingUser(ctx, f, nil)
	return err
}

// repeatable reports whether a token that was used gives its successor once more.
func repeatable(f *store.TokenFamily, generation int64, grace time.Duration, now time.Time) bool {
	return generation == f.Generation-1 && grace > 0 && !now.After(f.RotatedAt.Add(grace))
}

// reused ends the family of a refresh token that was used twice.
func (is *Issuer) reused(ctx context.Context, f *store.TokenFamily, reason string) error {
	if err := is.endFamilies(ctx, store.FamilyFilter{ID: f.ID}); err != nil {
		return err
	}
	return oauth.NewError(oauth.InvalidGrant, reason)
}

// narrowed returns the scopes of the access token: those asked for, when the family has them all, else all of the
// family's. A scope that the client may not have any more is left out. The names are the family's own; see grantable.
func narrowed(held oauth.Scopes, client *store.Client, asked string) (oauth.Scopes, error) {
	allowed := slices.DeleteFunc(slices.Clone(held), func(name string) bool { return !client.Scopes.Has(name) })
	scopes, err := oauth.RequestedScopes(asked)
	switch {
	case err != nil:
		return nil, err
	case len(allowed) == 0:
		return nil, oauth.NewError(oauth.InvalidGrant, "scopes_withdrawn")
	case len(scopes) == 0:
		return allowed, nil
	case allowed.Missing(scopes...) != "":
		return nil, oauth.NewError(oauth.InvalidScope, "scope_wider_than_granted")
	}
	for i, name := range scopes {
		scopes[i] = allowed[slices.Index(allowed, name)]
	}
	return scopes, nil
}
