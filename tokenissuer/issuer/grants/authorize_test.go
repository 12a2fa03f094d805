package grants_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// TestT58RequestsThatAreRefused has the almost valid values that TestA47ToA51T57T58ErrorsGoToTheClient omits.
func TestT58RequestsThatAreRefused(t *testing.T) {
	f := newFlow(t)
	for name, edit := range map[string]func(*issuer.AuthorizationParameters){
		"state too long":                  func(p *issuer.AuthorizationParameters) { p.State = strings.Repeat("a", 8<<10+1) },
		"challenge with stray bits":       func(p *issuer.AuthorizationParameters) { p.CodeChallenge = challenge[:42] + "N" },
		"challenge, a line break counted": func(p *issuer.AuthorizationParameters) { p.CodeChallenge = strings.Repeat("A", 42) + "\n" },
		"max_age with a sign":             func(p *issuer.AuthorizationParameters) { p.OpenID.MaxAge = "+1" },
		"max_age a fraction":              func(p *issuer.AuthorizationParameters) { p.OpenID.MaxAge = "1.5" },
		"max_age with a space":            func(p *issuer.AuthorizationParameters) { p.OpenID.MaxAge = " 5" },
		"max_age too large":               func(p *issuer.AuthorizationParameters) { p.OpenID.MaxAge = "9223372036854775808" },
	} {
		t.Run(name, func(t *testing.T) {
			p := parameters("")
			edit(&p)
			_, err := f.read("conf", p)
			tokentest.WantCode(t, err, oauth.InvalidRequest)
		})
	}
}

// wants returns the next step for a request.
func (f *flow) wants(t *testing.T, clientID string, p issuer.AuthorizationParameters, s *signin.Session) issuer.Step {
	t.Helper()
	r, err := f.read(clientID, p)
	f.must(err)
	step, err := f.NextStep(t.Context(), &r, f.client(clientID), s)
	f.must(err)
	return step
}

// TestMaxAgeAsksForAFreshSignIn: a client that the gate sends back for a fresher sign-in (RFC 9470 §4) gets one.
func TestMaxAgeAsksForAFreshSignIn(t *testing.T) {
	f := newFlow(t)
	s := f.session("ada")
	f.code("conf", parameters("public"))
	with := func(maxAge, prompt string) issuer.AuthorizationParameters {
		p := parameters("public")
		p.OpenID.MaxAge, p.OpenID.Prompt = maxAge, prompt
		return p
	}
	f.wait(5 * time.Minute)
	for maxAge, want := range map[string]issuer.Step{
		"": issuer.GrantNow, "0": issuer.AskSignIn, "1": issuer.AskSignIn, "299": issuer.AskSignIn, "300": issuer.GrantNow, "00301": issuer.GrantNow, "9223372036854775807": issuer.GrantNow,
	} {
		if got := f.wants(t, "conf", with(maxAge, ""), s); got != want {
			t.Errorf("max_age=%s after 5 minutes: %v, want %v", maxAge, got, want)
		}
	}
	for maxAge, want := range map[string]oauth.ErrorCode{"0": oauth.LoginRequired, "299": oauth.LoginRequired, "300": ""} {
		r, err := f.read("conf", with(maxAge, "none"))
		f.must(err)
		if _, err := f.NextStep(t.Context(), &r, f.client("conf"), s); err == nil && want != "" || err != nil && oauth.AsError(err).Code != want {
			t.Errorf("max_age=%s and prompt=none: %v, want %q", maxAge, err, want)
		}
	}
	if got := f.wants(t, "conf", with("1000", "login"), s); got != issuer.AskSignIn {
		t.Errorf("prompt=login beside a max_age that is met: %v", got)
	}
	// A user who stays on a page until the sign-in is too old is asked once, and not again, however long the next decision takes.
	r, err := f.read("conf", with("300", ""))
	f.must(err)
	f.wait(time.Second)
	for _, v := range []struct {
		name string
		s    *signin.Session
		want issuer.Step
	}{{"the sign-in has become too old", s, issuer.AskSignIn}, {"after another one", f.session("ada"), issuer.GrantNow}} {
		f.wait(time.Second)
		if step, err := f.NextStep(t.Context(), &r, f.client("conf"), v.s); err != nil || step != v.want {
			t.Errorf("%s: %v, %v", v.name, step, err)
		}
	}
	zero, err := f.read("conf", with("0", ""))
	f.must(err)
	f.wait(time.Second)
	fresh := f.session("ada")
	f.wait(9 * time.Minute)
	if step, err := f.NextStep(t.Context(), &zero, f.client("conf"), fresh); err != nil || step != issuer.GrantNow {
		t.Errorf("max_age=0, nine minutes after the sign-in that it asked for: %v, %v", step, err)
	}
}

// TestAFaultWhileDeciding: a decision that was not stored does not count. A consent that was not stored is requested again.
func TestAFaultWhileDeciding(t *testing.T) {
	f := newFlow(t)
	s := f.session("ada")
	conf := f.client("conf")
	r := f.pending("conf", parameters("public"))
	f.store.fail("AddFamily", false)
	code, err := f.Approve(t.Context(), &r, conf, s, r.Scopes)
	if tokentest.WantCode(t, err, oauth.TemporarilyUnavailable); !code.IsEmpty() {
		t.Error("a code comes with the error")
	}
	f.store.fail("DecideRequest", false)
	tokentest.WantCode(t, f.Deny(t.Context(), &r, s), oauth.TemporarilyUnavailable)
	f.store.fail("Consent", false)
	if step, err := f.NextStep(t.Context(), &r, conf, s); err == nil || step == issuer.GrantNow {
		t.Error("a store that is down has consented")
	}
	for _, step := range []string{"PutConsent", "Consent"} {
		f.store.fail(step, false)
		r, err = f.read("conf", parameters("public"))
		f.must(err)
		code, err = f.Approve(t.Context(), &r, conf, s, r.Scopes)
		f.must(err)
		f.store.fail("", false)
		_, err = f.redeem("conf", code)
		f.must(err)
		if got := f.wants(t, "conf", parameters("public"), s); got != issuer.AskConsent {
			t.Errorf("%s: %v", step, got)
		}
	}
}
