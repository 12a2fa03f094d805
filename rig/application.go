//go:build linux

package rig

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
)

// Application is a client that talks to the issuer at a URL, which is a node's or a balancer's. Each of its methods sends one request.
type Application struct{ URL, ID string }

// Request is an authorization request. Each may be used once.
type Request struct {
	Application
	State, verifier string
}

// Ask creates an authorization request with its own code_challenge.
func (a Application) Ask() Request {
	return Request{Application: a, State: rand.Text(), verifier: rand.Text() + rand.Text()}
}

// Address returns the URL to which the application sends a browser with the request.
func (r Request) Address() string {
	digest := sha256.Sum256([]byte(r.verifier))
	return r.URL + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {r.ID}, "redirect_uri": {Callback}, "scope": {"trusted public"}, "state": {r.State},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(digest[:])}, "code_challenge_method": {"S256"},
	}.Encode()
}

// Redeem redeems the code that answered the request.
func (r Request) Redeem(ctx context.Context, code string) Answer {
	return r.post(ctx, "/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {Callback}, "code_verifier": {r.verifier},
	})
}

// Refresh uses a refresh token.
func (a Application) Refresh(ctx context.Context, token string) Answer {
	return a.post(ctx, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// Revoke revokes a token's family.
func (a Application) Revoke(ctx context.Context, token string) Answer {
	return a.post(ctx, "/oauth/revoke", url.Values{"token": {token}})
}

// ForItself requests a token that acts for the client alone.
func (a Application) ForItself(ctx context.Context) Answer {
	return a.post(ctx, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
}

// post sends a form with the client's authentication.
func (a Application) post(ctx context.Context, path string, form url.Values) Answer {
	form.Set("client_id", a.ID)
	if a.ID != Device {
		form.Set("client_secret", Secret(a.ID))
	}
	return Send(ctx, http.MethodPost, a.URL+path, form.Encode(), "Content-Type", formType)
}

// Use sends an access token to the gate.
func (a Application) Use(ctx context.Context, token string) Answer {
	return Send(ctx, http.MethodGet, a.URL+"/api/orders", "", "Authorization", "Bearer "+token)
}

// CreateToken requests a token for a member of the organisation, with the access token of an admin.
func (a Application) CreateToken(ctx context.Context, admin, member string) Answer {
	const jsonAPI = "application/vnd.api+json"
	return Send(ctx, http.MethodPost, a.URL+"/api/v1/organisations/me/users/"+member+"/access_tokens",
		`{"data":{"id":"`+member+`","type":"users"}}`,
		"Authorization", "Bearer "+admin, "Content-Type", jsonAPI, "Accept", jsonAPI)
}
