package upstream

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
)

// TestSignIn performs a regular sign-in.
func TestSignIn(t *testing.T) {
	p := newIDP(t)
	p.claims["groups"] = []string{"engineering", "ops"}
	p.claims["picture"] = "javascript:alert(1)"
	p.claims["locale"] = "de"
	p.claims["auth_time"] = p.clock.Now().Add(-time.Minute).Unix()
	provider := p.provider(func(s *Settings) { s.GroupsClaim = "groups" })
	flow, query := p.begin(provider, Request{LoginHint: "jane@example.com", Prompt: "consent", MaxAge: time.Hour})
	for name, want := range map[string]string{
		"response_type": "code", "client_id": ourID, "redirect_uri": redirectURI, "state": "state", "scope": "openid email profile",
		"code_challenge_method": "S256", "login_hint": "jane@example.com", "prompt": "consent", "max_age": "3600",
	} {
		if got := query.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	got, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
	if err != nil {
		t.Fatal(err)
	}
	if got.Provider != "corp" || got.Subject != "248289761001" || got.Email != "jane@example.com" || !got.EmailVerified || got.Name != "Jane Doe" ||
		len(got.Groups) != 2 || got.Profile == nil || got.Profile.Locale != "de" || got.Profile.Picture != "" || !got.AuthTime.Equal(tokentest.Start.Add(-time.Minute)) {
		t.Errorf("got %+v", got)
	}
	if p.basic != [2]string{"gatehouse", "the+secret%3Aof%2Four+client"} || p.token.Get("client_secret") != "" || p.token.Get("redirect_uri") != redirectURI {
		t.Errorf("the token endpoint got %v, %v", p.basic, p.token)
	}
	if p.count("/userinfo") != 0 {
		t.Error("userinfo was asked for nothing")
	}
	if s := provider.State(); !s.LastSuccess.Equal(p.clock.Now()) || !s.DownSince.IsZero() || s.LastError != "" {
		t.Errorf("the state is %+v", s)
	}
}

// TestPrompt: select_account is sent only to providers that accept it.
func TestPrompt(t *testing.T) {
	const entra = "https://login.microsoftonline.com/8eaef023-2b34-4da1-9baa-8bc8c9d6a490/v2.0"
	for _, c := range []struct {
		issuer       string
		known        []string
		wanted, sent string
	}{
		{"https://a.example", nil, "select_account", "login"},
		{"https://a.example", []string{"none", "login"}, "select_account", "login"},
		{"https://a.example", []string{"login", "select_account"}, "select_account", "select_account"},
		{"https://a.example", nil, "login", "login"},
		{"https://a.example", nil, "", ""},
		{google, nil, "select_account", "select_account"},
		{entra, nil, "select_account", "select_account"},
	} {
		if got := (&Settings{Issuer: c.issuer}).prompt(&metadata{Prompts: c.known}, c.wanted); got != c.sent {
			t.Errorf("%s, which knows %s, is asked for %q in the place of %q", c.issuer, c.known, got, c.wanted)
		}
	}
}
