package upstream

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// TestP9KeysRotate: keys rotated → signed in after one fetch; made-up kids → at most one fetch in 30 s.
func TestP9KeysRotate(t *testing.T) {
	p := newIDP(t)
	provider := p.provider(nil)
	if _, err := p.signIn(provider); err != nil {
		t.Fatal(err)
	}
	p.rotate("second")
	p.clock.Add(time.Second)
	if _, err := p.signIn(provider); err != nil {
		t.Fatalf("after a rotation: %v", err)
	}
	p.clock.Add(time.Minute)
	before := p.count("/keys")
	p.header["kid"] = "made-up"
	for range 20 {
		_, err := p.signIn(provider)
		wantReason(t, err, ErrUntrusted.Reason)
	}
	if n := p.count("/keys") - before; n > 1 {
		t.Errorf("%d fetches for unknown kids", n)
	}
	p.header = map[string]any{}
	if _, err := p.signIn(provider); err != nil {
		t.Error(err)
	}
}

// TestP9KeysAway: keys that cannot be fetched → temporarily_unavailable.
func TestP9KeysAway(t *testing.T) {
	p := newIDP(t)
	provider := p.provider(nil)
	if _, err := p.signIn(provider); err != nil {
		t.Fatal(err)
	}
	p.rotate("second")
	p.answer("/keys", status(http.StatusInternalServerError))
	p.clock.Add(time.Minute)
	_, err := p.signIn(provider)
	wantReason(t, err, ErrUnavailable.Reason)
}

// TestP13StartWithoutProvider: the provider away at the start → the start does not wait, a kept snapshot suffices to begin; a changed
// snapshot → not used.
func TestP13StartWithoutProvider(t *testing.T) {
	p, kept := newIDP(t), new(memory)
	first := p.provider(nil)
	first.UseSnapshots(kept)
	if _, err := p.signIn(first); err != nil {
		t.Fatal(err)
	}
	tokentest.Eventually(t, "a snapshot is kept", func() bool { return kept.count() == 1 })
	p.answer(metadataPath, status(http.StatusServiceUnavailable))
	p.answer("/keys", status(http.StatusServiceUnavailable))

	second := p.provider(nil)
	second.UseSnapshots(kept)
	account, err := p.signIn(second)
	if err != nil || account.Subject == "" {
		t.Fatalf("got %+v, %v", account, err)
	}
	for name, edit := range map[string]func(string) string{
		"of another issuer":   func(s string) string { return strings.Replace(s, p.URL, "https://evil.example", 1) },
		"with other metadata": func(s string) string { return strings.ReplaceAll(s, p.URL+"/token", "javascript:x") },
		"with other keys":     func(s string) string { return strings.Replace(s, p.URL+"/keys", p.URL+"/others", 1) },
		"without metadata":    func(s string) string { return strings.Replace(s, `"metadata"`, `"x"`, 1) },
		"half":                func(s string) string { return s[:len(s)/2] },
	} {
		t.Run(name, func(t *testing.T) {
			changed := new(memory)
			for name, data := range kept.kept {
				if edited := edit(string(data)); edited != string(data) {
					changed.kept = map[string][]byte{name: []byte(edited)}
				}
			}
			if changed.count() != 1 {
				t.Fatal("nothing was changed")
			}
			third := p.provider(nil)
			third.UseSnapshots(changed)
			_, _, err := third.Begin(t.Context(), Request{})
			wantReason(t, err, ErrUnavailable.Reason)
		})
	}
}

