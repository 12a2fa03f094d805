package caddymodule

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// BenchmarkTM2SignInRefusals shows what the time of a refused sign-in tells about an account: unknown, wrong password
// under argon2id and under bcrypt, locked, and invited should cost the same. Compare the medians of several runs (-count).
func BenchmarkTM2SignInRefusals(b *testing.B) {
	st, err := sqlstore.OpenSQLite(b.Context(), filepath.Join(b.TempDir(), "x.db"), sqlstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	issuer := &tokenissuer.Issuer{
		Records: tokenissuer.Records{Store: st, Directory: st, Revocations: accesstoken.NewRevocationSet(), Now: time.Now},
		Hasher:  passwords.NewHasher(),
	}
	registry := &tokenissuer.Registry{Issuer: issuer, Stored: st}
	if _, err := registry.AddOrganisation(b.Context(), store.Organisation{ID: "acme"}); err != nil {
		b.Fatal(err)
	}
	old, err := bcrypt.GenerateFromPassword([]byte(peoplePassword), 10)
	if err != nil {
		b.Fatal(err)
	}
	for email, hash := range map[string]string{"argon2id": peopleHash(), "bcrypt": string(old), "locked": peopleHash(), "invited": ""} {
		user := store.User{ID: email, Email: email + "@acme.example", Organisation: "acme", PasswordHash: oauth.NewSecret(hash)}
		if email == "locked" {
			user.Status = store.UserLocked
		}
		if _, err := registry.AddUser(b.Context(), user, oauth.Secret{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, account := range []string{"unknown", "argon2id", "bcrypt", "locked", "invited"} {
		b.Run(account, func(b *testing.B) {
			attempt := tokenissuer.SignInAttempt{Email: account + "@acme.example", Password: oauth.NewSecret(wrongPassword), Address: "192.0.2.1"}
			for b.Loop() {
				if _, err := issuer.SignIn(b.Context(), attempt); oauth.AsError(err).Reason != "sign_in_failed" {
					b.Fatal(err)
				}
			}
		})
	}
}
