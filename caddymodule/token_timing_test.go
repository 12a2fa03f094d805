package caddymodule

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// BenchmarkTM1TM2Refusals shows what the timing of a refusal reveals. For a client, the cases unknown, wrong secret,
// disabled, public, and declared in the configuration should take the same time. For an account, so should unknown,
// wrong password under argon2id and under bcrypt, locked, and invited. Compare the medians of several runs (-count).
func BenchmarkTM1TM2Refusals(b *testing.B) {
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
	parts := issuer.New(issuer.Settings{}, issuer.Node{Revocations: token.NewRevocationSet(), Now: time.Now, Hasher: passwords.NewHasher()})
	parts.Families.Opened = families.Opened{Store: families.StoreOf(st.Store), Directory: store.OverlayDirectory{Declared: declared, Stored: st.Directory()}}
	known := &clients.Registry{Families: parts.Families, Known: parts.Clients, Declared: declared, Stored: st.Clients}
	people := &people.Users{
		Families: parts.Families, Hasher: passwords.NewHasher(), Usernames: parts.Issued.Usernames, Declared: declared, Stored: people.StoreOf(st.Store),
	}
	_, err = people.AddOrganisation(b.Context(), store.Organisation{ID: "acme"})
	for _, client := range []store.Client{{ID: "present1"}, {ID: "disabled", Disabled: true}, {ID: "public01", Type: store.PublicClient, RedirectURIs: []string{"https://public.example/cb"}}} {
		_, _, added := known.AddClient(b.Context(), client)
		err = errors.Join(err, added)
	}
	old, hashed := bcrypt.GenerateFromPassword([]byte(peoplePassword), 10)
	current := passwords.Hash(oauth.NewSecret(peoplePassword))
	for name, hash := range map[string]oauth.Secret{"argon2id": current, "bcrypt": oauth.NewSecret(string(old)), "locked": current, "invited": {}} {
		user := store.User{ID: name, Email: name + "@acme.example", Organisation: "acme", PasswordHash: hash}
		if name == "locked" {
			user.Status = store.UserLocked
		}
		_, added := people.AddUser(b.Context(), user, oauth.Secret{})
		err = errors.Join(err, added)
	}
	if err := errors.Join(err, hashed); err != nil {
		b.Fatal(err)
	}
	for _, refusal := range []struct{ name, id string }{
		{"unknown", "nobody00"}, {"wrong secret", "present1"}, {"disabled", "disabled"}, {"public", "public01"}, {"declared", "declared"},
	} {
		b.Run("client/"+refusal.name, func(b *testing.B) {
			wrong := clients.Authentication{
				Address:  "192.0.2.1",
				Readings: []clients.Credential{{ID: refusal.id, Secret: oauth.NewSecret("0123456789abcdefghijABCDEFGHIJ0123456789abc")}},
			}
			for b.Loop() {
				if _, err := parts.Clients.Authenticate(b.Context(), wrong); err == nil {
					b.Fatal("a wrong secret was accepted")
				}
			}
		})
	}
	for _, account := range []string{"unknown", "argon2id", "bcrypt", "locked", "invited"} {
		b.Run("account/"+account, func(b *testing.B) {
			attempt := signin.Attempt{Email: account + "@acme.example", Password: oauth.NewSecret(wrongPassword), Address: "192.0.2.1"}
			for b.Loop() {
				if _, err := parts.SignIns.SignIn(b.Context(), attempt); oauth.AsError(err).Reason != "sign_in_failed" {
					b.Fatal(err)
				}
			}
		})
	}
}
