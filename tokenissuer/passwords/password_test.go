package passwords

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const knownPassword = "correct horse battery staple"

// Hashes of knownPassword. The first three are as printed by `caddy hash-password` of Caddy 2.11.9: bcrypt with a low cost, argon2id with
// the default cost, and argon2id with a higher cost.
const (
	caddyBcrypt = "$2a$05$sy/2s6XjZ2SrjgvFNEh7OuJHslyBt6Z2cK/NgVWLpp/Kl1ORnDZh."
	caddyArgon2 = "$argon2id$v=19$m=47104,t=1,p=1$rS51gu8k9ZHoydZkk5AwbQ$7u01gMnO6GSbQDbZg1PBzf6Z5hWxAEwjVZ84MrIiYVk"
	dearArgon2  = "$argon2id$v=19$m=32768,t=3,p=4$6dXnyD4z9A/jsZZMZUB0RQ$vRN/h3NBSNYn3eTLkIfqzd5WpjGGU6Xkvf5zbM2lLwA"
	cheapBcrypt = "$2a$04$961kt94u6AK/SFXnFA1rJeIxUbTrr1rxLSesrR7XbLR7Imw/6D9x2"
	// longBcrypt is the hash of 72 times "a".
	longBcrypt = "$2a$04$D3ZOOqDXzjGLLtc00cxroOiDmykK8GbzToSCfp4W8KJ4vima.Chem"
	// weakArgon2 is that of 64 KiB and one pass.
	weakArgon2 = "$argon2id$v=19$m=64,t=1,p=1$"
)

