package tokenissuer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// exchangeRefreshToken gives a fresh access token and the successor of a refresh token (RFC 6749 §6, RFC 9700 §4.14).
//
// Each refresh token has exactly one successor. The same token again within the grace, and before the successor was
// used, gives the same successor again, so that a lost answer or two racing tabs lose nothing. Later it is a reuse: one of
// two holders has stolen it, nobody knows which, and the family ends. For MCP servers the successor gives itself again as well; see
// fresh.
func (is *Issuer) exchangeRefreshToken(ctx context.Context, client *store.Client, r TokenRequest) (Grant, error) {
	// 1. The parameters.
	if r.RefreshToken.IsEmpty() {
		return Grant{}, oauth.MissingParameter("refresh_token")
	}
	// 2. The family. What is remembered of it is enough for a token that is good; for any other, ours or not, the store is asked.
	id, generation, genuine := is.Master.ReadRefreshToken(r.RefreshToken)
	use := is.refreshUseOf(client, &r, id, generation)
	f, user := is.remembered(id, genuine)
	scopes, refusal := use.check(f)
	if refusal != nil || use.again {
		var err error
		if f, err = is.storedFamily(ctx, id, genuine); err != nil {
			return Grant{}, err
		}
		user = nil
		scopes, refusal = use.check(f)
	}
	// 3. The token is this client's, of a family that lives, and the newest, or the one before it within the grace. The scope is
	// no wider.
	if refusal != nil {
		return Grant{}, is.refused(ctx, f, refusal)
	}
	// 4. The resources are among those that were granted, and its user still is who they were.
	audience, err := is.Resources.Audience(r.Resources, f.Audience)
	if err != nil {
		return Grant{}, err
	}
	user, err = is.standingUser(ctx, f, user)
	if err != nil {
		return Grant{}, err
	}
	// 5. The tokens, on ONE step of the store. It asks again, atomically, what was asked of the family and its user. A repetition
	// takes none, and gives the newest refresh token.
	grant := is.grantOf(f, client, user, nil)
	grant.Scopes, grant.Audience, grant.Generation, grant.repetition = scopes, audience, f.Generation, &use.repetition
	if !use.again {
		grant.Generation++
		grant.consume = func() error { return is.rotate(ctx, f, user, use) }
	}
	return grant, nil
}

// refreshUse is the use of a refresh token: of which client and generation, when, by whom, under which rules, and what came of it.
type refreshUse struct {
	client     *store.Client
	generation int64
	scope      string
	now        time.Time
	by         string
	lifetimes  store.Lifetimes
	resources  *routes.Resources
	repetition
}

// repetition says whether the newest refresh token is given again, and what differs between who got it first and who gets it now.
type repetition struct {
	again bool
	from  string
}

func (is *Issuer) refreshUseOf(client *store.Client, r *TokenRequest, familyID string, generation int64) *refreshUse {
	use := &refreshUse{
		client: client, generation: generation, scope: r.Scope, now: is.Now(), lifetimes: is.lifetimes(client), resources: &is.Resources,
		by: is.Master.RequesterDigest(familyID, r.Client.Address, keys.UserAgentFamily(r.UserAgent)),
	}
	// A thief who holds the access token as well sees it end when its owner refreshes, and could repeat in time.
	use.lifetimes.SameAddress = use.lifetimes.SameAddress || client.RevokePrevious
	return use
}

// check holds a refresh token against the family that it is of; nil: there is none. It returns the scopes of the access token.
func (u *refreshUse) check(f *store.TokenFamily) (oauth.Scopes, error) {
	u.repetition = repetition{}
	outcome := f.Rotatable(u.generation, u.now)
	switch {
	case outcome == store.Missing:
		return nil, refreshRefused(outcome)
	case f.ClientID != u.client.ID:
		return nil, oauth.NewError(oauth.InvalidGrant, "refresh_token_of_another_client")
	case outcome != store.Done && outcome != store.Replayed:
		return nil, refreshRefused(outcome)
	case u.now.After(f.RotatedAt.Add(u.lifetimes.RefreshIdle)):
		return nil, refreshRefused(store.Expired)
	}
	if outcome == store.Replayed {
		if err := u.repeat(f); err != nil {
			return nil, err
		}
	} else if u.fresh(f) {
		u.repetition = repetition{again: true, from: keys.Elsewhere(f.RotatedBy, u.by)}
	}
	return narrowed(f.Scopes, u.client, u.scope)
}

// repeat notes that the token is used again. Nil: it gives its successor once more.
func (u *refreshUse) repeat(f *store.TokenFamily) error {
	if !repeatable(f, u.generation, u.lifetimes.RefreshGrace, u.now) {
		return oauth.ErrRefreshReused
	}
	u.repetition = repetition{again: true, from: keys.Elsewhere(f.RotatedBy, u.by)}
	if u.from != "" && u.lifetimes.SameAddress {
		return oauth.ErrRepeatedElsewhere
	}
	return nil
}

