package caddymodule

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// TestTM5AnotherClientsCredentialTakesTheSameSteps: whether a code or a refresh token exists is not to be told from how
// long its refusal takes, so the store is asked the same question for one that is another client's, unknown or no
// credential of ours. That this node remembers its family, as it does here, makes no difference to that: only one that is
// good does without the question.
func TestTM5AnotherClientsCredentialTakesTheSameSteps(t *testing.T) {
	u := openUsers(t)
	steps := &stepStore{IssuerStore: u.app().engine.store}
	u.app().issuer.Store = steps // before the first request
	r, other := requestOf("conf"), requestOf("other")
	first, code := u.userTokens(r, ada), u.code(r, ada)
	altered := func(credential string) string {
		return credential[:len(credential)-1] + string(swapDigit(credential[len(credential)-1]))
	}
	unknown := func(credential string) string { return strings.Repeat("0", 22) + credential[22:] }

	for name, credential := range map[string]string{
		"its owner's": code, "altered": altered(code), "unknown": unknown(code), "no code": first.RefreshToken, "too short": "x",
	} {
		u.sub("code, "+name, func(u *userDoor) {
			steps.steps = nil
			u.denied(with(other.exchange(credential), "redirect_uri", r.redirectURI), badGrant(""))
			if !slices.Equal(steps.steps, []string{"Family"}) {
				u.t.Errorf("steps %v", steps.steps)
			}
		})
	}
	for name, credential := range map[string]string{
		"its owner's": first.RefreshToken, "altered": altered(first.RefreshToken), "unknown": unknown(first.RefreshToken),
		"no refresh token": code, "too short": "x",
	} {
		u.sub("refresh token, "+name, func(u *userDoor) {
			steps.steps = nil
			u.denied(other.refresh(credential), badGrant(""))
			if !slices.Equal(steps.steps, []string{"Family"}) {
				u.t.Errorf("steps %v", steps.steps)
			}
		})
	}
	steps.steps = nil
	u.gives(r.exchange(code))
	u.gives(r.refresh(first.RefreshToken))
	if want := []string{"RedeemCode", "RotateRefreshToken"}; !slices.Equal(steps.steps, want) {
		t.Errorf("steps %v, want %v", steps.steps, want)
	}
}

func swapDigit(c byte) byte {
	if c == '0' {
		return '1'
	}
	return '0'
}

// BenchmarkTM2SignInRefusals shows what the time of a refused sign-in tells about an account: unknown, wrong password
// under argon2id and under bcrypt, locked, and invited should cost the same. Compare the medians of several runs (-count).
func BenchmarkTM2SignInRefusals(b *testing.B) {
	store, err := sqlstore.OpenSQLite(b.Context(), filepath.Join(b.TempDir(), "x.db"), sqlstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	issuer := &tokenissuer.Issuer{
		Store: store, Directory: store, Revocations: tokenissuer.NewRevocationSet(), Passwords: tokenissuer.NewPasswords(), Now: time.Now,
	}
	registry := &tokenissuer.Registry{Issuer: issuer, Stored: store}
	if _, err := registry.AddOrganisation(b.Context(), tokenissuer.Organisation{ID: "acme"}); err != nil {
		b.Fatal(err)
	}
	old, err := bcrypt.GenerateFromPassword([]byte(peoplePassword), 10)
	if err != nil {
		b.Fatal(err)
	}
	for email, hash := range map[string]string{"argon2id": peopleHash(), "bcrypt": string(old), "locked": peopleHash(), "invited": ""} {
		user := tokenissuer.User{ID: email, Email: email + "@acme.example", Organisation: "acme", PasswordHash: tokenissuer.NewSecret(hash)}
		if email == "locked" {
			user.Status = tokenissuer.UserLocked
		}
		if _, err := registry.AddUser(b.Context(), user, tokenissuer.Secret{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, account := range []string{"unknown", "argon2id", "bcrypt", "locked", "invited"} {
		b.Run(account, func(b *testing.B) {
			attempt := tokenissuer.SignInAttempt{Email: account + "@acme.example", Password: tokenissuer.NewSecret(wrongPassword), Address: "192.0.2.1"}
			for b.Loop() {
				if _, err := issuer.SignIn(b.Context(), attempt); tokenissuer.AsError(err).Reason != "sign_in_failed" {
					b.Fatal(err)
				}
			}
		})
	}
}
