package tokenissuer

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/redirect"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// SignOutParameters are what an application says when it asks to sign the user out (OpenID Connect RP-Initiated Logout §2).
type SignOutParameters struct {
	IDTokenHint           string
	ClientID              string
	PostLogoutRedirectURI string
	// State comes back byte for byte.
	State string
}

// SignOutRequest is what such a request comes to. The zero value is one of nobody known, after which the browser stays here.
type SignOutRequest struct {
	// Client is the application that asks, as its ID token proves; nil: unknown.
	Client *store.Client
	// ReturnTo is where the browser goes afterwards: a registered URI of the client, with the state. Empty: nowhere.
	ReturnTo string
	// Proven: the ID token is of this browser's session, and there is somewhere to return to, so that the user need not be asked.
	Proven bool
	// Refusal is why the browser does not go where the request has asked for, or why the client is not known; nil: nothing is.
	Refusal error
}

// ReadSignOut holds a request to sign out in the browser of a session against the rules; sessionID is empty where there is none. Nothing
// that is wrong with it is an error: then the user is asked, and the browser stays here. The error is temporarily_unavailable.
func (is *Issuer) ReadSignOut(ctx context.Context, p SignOutParameters, sessionID string) (SignOutRequest, error) {
	refused := func(r SignOutRequest, reason, sentence string) (SignOutRequest, error) {
		r.Refusal = oauth.NewError(oauth.InvalidRequest, reason).WithDescription(sentence)
		return r, nil
	}
	var r SignOutRequest
	// 1. The application that asks. A client_id alone proves nothing: anybody can write it into a link.
	if p.IDTokenHint == "" {
		if p.PostLogoutRedirectURI == "" {
			return r, nil
		}
		return refused(r, "id_token_hint_missing", "A post_logout_redirect_uri needs an id_token_hint.")
	}
	hint, err := token.ReadHint(p.IDTokenHint, is.URL, is.Keys)
	switch {
	case err != nil && oauth.AsError(err).Code != oauth.InvalidRequest:
		return r, err
	case err != nil:
		return refused(r, oauth.AsError(err).Reason, "The id_token_hint is not an ID token of this server.")
	case p.ClientID != "" && p.ClientID != hint.ClientID:
		return refused(r, "id_token_hint_of_another_client", "The id_token_hint was not issued to the client_id.")
	}
	client, err := is.Directory.Client(ctx, hint.ClientID)
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
		r.ReturnTo = redirect.WithQuery(r.ReturnTo, redirect.Parameter{Name: "state", Value: p.State})
	}
	// 3. Whether it is this browser's session that the application knows.
	r.Proven = sessionID != "" && hint.SessionID == sessionID
	return r, nil
}

// ReturnOrigin is what a content security policy calls where the browser goes; see redirect.OriginOf.
func (r SignOutRequest) ReturnOrigin() string { return redirect.OriginOf(r.ReturnTo) }

// ReturnsToWeb reports whether the browser goes to a page of the web, and not to a native application.
func (r SignOutRequest) ReturnsToWeb() bool { return redirect.IsWebURL(r.ReturnTo) }
