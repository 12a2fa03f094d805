package passwords

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestE100WhatIsNoPassword: a new password that is short, long, used by many people or the person's address → refused with what to do; any
// other characters → accepted.
func TestE100WhatIsNoPassword(t *testing.T) {
	alone, beside := Owner{Email: "ada.lovelace@example.com"}, Owner{Email: "ada.lovelace@example.com", HasFactor: true}
	for _, c := range []struct {
		password string
		owner    Owner
		want     Fault
	}{
		{"", alone, TooShort},
		{"elevenchars", alone, TooShort},
		{"twelve chars", alone, ""},
		{"sevench", beside, TooShort},
		{"8 chars!", beside, ""},
		{"8 chars!", alone, TooShort},
		{strings.Repeat("é", 11), alone, TooShort},       // characters, not bytes
		{strings.Repeat("e\u0301", 11), alone, TooShort}, // the same eleven
		{"zwölf Zeichen", alone, ""},
		{"合言葉はひらけゴマです。", alone, ""},
		{strings.Repeat("x1 ", 341) + "x", alone, ""},
		{strings.Repeat("x1 ", 341) + "x1", alone, TooLong},
		{strings.Repeat("\uFDFA", 40), alone, TooLong}, // NFKC makes 18 characters of each
		{"with NUL \x00 in it", alone, TooLong},
		{"password", beside, TooCommon},
		{"PassWord", beside, TooCommon},
		{"ｐａｓｓｗｏｒｄ", beside, TooCommon}, // full width
		{"baseball", beside, TooCommon},
		{"1qaz2wsx3edc", alone, TooCommon},
		{"Ada.Lovelace@Example.com", alone, IsAddress},
		{"ada.lovelace", alone, IsAddress},
		{"ada.lovelace's", alone, ""},
		{"Tr0ub4dor&3", beside, ""},
	} {
		err := Validate(oauth.NewSecret(c.password), c.owner)
		refusal, _ := errors.AsType[Refusal](err)
		if refusal.Fault != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%.40q: %v, want %q", c.password, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "use a") && refusal.MinLength != c.owner.MinLength() {
			t.Errorf("%.40q: it says %d characters", c.password, refusal.MinLength)
		}
	}
}

// TestTheListOfCommonPasswords reads the whole list: the first and the last line are found, and what sorts before, behind and between is not.
func TestTheListOfCommonPasswords(t *testing.T) {
	for password, want := range map[string]bool{
		"!qaz1qaz": true, "~censored~": true, "\u0000": false, "\U0010FFFF": false, "password": true, "passwore": false, "ñññññññññ": false, "smokey24": true,
	} {
		if got := isCommon(password); got != want {
			t.Errorf("%q: %v", password, got)
		}
	}
}

// TestE101OneSpelling: a password typed in another Unicode form → the same password, under every scheme.
func TestE101OneSpelling(t *testing.T) {
	composed, decomposed := oauth.NewSecret("Caf\u00e9 \ufb01xe 2000"), oauth.NewSecret("Cafe\u0301 fixe 2000")
	hash := Hash(composed)
	if !Verify(decomposed, hash) || !Verify(composed, Hash(decomposed)) {
		t.Error("another Unicode form is another password")
	}
	if Verify(oauth.NewSecret("Cafe fixe 2000"), hash) {
		t.Error("another letter is accepted")
	}
}

func BenchmarkValidate(b *testing.B) {
	for b.Loop() {
		if err := Validate(oauth.NewSecret("zzzzzzzzzzzz none"), Owner{}); err != nil {
			b.Fatal(err)
		}
	}
}
