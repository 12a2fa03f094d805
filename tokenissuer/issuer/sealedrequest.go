package issuer

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// requestUnderSeal is a request with the digest of the browser's secret. Its time is a number, so the length of the sealed value reveals
// nothing.
type requestUnderSeal struct {
	AuthorizationRequest
	AtMicros int64  `json:"at"`
	Browser  string `json:"browser"`
}

// SealRequest seals a request for the browser that owns the secret. Every node can open it, for ten minutes. SealRequest sets the ID of a
// request that has none.
func (az *Authorizations) SealRequest(r *AuthorizationRequest, browser oauth.Secret) (oauth.Secret, error) {
	if r.ID == "" {
		r.ID = oauth.NewID()
	}
	return keys.Wrap(az.Families.Master.Requests, "", requestUnderSeal{*r, r.At.UnixMicro(), signin.BrowserDigest(browser)}, az.Families.Now())
}

// OpenRequest is the reverse of SealRequest. It checks the client and its redirect URI again, because they may have been removed meanwhile.
// It fails, with an error for a page, if the value is forged, expired, or sealed for another browser.
func (az *Authorizations) OpenRequest(ctx context.Context, pending, browser oauth.Secret) (AuthorizationRequest, *store.Client, RedirectTarget, error) {
	s, err := keys.Unwrap[requestUnderSeal](az.Families.Master.Requests, "", pending, az.Families.Now())
	if err != nil || !signin.IsOfBrowser(s.Browser, browser) {
		return AuthorizationRequest{}, nil, RedirectTarget{}, keys.ErrUnwrapped
	}
	s.At = time.UnixMicro(s.AtMicros)
	return az.resolve(ctx, s.AuthorizationRequest)
}

// ReopenRequest is like OpenRequest for any browser. It returns an undecided request with the current time, equivalent to a link with the
// same parameters. The request of a device has lost its device by that.
func (az *Authorizations) ReopenRequest(ctx context.Context, pending oauth.Secret) (AuthorizationRequest, *store.Client, RedirectTarget, error) {
	s, err := keys.Unwrap[requestUnderSeal](az.Families.Master.Requests, "", pending, az.Families.Now())
	if err != nil {
		return AuthorizationRequest{}, nil, RedirectTarget{}, keys.ErrUnwrapped
	}
	s.ID, s.At = "", az.Families.Now().Truncate(time.Microsecond)
	return az.resolve(ctx, s.AuthorizationRequest)
}

// resolve returns a request with its client and the target of its answer.
func (az *Authorizations) resolve(ctx context.Context, r AuthorizationRequest) (AuthorizationRequest, *store.Client, RedirectTarget, error) {
	if r.Device != nil {
		client, err := az.deviceClient(ctx, r.ClientID)
		return r, client, RedirectTarget{}, err
	}
	client, target, err := az.ResolveRedirect(ctx, r.ClientID, r.RedirectURI, "")
	target = target.WithState(r.State)
	if r.FormPost {
		target = target.WithResponseMode(FormPostMode)
	}
	return r, client, target, err
}
