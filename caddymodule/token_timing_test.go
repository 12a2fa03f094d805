package caddymodule

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// BenchmarkTM1ClientRefusals shows what the time of a refusal tells about a client: unknown, wrong secret, disabled,
// public, and declared in the configuration should cost the same. Compare the medians of several runs (-count).
func BenchmarkTM1ClientRefusals(b *testing.B) {
	store, err := sqlstore.OpenSQLite(b.Context(), filepath.Join(b.TempDir(), "x.db"), sqlstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	secret := tokenissuer.NewSecret("declared")
	declared, err := tokenissuer.NewStaticDirectory(tokenissuer.Declarations{Clients: []*tokenissuer.Client{{
		ID: "declared", Type: tokenissuer.ConfidentialClient, Grants: []tokenissuer.GrantType{tokenissuer.ClientCredentials},
		Secrets: []tokenissuer.ClientSecret{{Digest: secret.Digest()}},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	issuer := &tokenissuer.Issuer{
		Store: store, Directory: tokenissuer.OverlayDirectory{Declared: declared, Stored: store},
		Authenticated: tokenissuer.NewClientCache(), Revocations: tokenissuer.NewRevocationSet(), Now: time.Now,
	}
	registry := &tokenissuer.Registry{Issuer: issuer, Declared: declared, Stored: store}
	add := func(client tokenissuer.Client) {
		if _, _, err := registry.AddClient(b.Context(), client); err != nil {
			b.Fatal(err)
		}
	}
	add(tokenissuer.Client{ID: "present1"})
	add(tokenissuer.Client{ID: "disabled"})
	add(tokenissuer.Client{ID: "public01", Type: tokenissuer.PublicClient, RedirectURIs: []string{"https://public.example/cb"}})
	if err := registry.DisableClient(b.Context(), "disabled"); err != nil {
		b.Fatal(err)
	}
	for _, refusal := range []struct{ name, id string }{
		{"unknown", "nobody00"}, {"wrong secret", "present1"}, {"disabled", "disabled"}, {"public", "public01"}, {"declared", "declared"},
	} {
		b.Run(refusal.name, func(b *testing.B) {
			wrong := tokenissuer.ClientAuthentication{
				Address:  "192.0.2.1",
				Readings: []tokenissuer.ClientCredential{{ID: refusal.id, Secret: tokenissuer.NewSecret("0123456789abcdefghijABCDEFGHIJ0123456789abc")}},
			}
			for b.Loop() {
				if _, err := issuer.AuthenticateClient(b.Context(), wrong); err == nil {
					b.Fatal("a wrong secret was accepted")
				}
			}
		})
	}
}
