package grants

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RefreshParameters are those of RFC 6749 §6.
type RefreshParameters struct {
	Token oauth.Secret
	// UserAgent is the header as received.
	UserAgent string
}

// refreshToken is the refresh token grant (RFC 6749 §6, RFC 9700 §4.14). It returns an access token and the successor of the refresh token.
//
// Each refresh token has exactly one successor. Within the grace period, until the successor is used, repeating the token returns the same
// successor. A lost response or two concurrent tabs therefore do no harm. A later repetition is a reuse: one of two holders has stolen the
// token. It is unknown which, so the family ends. For MCP servers, the successor can also return itself; see fresh.
type refreshToken struct {
	families  *families.Families
	minter    *issuer.Minter
	resources *oauth.Resources
}

func (g *refreshToken) exchange(ctx context.Context, client *store.Client, r Request) (issuer.Grant, error) {
	// 1. The parameters.
	if r.Refresh.Token.IsEmpty() {
		return issuer.Grant{}, oauth.MissingParameter("refresh_token")
	}
	// 2. The family. A cached family suffices to accept a token. Only the store decides a refusal or a repetition.
	id, generation, genuine, err := g.families.ReadRefreshToken(ctx, r.Refresh.Token)
	if err != nil {
		return issuer.Grant{}, err
	}
	if !genuine {
		return issuer.Grant{}, refreshRefused(store.Missing)
	}
	use := g.useOf(client, &r, id, generation)
	f, user := g.families.Recall(id)
	scopes, refusal := use.check(f)
	if refusal != nil || use.Repeated {
		if f, err = g.families.Stored(ctx, id); err != nil {
			return issuer.Grant{}, err
		}
		user = nil
		scopes, refusal = use.check(f)
	}
	// 3. The token belongs to this client, and its family has not ended. It is the newest one, or within the grace period its predecessor.
	// The requested scope does not exceed the granted one.
	if refusal != nil {
		return issuer.Grant{}, g.refused(ctx, f, refusal)
	}
	// 4. The resources are among the granted ones, and the user has not changed.
	audience, err := g.resources.Audience(r.Resources, f.Audience)
	if err != nil {
		return issuer.Grant{}, err
	}
	user, err = g.families.RequireUser(ctx, f, user)
	if err != nil {
		return issuer.Grant{}, err
	}
	// 5. The tokens. One step of the store repeats the checks of family and user atomically. A repetition takes no step and returns the
	// newest refresh token.
	grant := g.minter.GrantOf(f, client, user, func() (issuer.Repetition, error) { return use.Repetition, nil })
	grant.Scopes, grant.Audience = scopes, audience
	if !use.Repeated {
		grant.Generation++
		grant.Consume = func() (issuer.Repetition, error) {
			err := g.rotate(ctx, f, user, use)
			return use.Repetition, err
		}
	}
	return grant, nil
}

// refreshUse is one use of a refresh token.
type refreshUse struct {
	client     *store.Client
	generation int64
	scope      string
	now        time.Time
	by         string // digest of the requester
	lifetimes  store.Lifetimes
	resources  *oauth.Resources
	issuer.Repetition
}

func (g *refreshToken) useOf(client *store.Client, r *Request, familyID string, generation int64) *refreshUse {
	use := &refreshUse{
		client: client, generation: generation, scope: r.Scope, now: g.families.Now(), lifetimes: g.families.LifetimesOf(client), resources: g.resources,
		by: g.families.Master.RequesterDigest(familyID, r.Client.Address, keys.UserAgentFamily(r.Refresh.UserAgent)),
	}
	// A thief who also holds the access token sees it end when its owner refreshes, and could then repeat within the grace period.
	use.lifetimes.SameAddress = use.lifetimes.SameAddress || client.RevokePrevious
	return use
}

