package caddymodule

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// BenchmarkTM1ClientRefusals shows what the time of a refusal tells about a client: unknown, wrong secret, disabled,
// public, and declared in the configuration should cost the same. Compare the medians of several runs (-count).
func BenchmarkTM1ClientRefusals(b *testing.B) {
	st, err := sqlstore.OpenSQLite(b.Context(), filepath.Join(b.TempDir(), "x.db"), sqlstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	secret := oauth.NewSecret("declared")
	declared, err := store.NewStaticDirectory(store.Declarations{Clients: []*store.Client{{
		ID: "declared", Type: store.ConfidentialClient, Grants: []oauth.GrantType{oauth.ClientCredentials},
		Secrets: []store.ClientSecret{{Digest: secret.Digest()}},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	issuer := &tokenissuer.Issuer{
		Records: tokenissuer.Records{
			Store:         st,
			Directory:     store.OverlayDirectory{Declared: declared, Stored: st},
			Authenticated: tokenissuer.NewClientCache(),
			Revocations:   accesstoken.NewRevocationSet(),
			Now:           time.Now,
		},
	}
	registry := &tokenissuer.Registry{Issuer: issuer, Declared: declared, Stored: st}
	add := func(client store.Client) {
		if _, _, err := registry.AddClient(b.Context(), client); err != nil {
			b.Fatal(err)
		}
	}
	add(store.Client{ID: "present1"})
	add(store.Client{ID: "disabled"})
	add(store.Client{ID: "public01", Type: store.PublicClient, RedirectURIs: []string{"https://public.example/cb"}})
	if err := registry.DisableClient(b.Context(), "disabled"); err != nil {
		b.Fatal(err)
	}
	for _, refusal := range []struct{ name, id string }{
		{"unknown", "nobody00"}, {"wrong secret", "present1"}, {"disabled", "disabled"}, {"public", "public01"}, {"declared", "declared"},
	} {
		b.Run(refusal.name, func(b *testing.B) {
			wrong := tokenissuer.ClientAuthentication{
				Address:  "192.0.2.1",
				Readings: []tokenissuer.ClientCredential{{ID: refusal.id, Secret: oauth.NewSecret("0123456789abcdefghijABCDEFGHIJ0123456789abc")}},
			}
			for b.Loop() {
				if _, err := issuer.AuthenticateClient(b.Context(), wrong); err == nil {
					b.Fatal("a wrong secret was accepted")
				}
			}
		})
	}
}