// TestP13ProviderAway: the provider away without a snapshot → temporarily_unavailable, until it is back.
func TestP13ProviderAway(t *testing.T) {
	p := newIDP(t)
	p.answer(metadataPath, status(http.StatusServiceUnavailable))
	provider := p.provider(nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { provider.Run(ctx); close(ended) }()
	tokentest.Eventually(t, "the failure is known", func() bool { return !provider.State().DownSince.IsZero() })
	_, _, err := provider.Begin(t.Context(), Request{})
	wantReason(t, err, ErrUnavailable.Reason)
	if e := oauth.AsError(err); e.Code != oauth.TemporarilyUnavailable || e.RetryAfter == 0 {
		t.Errorf("got %#v", e)
	}
	s := provider.State()
	if !s.DownSince.Equal(tokentest.Start) || !s.LastSuccess.IsZero() || !strings.Contains(s.LastError, "503") {
		t.Errorf("the state is %+v", s)
	}
	if provider.SignOutURL(SignOut{}) != "" {
		t.Error("a sign-out without metadata")
	}
	p.answer(metadataPath, nil)
	p.clock.Add(time.Minute)
	if _, err := p.signIn(provider); err != nil {
		t.Error(err)
	}
	if s := provider.State(); !s.DownSince.IsZero() || !s.LastSuccess.Equal(p.clock.Now()) {
		t.Errorf("the state is %+v", s)
	}
	stop()
	<-ended
}

// TestP13GoneInTheMiddle: the provider away in the middle of a sign-in → temporarily_unavailable, and the code can be tried again.
func TestP13GoneInTheMiddle(t *testing.T) {
	p := newIDP(t)
	provider := p.provider(nil)
	flow, _ := p.begin(provider, Request{})
	p.Close()
	_, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
	wantReason(t, err, ErrUnavailable.Reason)
	if s := provider.State(); s.DownSince.IsZero() || s.LastSuccess.IsZero() {
		t.Errorf("the state is %+v", s)
	}
}

func TestSignOutURL(t *testing.T) {
	p := newIDP(t)
	p.metadata["end_session_endpoint"] = p.URL + "/logout?realm=main"
	provider := p.provider(nil)
	p.begin(provider, Request{})
	want := p.URL + "/logout?client_id=gatehouse&logout_hint=jane%40example.com&post_logout_redirect_uri=https%3A%2F%2Fid.example%2Fbye&realm=main&state=s"
	if got := provider.SignOutURL(SignOut{RedirectURI: "https://id.example/bye", State: "s", Hint: "jane@example.com"}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p = newIDP(t)
	p.metadata["end_session_endpoint"] = nil
	provider = p.provider(nil)
	p.begin(provider, Request{})
	if got := provider.SignOutURL(SignOut{}); got != "" {
		t.Errorf("got %s", got)
	}
}

// wantSteps compares the steps and checks that none contains a secret.
func wantSteps(t *testing.T, list []signin.Step, want string) {
	t.Helper()
	var got []string
	for _, s := range list {
		got = append(got, s.Name+" "+string(s.Result))
		wantNoSecret(t, s.Text)
		if s.Text == "" {
			t.Errorf("%s says nothing", s.Name)
		}
	}
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s\n%+v", text, want, list)
	}
}

func TestTestOfAProvider(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(p *idp, s *Settings)
		want    string
	}{
		"good": {nil, "address passed, connection passed, metadata passed, issuer passed, endpoints passed, keys passed, algorithms passed, pkce passed, client passed, redirect_uri advice"},
		"no such host": {
			func(_ *idp, s *Settings) { s.Issuer = "https://nobody.invalid" }, "address failed, redirect_uri advice",
		},
		"a private address": {func(_ *idp, s *Settings) { s.Issuer, s.AllowPrivateNetwork = "https://127.0.0.1", false }, "address failed, redirect_uri advice"},
		"nobody listens": {
			func(p *idp, _ *Settings) { p.Close() }, "address passed, connection failed, redirect_uri advice",
		},
		"no TLS": {
			func(p *idp, s *Settings) { s.Issuer = strings.Replace(p.URL, "http:", "https:", 1) }, "address passed, connection failed, redirect_uri advice",
		},
		"no metadata": {
			func(p *idp, s *Settings) { s.Issuer += "/realms/main" }, "address passed, connection passed, metadata failed, redirect_uri advice",
		},
		"no JSON": {
			func(p *idp, _ *Settings) { p.answer(metadataPath, says("text/html", "<html>")) }, "address passed, connection passed, metadata failed, redirect_uri advice",
		},
		"another issuer": {
			func(p *idp, _ *Settings) { p.metadata["issuer"] = p.URL + "/" },
			"address passed, connection passed, metadata passed, issuer failed, redirect_uri advice",
		},
		"no issuer": {
			func(p *idp, _ *Settings) { p.metadata["issuer"] = "" },
			"address passed, connection passed, metadata passed, issuer failed, redirect_uri advice",
		},
		"an endpoint without TLS": {
			func(p *idp, _ *Settings) { p.metadata["token_endpoint"] = "ftp://example.com/" },
			"address passed, connection passed, metadata passed, issuer passed, endpoints failed, redirect_uri advice",
		},
		"no keys, no PKCE": {
			func(p *idp, _ *Settings) {
				p.answer("/keys", says("application/json", `{"keys":[]}`))
				p.metadata["code_challenge_methods_supported"] = nil
			},
			"address passed, connection passed, metadata passed, issuer passed, endpoints passed, keys failed, pkce advice, client passed, redirect_uri advice",
		},
		"no key of the algorithms": {
			func(p *idp, _ *Settings) {
				p.metadata["id_token_signing_alg_values_supported"] = []string{"RS256", "none"}
			},
			"address passed, connection passed, metadata passed, issuer passed, endpoints passed, keys passed, algorithms failed, pkce passed, client passed, redirect_uri advice",
		},
		"a client that the provider does not know": {
			func(p *idp, _ *Settings) {
				p.answer("/token", func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(http.StatusUnauthorized)
					_, secret, _ := r.BasicAuth()
					p.write(w, map[string]any{"error": "invalid_client", "error_description": "wrong: " + secret})
				})
			},
			"address passed, connection passed, metadata passed, issuer passed, endpoints passed, keys passed, algorithms passed, pkce passed, client failed, redirect_uri advice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			provider := p.provider(func(s *Settings) {
				if c.arrange != nil {
					c.arrange(p, s)
				}
			})
			wantSteps(t, provider.Test(t.Context(), redirectURI), c.want)
			if s := provider.State(); s != (signin.State{}) {
				t.Errorf("a test changed the state: %+v", s)
			}
		})
	}
}