func TestHashesOfEveryKindVerify(t *testing.T) {
	own := Hash(oauth.NewSecret(knownPassword))
	for name, hash := range map[string]string{
		"caddy bcrypt": caddyBcrypt, "caddy argon2id": caddyArgon2, "dear argon2id": dearArgon2, "bcrypt 2a": cheapBcrypt,
		"bcrypt 2b": "$2b$" + cheapBcrypt[4:], "bcrypt 2y": "$2y$" + cheapBcrypt[4:], "ours": own.Reveal(),
	} {
		if err := ValidateHash(oauth.NewSecret(hash)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !Verify(oauth.NewSecret(knownPassword), oauth.NewSecret(hash)) {
			t.Errorf("%s: the password is refused", name)
		}
		for _, wrong := range []string{"", knownPassword + "r", hash} {
			if Verify(oauth.NewSecret(wrong), oauth.NewSecret(hash)) {
				t.Errorf("%s: %q is accepted", name, wrong)
			}
		}
	}
	if again := Hash(oauth.NewSecret(knownPassword)); again.Reveal() == own.Reveal() {
		t.Error("two hashes have one salt")
	}
	if SchemeOf(own) != "$argon2id$v=19$m=19456,t=2,p=1" {
		t.Errorf("new hashes are %s", SchemeOf(own))
	}
}

// TestT77BcryptReadsSeventyTwoBytes: bcrypt ignores further bytes, so a longer password must not match.
func TestT77BcryptReadsSeventyTwoBytes(t *testing.T) {
	for n, want := range map[int]bool{71: false, 72: true, 73: false, 200: false, 1024: false} {
		if got := Verify(oauth.NewSecret(strings.Repeat("a", n)), oauth.NewSecret(longBcrypt)); got != want {
			t.Errorf("%d bytes: %v", n, got)
		}
	}
}

func TestHashesThatAreRefused(t *testing.T) {
	salt, key := "$rS51gu8k9ZHoydZkk5AwbQ", "$7u01gMnO6GSbQDbZg1PBzf6Z5hWxAEwjVZ84MrIiYVk"
	argon2id := func(parameters string) string { return "$argon2id$v=19$" + parameters + salt + key }
	for name, hash := range map[string]string{
		"plain text": knownPassword, "empty": "", "argon2i": "$argon2i$v=19$m=64,t=1,p=1" + salt + key, "another version": "$argon2id$v=16$m=64,t=1,p=1" + salt + key, "no version": "$argon2id$m=64,t=1,p=1" + salt + key,
		"memory above 256 MiB": argon2id("m=262145,t=1,p=1"), "huge memory": argon2id("m=4294967296,t=1,p=1"), "passes above 16": argon2id("m=64,t=17,p=1"), "lanes above 255": argon2id("m=64,t=1,p=256"),
		"no memory": argon2id("m=0,t=1,p=1"), "no passes": argon2id("m=64,t=0,p=1"), "no lanes": argon2id("m=64,t=1,p=0"), "negative": argon2id("m=-64,t=1,p=1"), "signed": argon2id("m=+64,t=1,p=1"), "a parameter less": argon2id("m=64,t=1"),
		"a parameter more": argon2id("m=64,t=1,p=1,keyid=x"), "another order": argon2id("t=1,m=64,p=1"), "short salt": "$argon2id$v=19$m=64,t=1,p=1$AAAA" + key, "long salt": "$argon2id$v=19$m=64,t=1,p=1$" + strings.Repeat("A", 88) + key,
		"short key": "$argon2id$v=19$m=64,t=1,p=1" + salt + "$AAAA", "long key": "$argon2id$v=19$m=64,t=1,p=1" + salt + "$" + strings.Repeat("A", 88), "stray bits": "$argon2id$v=19$m=64,t=1,p=1" + salt + key[:43] + "l",
		"padded": argon2id("m=64,t=1,p=1") + "=", "trailing part": argon2id("m=64,t=1,p=1") + "$", "bcrypt of cost 17": "$2a$17" + cheapBcrypt[6:], "bcrypt of cost 3": "$2a$03" + cheapBcrypt[6:], "bcrypt of no cost": "$2a$xx" + cheapBcrypt[6:],
		"bcrypt 2x": "$2x$" + cheapBcrypt[4:], "bcrypt cut": cheapBcrypt[:59], "bcrypt longer": cheapBcrypt + "x", "bcrypt of another alphabet": cheapBcrypt[:59] + "=", "SHA-512": "$6$salt$" + strings.Repeat("a", 86),
	} {
		if ValidateHash(oauth.NewSecret(hash)) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, parameters := range []string{"m=262144,t=1,p=1", "m=64,t=16,p=255"} { // just within the limits
		if err := ValidateHash(oauth.NewSecret(argon2id(parameters))); err != nil {
			t.Errorf("%s: %v", parameters, err)
		}
	}
}

// TestT79WhatIsOutdated: a hash cheaper than new ones is outdated. A hash made expensive by an operator is not replaced by a cheaper one.
func TestT79WhatIsOutdated(t *testing.T) {
	rest := "$rS51gu8k9ZHoydZkk5AwbQ$7u01gMnO6GSbQDbZg1PBzf6Z5hWxAEwjVZ84MrIiYVk"
	for hash, want := range map[string]bool{
		caddyBcrypt: true, cheapBcrypt: true, weakArgon2 + rest[1:]: true, "$argon2id$v=19$m=19456,t=1,p=1" + rest: true, "$argon2id$v=19$m=4096,t=16,p=1" + rest: true,
		Hash(oauth.NewSecret(knownPassword)).Reveal(): false, caddyArgon2: false, dearArgon2: false,
	} {
		if got := IsOutdated(oauth.NewSecret(hash)); got != want {
			t.Errorf("%s: %v", hash, got)
		}
	}
}

// TestTM2SpendingCostsWhatVerifyingDoes: unknown user, wrong password (argon2id and bcrypt), locked → the same hashing time.
func TestTM2SpendingCostsWhatVerifyingDoes(t *testing.T) {
	for _, hash := range []string{cheapBcrypt, caddyBcrypt, "$2b$12$" + strings.Repeat("a", 53)} {
		scheme := SchemeOf(oauth.NewSecret(hash))
		standIn := scheme + "$" + strings.Repeat("a", 53)
		if scheme != hash[:6] || !isBcrypt(standIn) || ValidateHash(oauth.NewSecret(standIn)) != nil {
			t.Errorf("%s: the stand-in is %s", scheme, standIn)
		}
	}
	// A malformed hash would be refused before any work is done.
	err := bcrypt.CompareHashAndPassword([]byte("$2a$04$"+strings.Repeat("a", 53)), []byte(knownPassword))
	if !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("the stand-in fails with %v", err)
	}
	for _, hash := range []string{caddyArgon2, dearArgon2, Hash(oauth.NewSecret(knownPassword)).Reveal()} {
		scheme := SchemeOf(oauth.NewSecret(hash))
		parts := strings.Split(scheme, "$")
		if !strings.HasPrefix(hash, scheme+"$") || len(parts) != 4 {
			t.Errorf("the scheme of %s is %s", hash, scheme)
			continue
		}
		if params, err := parseArgon2Params(parts[3]); err != nil || params.scheme() != scheme {
			t.Errorf("%s: %+v, %v", scheme, params, err)
		}
	}
	for _, none := range []string{"", "plain", "$a$b", "$2a$"} {
		if got := SchemeOf(oauth.NewSecret(none)); got != "" {
			t.Errorf("%q has the scheme %q", none, got)
		}
		Spend(oauth.NewSecret("x"), none)
	}
	fastest := func(do func()) time.Duration {
		best := time.Hour
		for range 5 {
			began := time.Now()
			do()
			best = min(best, time.Since(began))
		}
		return best
	}
	for _, hash := range []string{cheapBcrypt, caddyArgon2} {
		verified := fastest(func() { Verify(oauth.NewSecret("x"), oauth.NewSecret(hash)) })
		spent := fastest(func() { Spend(oauth.NewSecret("x"), SchemeOf(oauth.NewSecret(hash))) })
		if spent < verified/4 || verified < spent/4 { // other tests run beside it
			t.Errorf("%.20s: %v to verify, %v spent", hash, verified, spent)
		}
	}
}