// check checks a refresh token against its family. f is nil if there is none. check returns the scopes of the access token.
func (u *refreshUse) check(f *store.TokenFamily) (oauth.Scopes, error) {
	u.Repetition = issuer.Repetition{}
	outcome := f.Rotatable(u.generation, u.now)
	switch {
	case outcome == store.Missing:
		return nil, refreshRefused(outcome)
	case f.ClientID != u.client.ID:
		return nil, oauth.NewError(oauth.InvalidGrant, "refresh_token_of_another_client")
	case outcome != store.Done && outcome != store.Replayed:
		return nil, refreshRefused(outcome)
	case u.now.After(f.Refresh.RotatedAt.Add(u.lifetimes.RefreshIdle)):
		return nil, refreshRefused(store.Expired)
	}
	if outcome == store.Replayed {
		if err := u.repeat(f); err != nil {
			return nil, err
		}
	} else if u.fresh(f) {
		u.Repetition = issuer.Repetition{Repeated: true, RepeatedFrom: keys.Elsewhere(f.Refresh.RotatedBy, u.by)}
	}
	return issuer.NarrowedScopes(f.Scopes, u.client, u.scope)
}

// repeat records a repeated use of the token. It returns nil if the token returns its successor again.
func (u *refreshUse) repeat(f *store.TokenFamily) error {
	if !issuer.Repeatable(f, u.generation, u.lifetimes.RefreshGrace, u.now) {
		return oauth.ErrRefreshReused
	}
	u.Repetition = issuer.Repetition{Repeated: true, RepeatedFrom: keys.Elsewhere(f.Refresh.RotatedBy, u.by)}
	if u.RepeatedFrom != "" && u.lifetimes.SameAddress {
		return oauth.ErrRepeatedElsewhere
	}
	return nil
}

// fresh reports whether the newest refresh token is too recent to be used up: it was issued within the grace period and is for an MCP
// server. MCP SDKs refresh once per concurrent request, some with the token that another refresh has just returned. If that token were used
// up, requests that still present its predecessor would count as theft (docs/decisions/0047).
func (u *refreshUse) fresh(f *store.TokenFamily) bool {
	return f.Refresh.Generation > 1 && u.resources.OfAgents(f.Audience) && issuer.InGrace(f, u.lifetimes.RefreshGrace, u.now) &&
		!u.client.RevokePrevious && (!u.lifetimes.SameAddress || keys.Elsewhere(f.Refresh.RotatedBy, u.by) == "")
}

// rotate uses up the newest refresh token of a family. If a concurrent request does so first, both get the same successor.
func (g *refreshToken) rotate(ctx context.Context, f *store.TokenFamily, user *store.User, use *refreshUse) error {
	r := store.Rotation{At: g.families.Now(), By: use.by}
	if use.client.RevokePrevious {
		end, refreshed := g.families.Ending(), *f
		refreshed.Refresh.RotatedAt = end.At // a repetition may issue the last of them a moment later
		r.Ended = []store.Revocation{families.RevocationOfTokens(&refreshed, f.Refresh.Generation, end)}
	}
	outcome, found, err := g.families.Store.RotateRefreshToken(ctx, f.ID, f.Refresh.Generation, r)
	if err == nil && outcome == store.Done {
		g.families.Revocations.Add(r.Ended...)
		g.families.Remembered.Rotated(f, user, r)
		return nil
	}
	g.families.Remembered.Forget(f.ID)
	switch {
	case err != nil:
		return err
	case outcome != store.Replayed:
		return refreshRefused(outcome)
	}
	use.now = g.families.Now()
	if err := use.repeat(found); err != nil {
		return g.refused(ctx, found, err)
	}
	// The step has not checked the user, who may have changed meanwhile.
	_, err = g.families.RequireUser(ctx, found, nil)
	return err
}

// refreshRefused returns the error for a refresh token whose family is not rotatable.
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

// refused returns the refusal of a refresh token. If the token counts as stolen, it ends the family.
func (g *refreshToken) refused(ctx context.Context, f *store.TokenFamily, refusal error) error {
	if !errors.Is(refusal, oauth.ErrRefreshReused) && !errors.Is(refusal, oauth.ErrRepeatedElsewhere) {
		return refusal
	}
	if err := g.families.EndFamilies(ctx, store.FamilyFilter{ID: f.ID}); err != nil {
		return err
	}
	return refusal
}
