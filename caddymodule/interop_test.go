package caddymodule

import (
	"net/http"
	"testing"
	"time"

	"golang.org/x/oauth2/clientcredentials"
)

// Third-party clients get tokens and call through the gate.

func TestInteropGoOAuth2(t *testing.T) {
	d := openDoor(t, patient)
	for styleName, style := range oauth2Styles {
		config := func(id, secret, scope string) *clientcredentials.Config {
			return &clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: d.url + "/oauth/token", AuthStyle: style, Scopes: []string{scope}}
		}
		// The library form-encodes id and secret in the header, which changes those of the second client.
		for id, secret := range map[string]string{"conf": confSecret, "co:lon %+&é id": "se:cret %+&é 50% ="} {
			t.Run(styleName+" "+id, func(t *testing.T) {
				token, err := config(id, secret, "public").Token(t.Context())
				check(t, err)
				if token.Type() != "Bearer" || token.RefreshToken != "" || token.Extra("scope") != "public" || !token.Valid() {
					t.Errorf("token of type %q, scope %v, valid %t", token.Type(), token.Extra("scope"), token.Valid())
				}
				if left := time.Until(token.Expiry); left < 119*time.Minute || left > 2*time.Hour {
					t.Errorf("it lives %s", left)
				}
				response, err := config(id, secret, "public").Client(t.Context()).Get(d.url + "/any/x")
				check(t, err)
				_ = response.Body.Close()
				if subject := d.upstream.one(t).Header.Get("X-Auth-Subject"); response.StatusCode != http.StatusOK || subject != id && id == "conf" {
					t.Errorf("the gate: %d, the upstream was told %q", response.StatusCode, subject)
				}
			})
		}
		for _, test := range []struct {
			id, secret, scope, code string
			status                  int
		}{
			{"conf", "wrong", "public", "invalid_client", 401}, {"conf", confSecret, "nonsense", "invalid_scope", 400},
			{"legacy", "legacy-" + confSecret, "public", "unauthorized_client", 400}, {"pub", "x", "public", "invalid_client", 401},
		} {
			_, err := config(test.id, test.secret, test.scope).Token(t.Context())
			wantRetrieveError(t, err, test.status, test.code)
		}
	}
}
