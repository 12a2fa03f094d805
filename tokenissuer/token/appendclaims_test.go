package token

import (
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func TestClaimsWithAnActorThatCannotBeWritten(t *testing.T) {
	good := AccessToken{
		Issuer: tokentest.Issuer, Subject: "u", Audience: []string{tokentest.Issuer}, ClientID: "c", ID: "j",
		IssuedAt: tokentest.Start, ExpiresAt: tokentest.Start, Actors: []store.Actor{{Subject: "a", ClientID: "c"}},
	}
	for name, edit := range map[string]func(*AccessToken){
		"role before the actor": func(t *AccessToken) { t.Role = "\xff" },
		"actor":                 func(t *AccessToken) { t.Actors = []store.Actor{{Subject: "\xff"}} },
		"actor's client":        func(t *AccessToken) { t.Actors = []store.Actor{{Subject: "a", ClientID: "\xff"}} },
		"audience":              func(t *AccessToken) { t.Audience = []string{"a", "\xff"} },
	} {
		broken := good
		edit(&broken)
		if written, err := AppendClaims(nil, &broken); err == nil {
			t.Errorf("%s: %s", name, written)
		}
	}
}
