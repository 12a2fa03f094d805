package tokenissuer

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// maxCodeFailures is how many wrong code verifiers a code survives.
const maxCodeFailures = 5

// exchangeAuthorizationCode redeems an authorization code (RFC 6749 §4.1.3, RFC 7636 §4.6). The order is a safeguard:
// nothing is said to another client, and a replay is a replay whatever else the request says.
func (is *Issuer) exchangeAuthorizationCode(ctx context.Context, client *store.Client, r TokenRequest) (Grant, error) {
	// 1. The parameters.
	if r.Code.IsEmpty() {
		return Grant{}, oauth.MissingParameter("code")
	}
	// 2. The family. What is remembered of it is enough for a code that is good; for any other, ours or not, the store is asked.
	id, genuine := is.Master.ReadCode(r.Code)
	now := is.Now()
	f, user := is.remembered(id, genuine)
	refusal := checkCode(f, client, r, now)
	if refusal != nil {
		var err error
		if f, err = is.storedFamily(ctx, id, genuine); err != nil {
			return Grant{}, err
		}
		user, refusal = nil, checkCode(f, client, r, now)
	}
	// 3. The code is this client's, lives, and comes back from where it was sent, by whom it was asked for.
	switch {
	case errors.Is(refusal, errCodeReplayed):
		return Grant{}, is.replayed(ctx, f)
	case errors.Is(refusal, errVerifierWrong):
		return Grant{}, is.countWrongVerifier(ctx, f)
	case refusal != nil:
		return Grant{}, refusal
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
	// 5. The tokens, on ONE step of the store. It asks again, atomically, what was asked of the family and its user.
	redeemed := *f
	redeemed.Code.SpentAt, redeemed.RotatedAt = now, now
	redeemed.ExpiresAt = now.Add(is.lifetimes(client).AuthorizationCode)
	if f.Code.Refreshable {
		redeemed.Generation, redeemed.ExpiresAt = 1, f.CreatedAt.Add(is.lifetimes(client).Refresh)
	}
	grant := is.grantOf(&redeemed, client, user, func() error { return is.redeem(ctx, &redeemed, user) })
	grant.nonce = f.Code.Nonce // a refresh has none (OpenID Connect Core §12.2)
	grant.Audience = audience
	return grant, nil
}

// redeem spends the code of a family, which is then as given.
func (k *Records) redeem(ctx context.Context, redeemed *store.TokenFamily, user *store.User) error {
	outcome, f, err := k.Store.RedeemCode(ctx, redeemed.ID, store.Redemption{
		At: redeemed.Code.SpentAt, Generation: redeemed.Generation, ExpiresAt: redeemed.ExpiresAt, MaxFailures: maxCodeFailures,
	})
	if err == nil && outcome == store.Done {
		k.Families.Put(redeemed, user)
		return nil
	}
	k.Families.Forget(redeemed.ID)
	switch {
	case err != nil:
		return err
	case outcome == store.Replayed: // a request beside this one was first
		return k.replayed(ctx, f)
	}
	return codeRefused(outcome)
}

// What checkCode says of a code that leads to a further step.
var (
	errCodeReplayed = errors.New("the code was redeemed before")
	// errVerifierWrong: the verifier is not the one of the challenge, or there were too many others before.
	errVerifierWrong = errors.New("the code verifier is wrong")
)

// checkCode holds a code against the family that it is of; nil: there is none.
func checkCode(f *store.TokenFamily, client *store.Client, r TokenRequest, now time.Time) error {
	outcome := f.Redeemable(now, maxCodeFailures)
	switch {
	case outcome == store.Missing:
		return codeRefused(outcome)
	case f.ClientID != client.ID, f.Origin == store.HostSession: // the latter's is redeemed by the gate alone
		return oauth.NewError(oauth.InvalidGrant, "code_of_another_client")
	case outcome == store.Replayed:
		return errCodeReplayed
	case outcome != store.Done && outcome != store.TooManyFailures:
		return codeRefused(outcome)
	}
	return checkBinding(f.Code, r)
}

// codeRefused is the refusal of a code for what its family is.
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
func (k *Records) replayed(ctx context.Context, f *store.TokenFamily) error {
	if f.RevokedAt.IsZero() {
		if err := k.EndFamilies(ctx, store.FamilyFilter{ID: f.ID}); err != nil {
			return err
		}
	}
	return oauth.ErrCodeReplayed
}

// countWrongVerifier counts a wrong verifier of a code.
func (k *Records) countWrongVerifier(ctx context.Context, f *store.TokenFamily) error {
	k.Families.Forget(f.ID) // with fewer failures than it has now
	if err := k.Store.CountCodeFailure(ctx, f.ID); err != nil {
		return err
	}
	return oauth.NewError(oauth.InvalidGrant, "code_verifier_wrong")
}

// checkBinding holds the request against the binding: the redirect URI byte for byte, and the code challenge.
func checkBinding(bound store.CodeBinding, r TokenRequest) error {
	switch {
	case r.RedirectURI == "" && bound.Challenge == "":
		return oauth.MissingParameter("redirect_uri")
	case r.RedirectURI != "" && r.RedirectURI != bound.RedirectURI:
		return oauth.NewError(oauth.InvalidGrant, "redirect_uri_wrong")
	case bound.Challenge == "" && !r.CodeVerifier.IsEmpty():
		return oauth.NewError(oauth.InvalidGrant, "code_verifier_unasked")
	case bound.Challenge == "":
		return nil
	case r.CodeVerifier.IsEmpty():
		return oauth.MissingParameter("code_verifier")
	}
	if bound.Failures < maxCodeFailures && oauth.VerifierMatches(r.CodeVerifier, bound.Challenge) {
		return nil
	}
	return errVerifierWrong
}
