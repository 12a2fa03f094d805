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
	if r.Code.IsEmpty() {
		return Grant{}, oauth.MissingParameter("code")
	}
	// 1. The code is ours, and this client's. What is remembered of its family is enough for a code that is good; for any
	// other, ours or not, the store is asked.
	id, genuine := is.Master.ReadCode(r.Code)
	if genuine {
		if f, user := is.remembered(id); f != nil && redeemable(f, client, r, is.Now()) {
			return is.redemption(ctx, f, client, user), nil
		}
	}
	f, err := is.Store.Family(ctx, id)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return Grant{}, oauth.Unavailable("store_unavailable", err)
	case err != nil || !genuine || f.Code.ExpiresAt.IsZero():
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "code_unknown")
	case f.ClientID != client.ID:
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "code_of_another_client")
	}
	// 2. It was not used before. If it was, somebody has stolen it, or what it gave.
	if !f.Code.SpentAt.IsZero() {
		return Grant{}, is.replayed(ctx, f)
	}
	// 3. It is alive.
	now := is.Now()
	if !f.RevokedAt.IsZero() || now.After(f.Code.ExpiresAt) {
		return Grant{}, oauth.NewError(oauth.InvalidGrant, "code_expired")
	}
	// 4. It comes back from where it was sent, by whom it was asked for.
	if err := is.checkBinding(ctx, f, r); err != nil {
		return Grant{}, err
	}
	// 5. Its user still is who they were.
	user, err := is.standingUser(ctx, f, nil)
	if err != nil {
		return Grant{}, err
	}
	return is.redemption(ctx, f, client, user), nil
}

// redeemable reports whether the request would redeem the family's code, were the family as it is here: what
// exchangeAuthorizationCode asks for, without a word about what is missing.
func redeemable(f *store.TokenFamily, client *store.Client, r TokenRequest, now time.Time) bool {
	return f.ClientID == client.ID && !f.Code.ExpiresAt.IsZero() && f.Code.SpentAt.IsZero() && f.RevokedAt.IsZero() &&
		!now.After(f.Code.ExpiresAt) && checkBinding(f.Code, r) == nil
}

// redemption is the grant of a code that may be redeemed.
func (is *Issuer) redemption(ctx context.Context, f *store.TokenFamily, client *store.Client, user *store.User) Grant {
	now := is.Now()
	lifetimes := is.lifetimes(client)
	redeemed := *f
	redeemed.Code.SpentAt, redeemed.RotatedAt = asStored(now), asStored(now)
	redeemed.ExpiresAt = now.Add(lifetimes.AuthorizationCode)
	if f.Code.Refreshable {
		redeemed.Generation, redeemed.ExpiresAt = 1, f.CreatedAt.Add(lifetimes.Refresh)
	}
	return is.grantOf(&redeemed, client, user, func() error {
		err := is.Store.RedeemCode(ctx, f.ID, redeemed.Generation, now, redeemed.ExpiresAt, maxCodeFailures)
		if err == nil {
			is.Families.put(&redeemed, user)
			return nil
		}
		is.Families.forget(f.ID)
		if errors.Is(err, store.ErrSpent) {
			return is.lostCode(ctx, f.ID)
		}
		return oauth.Unavailable("store_unavailable", err)
	})
}

// lostCode says why a code could not be redeemed: a request beside this one did it, which is a replay as well, or it was
// ended.
func (is *Issuer) lostCode(ctx context.Context, id string) error {
	f, err := is.family(ctx, id)
	switch {
	case err != nil:
		return err
	case f != nil && !f.Code.SpentAt.IsZero():
		return is.replayed(ctx, f)
	}
	return oauth.NewError(oauth.InvalidGrant, "code_expired")
}

// replayed ends the family of a code that was used twice (RFC 6749 §4.1.2).
func (is *Issuer) replayed(ctx context.Context, f *store.TokenFamily) error {
	if f.RevokedAt.IsZero() {
		if err := is.endFamilies(ctx, store.FamilyFilter{ID: f.ID}); err != nil {
			return err
		}
	}
	return oauth.NewError(oauth.InvalidGrant, oauth.ReasonCodeReplayed)
}

// checkBinding holds the request against what the code is bound to, and counts a wrong verifier.
func (is *Issuer) checkBinding(ctx context.Context, f *store.TokenFamily, r TokenRequest) error {
	err := checkBinding(f.Code, r)
	if !errors.Is(err, errVerifierWrong) {
		return err
	}
	is.Families.forget(f.ID) // with fewer failures than it has now
	if err := is.Store.CountCodeFailure(ctx, f.ID); err != nil {
		return oauth.Unavailable("store_unavailable", err)
	}
	return oauth.NewError(oauth.InvalidGrant, "code_verifier_wrong")
}

// errVerifierWrong: the verifier is not the one of the challenge, or there were too many others before.
var errVerifierWrong = errors.New("the code verifier is wrong")

// check holds the request against the binding: the redirect URI byte for byte, and the code challenge.
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
