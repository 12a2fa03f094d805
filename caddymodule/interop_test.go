package caddymodule

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// Third-party clients get tokens and call through the gate.

func TestInteropGoOAuth2(t *testing.T) {
	d := openDoor(t, patient)
	// The library form-encodes id and secret in the header, which changes those of the second client.
	clients := map[string]string{"conf": confSecret, "co:lon %+&é id": "se:cret %+&é 50% ="}
	styles := map[string]oauth2.AuthStyle{
		"header": oauth2.AuthStyleInHeader, "params": oauth2.AuthStyleInParams, "auto": oauth2.AuthStyleAutoDetect,
	}
	for styleName, style := range styles {
		for id, secret := range clients {
			t.Run(styleName+" "+id, func(t *testing.T) {
				config := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: d.url + "/oauth/token", AuthStyle: style, Scopes: []string{"public"}}
				token, err := config.Token(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if token.Type() != "Bearer" || token.RefreshToken != "" || token.Extra("scope") != "public" || !token.Valid() {
					t.Errorf("token of type %q, scope %v, valid %t", token.Type(), token.Extra("scope"), token.Valid())
				}
				if left := time.Until(token.Expiry); left < 119*time.Minute || left > 2*time.Hour {
					t.Errorf("it lives %s", left)
				}
				response, err := config.Client(t.Context()).Get(d.url + "/any/x")
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("the gate: %d", response.StatusCode)
				}
				if subject := d.upstream.one(t).Header.Get("X-Auth-Subject"); subject != id && id == "conf" {
					t.Errorf("the upstream was told %q", subject)
				}
			})
		}
		for name, test := range map[string]struct {
			id, secret, scope, code string
			status                  int
		}{
			"wrong secret":       {"conf", "wrong", "public", "invalid_client", 401},
			"unknown client":     {"nobody", "x", "public", "invalid_client", 401},
			"unknown scope":      {"conf", confSecret, "nonsense", "invalid_scope", 400},
			"scope not allowed":  {"conf", confSecret, "trusted", "invalid_scope", 400},
			"grant not allowed":  {"legacy", "legacy-" + confSecret, "public", "unauthorized_client", 400},
			"public with secret": {"pub", "x", "public", "invalid_client", 401},
		} {
			t.Run(styleName+" "+name, func(t *testing.T) {
				config := clientcredentials.Config{ClientID: test.id, ClientSecret: test.secret, TokenURL: d.url + "/oauth/token", AuthStyle: style, Scopes: []string{test.scope}}
				_, err := config.Token(t.Context())
				var refused *oauth2.RetrieveError
				if !errors.As(err, &refused) {
					t.Fatalf("%T %v", err, err)
				}
				if refused.ErrorCode != test.code || refused.ErrorDescription != contract[test.code] || refused.Response.StatusCode != test.status {
					t.Errorf("%s: %q, status %d", refused.ErrorCode, refused.ErrorDescription, refused.Response.StatusCode)
				}
			})
		}
	}
}
