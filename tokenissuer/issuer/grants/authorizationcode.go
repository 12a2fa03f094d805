package grants

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// CodeParameters are those of RFC 6749 §4.1.3 and RFC 7636 §4.5.
type CodeParameters struct {
	Code        oauth.Secret
	RedirectURI string
	Verifier    oauth.Secret
}

// maxCodeFailures is the number of wrong code verifiers that a code survives.
const maxCodeFailures = 5

// authorizationCode is the authorization code grant (RFC 6749 §4.1.3, RFC 7636 §4.6).
type authorizationCode struct{ codes }

// codes redeems the codes of families.
type codes struct {
	families  *families.Families
	minter    *issuer.Minter
	resources *oauth.Resources
}

// exchange redeems a code. The order is a safeguard: nothing is revealed to another client, and a replay is detected even if the request is
// otherwise invalid.
func (g *authorizationCode) exchange(ctx context.Context, client *store.Client, r Request) (issuer.Grant, error) {
	// 1. The parameters.
	if r.Code.Code.IsEmpty() {
		return issuer.Grant{}, oauth.MissingParameter("code")
	}
	// 2. The family. A cached family suffices to accept a code. Only the store decides a refusal.
	id, genuine := g.families.Master.ReadCode(r.Code.Code)
	now := g.families.Now()
	if !genuine {
		return issuer.Grant{}, codeRefused(store.Missing)
	}
	f, user := g.families.Recall(id)
	refusal := checkCode(f, client, r.Code, now)
	if refusal != nil {
		var err error
		if f, err = g.families.Stored(ctx, id); err != nil {
			return issuer.Grant{}, err
		}
		user, refusal = nil, checkCode(f, client, r.Code, now)
	}
	// 3. The code belongs to this client and is unused, and redirect_uri and code_verifier match the authorization request.
	switch {
	case errors.Is(refusal, errCodeReplayed):
		return issuer.Grant{}, g.replayed(ctx, f)
	case errors.Is(refusal, errVerifierWrong):
		return issuer.Grant{}, g.countWrongVerifier(ctx, f)
	case refusal != nil:
		return issuer.Grant{}, refusal
	}
	return g.grant(ctx, client, f, user, r.Resources)
}

// grant returns the grant of a code that can be redeemed. user is the user who was remembered with its family, or nil.
func (g *codes) grant(ctx context.Context, client *store.Client, f *store.TokenFamily, user *store.User, resources []string) (issuer.Grant, error) {
	// 4. The resources are among the granted ones, and the user has not changed.
	audience, err := g.resources.Audience(resources, f.Audience)
	if err != nil {
		return issuer.Grant{}, err
	}
	user, err = g.families.RequireUser(ctx, f, user)
	if err != nil {
		return issuer.Grant{}, err
	}
	// 5. The tokens. One step of the store repeats the checks of family and user atomically.
	now, redeemed := g.families.Now(), *f
	redeemed.Code.SpentAt, redeemed.Refresh.RotatedAt = now, now
	redeemed.ExpiresAt = now.Add(g.families.LifetimesOf(client).AuthorizationCode)
	if f.Code.Refreshable {
		redeemed.Refresh.Generation, redeemed.ExpiresAt = 1, f.CreatedAt.Add(g.families.LifetimesOf(client).Refresh)
	}
	grant := g.minter.GrantOf(&redeemed, client, user, issuer.Once(func() error { return g.redeem(ctx, &redeemed, user) }))
	grant.Nonce = f.Code.Nonce // a refreshed ID token has none (OpenID Connect Core §12.2)
	grant.Audience = audience
	return grant, nil
}

// redeem marks the code of a family as used. redeemed is the family afterwards.
func (g *codes) redeem(ctx context.Context, redeemed *store.TokenFamily, user *store.User) error {
	outcome, f, err := g.families.Store.RedeemCode(ctx, redeemed.ID, store.Redemption{
		At: redeemed.Code.SpentAt, Generation: redeemed.Refresh.Generation, ExpiresAt: redeemed.ExpiresAt, MaxFailures: maxCodeFailures,
	})
	if err == nil && outcome == store.Done {
		g.families.Remembered.Put(redeemed, user)
		return nil
	}
	g.families.Remembered.Forget(redeemed.ID)
	switch {
	case err != nil:
		return err
	case outcome == store.Replayed: // a concurrent request was first
		return g.replayed(ctx, f)
	}
	return codeRefused(outcome)
}

// Errors of checkCode that require a further step.
var (
	errCodeReplayed = errors.New("the code was redeemed before")
	// errVerifierWrong means that the verifier does not match the challenge, or that too many attempts have failed.
	errVerifierWrong = errors.New("the code verifier is wrong")
)

// checkCode checks a code against its family. f is nil if there is none.
func checkCode(f *store.TokenFamily, client *store.Client, p CodeParameters, now time.Time) error {
	outcome := f.Redeemable(now, maxCodeFailures)
	switch {
	case outcome == store.Missing:
		return codeRefused(outcome)
	case f.ClientID != client.ID, f.Origin == store.HostSession, f.Origin == oauth.DeviceCode: // the gate redeems the code of a host, and a device its own
		return oauth.NewError(oauth.InvalidGrant, "code_of_another_client")
	case outcome == store.Replayed:
		return errCodeReplayed
	case outcome != store.Done && outcome != store.TooManyFailures:
		return codeRefused(outcome)
	}
	return checkBinding(f.Code, p)
}

// codeRefused returns the error for a code whose family is not redeemable.
func codeRefused(outcome store.Outcome) error {
	reason := "code_expired"
	switch outcome {
	case store.Missing:
		reason = "code_unknown"
	case store.UserChanged:
		reason = "user_changed"
	}
	return oauth.NewError(oauth.InvalidGrant, reason)
}

// replayed ends the family of a code that was used twice (RFC 6749 §4.1.2).
func (g *codes) replayed(ctx context.Context, f *store.TokenFamily) error {
	if f.RevokedAt.IsZero() {
		if err := g.families.EndFamilies(ctx, store.FamilyFilter{ID: f.ID}); err != nil {
			return err
		}
	}
	return oauth.ErrCodeReplayed
}

// countWrongVerifier counts a failed attempt with a wrong code verifier.
func (g *authorizationCode) countWrongVerifier(ctx context.Context, f *store.TokenFamily) error {
	g.families.Remembered.Forget(f.ID) // the cached family has one failure less
	if err := g.families.Store.CountCodeFailure(ctx, f.ID); err != nil {
		return err
	}
	return oauth.NewError(oauth.InvalidGrant, "code_verifier_wrong")
}

// checkBinding checks a request against the code's binding. It compares the redirect URI byte for byte and verifies the code challenge.
func checkBinding(bound store.CodeBinding, p CodeParameters) error {
	switch {
	case p.RedirectURI == "" && bound.Challenge == "":
		return oauth.MissingParameter("redirect_uri")
	case p.RedirectURI != "" && p.RedirectURI != bound.RedirectURI:
		return oauth.NewError(oauth.InvalidGrant, "redirect_uri_wrong")
	case bound.Challenge == "" && !p.Verifier.IsEmpty():
		return oauth.NewError(oauth.InvalidGrant, "code_verifier_unasked")
	case bound.Challenge == "":
		return nil
	case p.Verifier.IsEmpty():
		return oauth.MissingParameter("code_verifier")
	}
	if bound.Failures < maxCodeFailures && oauth.VerifierMatches(p.Verifier, bound.Challenge) {
		return nil
	}
	return errVerifierWrong
}
