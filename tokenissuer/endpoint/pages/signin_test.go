package pages

import (
	"slices"
	"testing"
	"time"
)

func TestSignInFocusesTheFirstEmptyField(t *testing.T) {
	p := open(t, Settings{})
	for email, want := range map[string]string{"": "email", "ada@acme.example": "password"} {
		var focused []string
		for _, n := range parse(t, render(t, p, "en", SignIn{Email: email})).elements {
			if _, has := attr(n, "autofocus"); has {
				id, _ := attr(n, "id")
				focused = append(focused, id)
			}
		}
		if !slices.Equal(focused, []string{want}) {
			t.Errorf("with the address %q the focus is on %q", email, focused)
		}
	}
}

// TestSignInFieldsAreForPasswordManagers also checks the type of the address field. Chromium converts the domain of a type=email field to
// Punycode before it sends the field, so the same address would be another account in another browser.
func TestSignInFieldsAreForPasswordManagers(t *testing.T) {
	d := parse(t, render(t, open(t, Settings{}), "en", SignIn{Email: "ada@müller.example"}))
	for field, want := range map[string]map[string]string{
		"email": {
			"type": "text", "inputmode": "email", "autocomplete": "username", "autocapitalize": "none", "spellcheck": "false",
			"value": "ada@müller.example",
		},
		"password": {"type": "password", "autocomplete": "current-password"},
	} {
		n := d.find(t, "name", field)
		for name, value := range want {
			if got, _ := attr(n, name); got != value {
				t.Errorf("%s of %s is %q, want %q", name, field, got, value)
			}
		}
	}
	if _, has := attr(d.find(t, "name", "password"), "value"); has {
		t.Error("a password is filled in")
	}
	if _, has := attr(d.all("form")[0], "novalidate"); !has {
		t.Error("the browser judges the form in words of its own")
	}
}

func TestSignInSaysWhatWentWrong(t *testing.T) {
	p := open(t, Settings{})
	for _, test := range []struct {
		name                string
		notice              Notice
		words, role, denies string
	}{
		{
			"wrong", WrongCredentials,
			"E-mail address and password do not match. Check both and try again.", "alert", "true",
		},
		{
			"too many", TooManyAttempts, "There were too many attempts to sign in. Try again in 2 minutes.", "alert", "",
		},
		{"busy", Busy, "We cannot check passwords right now. Try again in 2 minutes.", "alert", ""},
		{
			"again", SignInAgain,
			"You are signed in already. To be sure that it is you, please sign in again.", "", "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := parse(t, render(t, p, "en", SignIn{Notice: test.notice, RetryAfter: 2 * time.Minute}))
			notice := d.find(t, "id", "notice")
			if got := text(notice); got != test.words {
				t.Errorf("%q, want %q", got, test.words)
			}
			if got, _ := attr(notice, "role"); got != test.role {
				t.Errorf("role %q, want %q", got, test.role)
			}
			for _, field := range []string{"email", "password"} {
				n := d.find(t, "name", field)
				if got, _ := attr(n, "aria-describedby"); got != "notice" {
					t.Errorf("%s is described by %q", field, got)
				}
				if got, _ := attr(n, "aria-invalid"); got != test.denies {
					t.Errorf("aria-invalid of %s is %q", field, got)
				}
			}
		})
	}
	if _, err := p.Render("en", SignIn{Notice: "made_up"}); err == nil {
		t.Error("a notice without words is rendered")
	}
}
