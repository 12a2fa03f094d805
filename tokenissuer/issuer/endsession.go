package issuer

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// SignOuts reads applications' requests to sign a user out.
type SignOuts struct {
	Families *families.Families
	// URL is the issuer. Keys verify an id_token_hint.
	URL  string
	Keys *keys.Set
}

// SignOutParameters are the parameters of a sign-out request (OpenID Connect RP-Initiated Logout §2).
type SignOutParameters struct {
	IDTokenHint           string
	ClientID              string
	PostLogoutRedirectURI string
	// State is returned byte for byte.
	State string
}

// SignOutRequest is a validated sign-out request. The zero value comes from an unknown application and has no ReturnTo.
type SignOutRequest struct {
	// Client is the application that the ID token proves. It is nil if unknown.
	Client *store.Client
	// ReturnTo is where the browser goes afterwards: a registered URI of the client, with the state. It is empty if the browser stays.
	ReturnTo string
	// Proven reports that the ID token belongs to this browser's session and that ReturnTo is set. The user then need not be asked.
	Proven bool
	// Refusal is why Client or ReturnTo is missing. It is nil if nothing was refused.
	Refusal error
}

// ReadSignOut checks a sign-out request. sessionID is the browser's session, or empty without one. An invalid request is not an error: the
// user is asked, and the browser stays here. The only error is temporarily_unavailable.
func (so *SignOuts) ReadSignOut(ctx context.Context, p SignOutParameters, sessionID string) (SignOutRequest, error) {
	refused := func(r SignOutRequest, reason, sentence string) (SignOutRequest, error) {
		r.Refusal = oauth.NewError(oauth.InvalidRequest, reason).WithDescription(sentence)
		return r, nil
	}
	var r SignOutRequest
	// 1. The application. A client_id alone proves nothing, because anyone can put it in a link.
	if p.IDTokenHint == "" {
		if p.PostLogoutRedirectURI == "" {
			return r, nil
		}
		return refused(r, "id_token_hint_missing", "A post_logout_redirect_uri needs an id_token_hint.")
	}
	hint, err := token.ReadHint(p.IDTokenHint, so.URL, so.Keys)
	switch {
	case err != nil && oauth.AsError(err).Code != oauth.InvalidRequest:
		return r, err
	case err != nil:
		return refused(r, oauth.AsError(err).Reason, "The id_token_hint is not an ID token of this server.")
	case p.ClientID != "" && p.ClientID != hint.ClientID:
		return refused(r, "id_token_hint_of_another_client", "The id_token_hint was not issued to the client_id.")
	}
	client, err := so.Families.Directory.Client(ctx, hint.ClientID)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && client.Disabled:
		return refused(r, "client_unknown", "The client is unknown.")
	case err != nil:
		return r, err
	}
	r.Client = client
	// 2. Where the browser goes, compared byte for byte (§3).
	if p.PostLogoutRedirectURI == "" {
		return r, nil
	}
	if !slices.Contains(client.PostLogoutRedirectURIs, p.PostLogoutRedirectURI) {
		return refused(r, "post_logout_redirect_uri_unregistered", "The post_logout_redirect_uri is not one that is registered for the client.")
	}
	r.ReturnTo = p.PostLogoutRedirectURI
	if p.State != "" {
		r.ReturnTo = WithQuery(r.ReturnTo, RedirectParameter{Name: "state", Value: p.State})
	}
	// 3. Whether the ID token belongs to this browser's session.
	r.Proven = sessionID != "" && hint.SessionID == sessionID
	return r, nil
}

// ReturnOrigin returns the origin of ReturnTo, for a content security policy. See OriginOf.
func (r SignOutRequest) ReturnOrigin() string { return OriginOf(r.ReturnTo) }

// ReturnsToWeb reports whether ReturnTo is a web page rather than a native application.
func (r SignOutRequest) ReturnsToWeb() bool { return IsWebURL(r.ReturnTo) }
