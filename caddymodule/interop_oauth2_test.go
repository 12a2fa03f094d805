package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// These tests run golang.org/x/oauth2, the client that Go programs use, to get tokens for people.

// oauth2Config returns the configuration of a client of the site people.
func (g *gatehouse) oauth2Config(clientID string, style oauth2.AuthStyle) *oauth2.Config {
	r := requestOf(clientID)
	return &oauth2.Config{
		ClientID: r.clientID, ClientSecret: r.secret, RedirectURL: r.redirectURI, Scopes: []string{"public", "trusted"},
		Endpoint: oauth2.Endpoint{AuthURL: g.url + "/oauth/authorize", TokenURL: g.url + "/oauth/token", AuthStyle: style},
	}
}

// walkTo signs a person in at the URL that the library made, and returns the answer's parameters.
func (g *gatehouse) walkTo(authCodeURL string) url.Values {
	g.t.Helper()
	u, err := url.Parse(authCodeURL)
	if err != nil || !strings.HasPrefix(authCodeURL, g.url+"/oauth/authorize?") {
		g.t.Fatalf("%s: %v", authCodeURL, err)
	}
	return g.browser().authorize(request{more: u.Query()}, "ada@acme.example").location().Query()
}

// oauth2Token runs the whole flow.
func (g *gatehouse) oauth2Token(config *oauth2.Config) *oauth2.Token {
	g.t.Helper()
	verifier := oauth2.GenerateVerifier()
	answer := g.walkTo(config.AuthCodeURL("here & there", oauth2.S256ChallengeOption(verifier)))
	if answer.Get("state") != "here & there" || answer.Get("iss") != g.url {
		g.t.Fatalf("answer %v", answer)
	}
	token, err := config.Exchange(g.t.Context(), answer.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		g.t.Fatal(err)
	}
	return token
}

// expire returns a copy that the library considers expired.
func expire(token *oauth2.Token) *oauth2.Token {
	expired := *token
	expired.Expiry = time.Now().Add(-time.Minute)
	return &expired
}

var oauth2Styles = map[string]oauth2.AuthStyle{
	"header": oauth2.AuthStyleInHeader, "params": oauth2.AuthStyleInParams, "auto": oauth2.AuthStyleAutoDetect,
}

func TestInteropGoOAuth2Code(t *testing.T) {
	g := startPeople(t)
	for styleName, style := range oauth2Styles {
		for _, client := range []string{"conf", "pub"} {
			t.Run(styleName+" "+client, func(t *testing.T) {
				config := g.oauth2Config(client, style)
				token := g.oauth2Token(config)
				if token.Type() != "Bearer" || token.Extra("scope") != "public trusted" || token.ExpiresIn != 21600 || !token.Valid() {
					t.Errorf("type %q, scope %v, expires in %d, valid %t", token.Type(), token.Extra("scope"), token.ExpiresIn, token.Valid())
				}
				if at, ok := token.Extra("created_at").(float64); !ok || time.Since(time.Unix(int64(at), 0)) > time.Minute {
					t.Errorf("created at %v", token.Extra("created_at"))
				}
				// The library refreshes when a call uses an expired token.
				source := config.TokenSource(t.Context(), expire(token))
				response, err := oauth2.NewClient(t.Context(), source).Get(g.url + "/api/x")
				check(t, err)
				_ = response.Body.Close()
				if subject := g.upstream.one(t).Header.Get("X-Auth-Subject"); subject != "u-ada" {
					t.Errorf("status %d, the upstream was told %q", response.StatusCode, subject)
				}
				next, err := source.Token()
				if err != nil || next.RefreshToken == token.RefreshToken || next.AccessToken == token.AccessToken {
					t.Errorf("the tokens did not change: %v", err)
				}
			})
		}
		config := g.oauth2Config("conf", style)
		token, err := config.PasswordCredentialsToken(t.Context(), "ada@acme.example", peoplePassword)
		check(t, err)
		if token.ExpiresIn != 2419200 || token.RefreshToken != "" || !g.alive(token.AccessToken) {
			t.Errorf("by password: expires in %d, refresh token %t", token.ExpiresIn, token.RefreshToken != "")
		}
		g.upstream.seen()
		_, err = config.PasswordCredentialsToken(t.Context(), "ada@acme.example", "wrong password")
		wantRetrieveError(t, err, http.StatusBadRequest, "invalid_grant")
	}
}

// wantRetrieveError compares the library's error with the contract.
func wantRetrieveError(t *testing.T, err error, status int, code string) {
	t.Helper()
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		t.Fatalf("%T %v", err, err)
	}
	if refused.Response.StatusCode != status || refused.ErrorCode != code || refused.ErrorDescription != contract[code] || refused.ErrorURI != "" {
		t.Errorf("%d %s: %q, want %d %s", refused.Response.StatusCode, refused.ErrorCode, refused.ErrorDescription, status, code)
	}
}

// TestInteropGoOIDCKeySet: a resource server in Go verifies the signature of a user token by the published keys alone.
func TestInteropGoOIDCKeySet(t *testing.T) {
	g := startPeople(t)
	token := g.oauth2Token(g.oauth2Config("conf", oauth2.AuthStyleInHeader)).AccessToken
	keys := oidc.NewRemoteKeySet(context.Background(), g.url+"/oauth/jwks")
	payload, err := keys.VerifySignature(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if got := member(t, string(payload), "sub"); got != "u-ada" {
		t.Errorf("subject %q", got)
	}
	head, signature := token[:strings.LastIndex(token, ".")+1], token[strings.LastIndex(token, ".")+1:]
	other := g.oauth2Token(g.oauth2Config("pub", oauth2.AuthStyleInParams)).AccessToken
	if _, err := keys.VerifySignature(t.Context(), other[:strings.LastIndex(other, ".")+1]+signature); err == nil {
		t.Errorf("the signature of %s… counts for another token", head[:10])
	}
}