// fresh reports whether the newest refresh token is too young to be used up: it came of a refresh within the grace, and is for an MCP
// server. The SDKs refresh for each of the requests that they have under way, some with the token that another has just brought. If
// that one were used up, those that still come with the token before it would count as thieves (docs/decisions/0047).
func (u *refreshUse) fresh(f *store.TokenFamily) bool {
	return f.Generation > 1 && u.resources.OfAgents(f.Audience) && inGrace(f, u.lifetimes.RefreshGrace, u.now) &&
		!u.client.RevokePrevious && (!u.lifetimes.SameAddress || keys.Elsewhere(f.RotatedBy, u.by) == "")
}

// rotate uses the newest refresh token of a family up. When another request has done so at the same time, both get the same
// successor.
func (k *Records) rotate(ctx context.Context, f *store.TokenFamily, user *store.User, use *refreshUse) error {
	r := store.Rotation{At: k.Now(), By: use.by}
	if use.client.RevokePrevious {
		end, refreshed := k.Ending(), *f
		refreshed.RotatedAt = end.At // the last of them may be issued a moment later, by a repeat
		r.Ended = []store.Revocation{tokensUpTo(&refreshed, f.Generation, end)}
	}
	outcome, found, err := k.Store.RotateRefreshToken(ctx, f.ID, f.Generation, r)
	if err == nil && outcome == store.Done {
		k.Revocations.Add(r.Ended...)
		k.Families.Rotated(f, user, r)
		return nil
	}
	k.Families.Forget(f.ID)
	switch {
	case err != nil:
		return err
	case outcome != store.Replayed:
		return refreshRefused(outcome)
	}
	use.now = k.Now()
	if err := use.repeat(found); err != nil {
		return k.refused(ctx, found, err)
	}
	// The step has not asked for the user, and the one who was remembered may be another by now.
	_, err = k.standingUser(ctx, found, nil)
	return err
}

// tokensUpTo is the revocation of the access tokens that came with the family's refresh tokens up to that generation.
func tokensUpTo(f *store.TokenFamily, generation int64, end store.Ending) store.Revocation {
	return store.Revocation{Kind: store.RevokeGenerations, ID: f.ID, IssuedUntil: time.Unix(generation, 0), ExpiresAt: f.RevokedUntil(end)}
}

// refreshRefused is the refusal of a refresh token for what its family is.
func refreshRefused(outcome store.Outcome) error {
	reason := "refresh_token_revoked"
	switch outcome {
	case store.Missing:
		reason = "refresh_token_unknown"
	case store.Expired:
		reason = "refresh_token_expired"
	case store.UserChanged:
		reason = "user_changed"
	}
	return oauth.NewError(oauth.InvalidGrant, reason)
}

// repeatable reports whether a token that was used gives its successor once more.
func repeatable(f *store.TokenFamily, generation int64, grace time.Duration, now time.Time) bool {
	return generation == f.Generation-1 && inGrace(f, grace, now)
}

// inGrace reports whether the newest refresh token of a family came to be within the grace.
func inGrace(f *store.TokenFamily, grace time.Duration, now time.Time) bool {
	return grace > 0 && !now.After(f.RotatedAt.Add(grace))
}

// refused returns the refusal of a refresh token. The family of a token that counts as stolen ends first.
func (k *Records) refused(ctx context.Context, f *store.TokenFamily, refusal error) error {
	if !errors.Is(refusal, oauth.ErrRefreshReused) && !errors.Is(refusal, oauth.ErrRepeatedElsewhere) {
		return refusal
	}
	if err := k.EndFamilies(ctx, store.FamilyFilter{ID: f.ID}); err != nil {
		return err
	}
	return refusal
}

// narrowed returns the scopes of the access token: those asked for, when the family has them all, else all of the
// family's. A scope that the client may not have any more is left out.
func narrowed(held oauth.Scopes, client *store.Client, asked string) (oauth.Scopes, error) {
	allowed := slices.DeleteFunc(slices.Clone(held), func(name string) bool { return !client.Scopes.Has(name) })
	return chosen(asked, allowed, oauth.InvalidGrant, "scopes_withdrawn")
}

// chosen returns the scopes that are asked for, when all of them are allowed; all that are allowed when none is asked for. None is the code and
// why the reason of the error when none is allowed. The names are the allowed ones, and not parts of the request; see grantable.
func chosen(asked string, allowed oauth.Scopes, none oauth.ErrorCode, why string) (oauth.Scopes, error) {
	scopes, err := oauth.RequestedScopes(asked)
	switch {
	case err != nil:
		return nil, err
	case len(allowed) == 0:
		return nil, oauth.NewError(none, why)
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
