package upstream

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
)

// TestP130AFreshSignInIsProvedOrRefused: whatever a provider omits or ignores, an old sign-in never counts as fresh.
func TestP130AFreshSignInIsProvedOrRefused(t *testing.T) {
	login, lately := Request{Prompt: "login"}, Request{MaxAge: 10 * time.Second}
	for name, c := range map[string]struct {
		asked    Request
		authTime time.Duration // before the sign-in began; unknown: absent
		reason   string
		at       time.Duration // the result, likewise
	}{
		"nothing demanded, unknown":        {Request{}, unknown, "", unknown},
		"nothing demanded, of before":      {Request{}, time.Hour, "", time.Hour},
		"nothing demanded, just now":       {Request{}, 0, "", 0},
		"an account is chosen, of before":  {Request{Prompt: "select_account"}, time.Hour, "", time.Hour},
		"login, unknown":                   {login, unknown, ErrInteraction.Reason, 0},
		"login, of before":                 {login, 6 * time.Second, ErrInteraction.Reason, 0},
		"login, long before":               {login, time.Hour, ErrInteraction.Reason, 0},
		"login, now":                       {login, 0, "", 0},
		"login, in whole seconds":          {login, 4 * time.Second, "", 0},
		"login and a great age, of before": {Request{Prompt: "login", MaxAge: time.Hour}, time.Minute, ErrInteraction.Reason, 0},
		"lately, unknown":                  {lately, unknown, ErrInteraction.Reason, 0},
		"lately, just within":              {lately, 10 * time.Second, "", 10 * time.Second},
		"lately, too old":                  {lately, 11 * time.Second, ErrInteraction.Reason, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			if c.authTime != unknown {
				p.claims["auth_time"] = tokentest.Start.Add(-c.authTime).Unix()
			}
			provider := p.provider(nil)
			flow, query := p.begin(provider, c.asked)
			if c.asked.Prompt == "login" && query.Get("max_age") == "" {
				t.Error("the provider need not say when: max_age is missing")
			}
			got, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			if c.reason != "" {
				wantReason(t, err, c.reason)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := tokentest.Start.Add(-c.at)
			if c.at == unknown {
				want = time.Time{}
			}
			if !got.AuthTime.Equal(want) {
				t.Errorf("signed in at %s, want %s", got.AuthTime, want)
			}
		})
	}
	for name, asked := range map[string]Request{"GitHub: login": login, "GitHub: lately": lately} {
		t.Run(name, func(t *testing.T) {
			_, _, err := newHub(t).github("").Begin(t.Context(), asked)
			wantReason(t, err, ErrInteraction.Reason)
		})
	}
	t.Run("GitHub does not say when", func(t *testing.T) {
		h := newHub(t)
		g := h.github("")
		flow, _ := h.begin(g, Request{})
		if got, err := g.Finish(t.Context(), flow, goodAnswer(), redirectURI); err != nil || !got.AuthTime.IsZero() {
			t.Errorf("%v, %v", got.AuthTime, err)
		}
	})
	t.Run("who needs long at the provider has signed in since", func(t *testing.T) {
		p := newIDP(t)
		provider := p.provider(nil)
		flow, _ := p.begin(provider, Request{MaxAge: 10 * time.Second})
		p.claims["auth_time"] = p.clock.Now().Add(time.Second).Unix()
		p.clock.Add(5 * time.Minute)
		if got, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI); err != nil || !got.AuthTime.Equal(p.clock.Now()) {
			t.Errorf("%v, %v", got.AuthTime, err)
		}
	})
}

const unknown = time.Duration(-1)

// TestP132TheProvidersClock: a provider's clock off by less than a minute → made good by iat; by more → refused once, with the reason.
func TestP132TheProvidersClock(t *testing.T) {
	for name, c := range map[string]struct {
		behind, age time.Duration
		asked       Request
		reason      string
		at          time.Duration
	}{
		"slow, and asked again":           {50 * time.Second, 0, Request{Prompt: "login"}, "", 0},
		"slow, and not asked again":       {50 * time.Second, 30 * time.Second, Request{Prompt: "login"}, ErrInteraction.Reason, 0},
		"slow, within max_age":            {50 * time.Second, 8 * time.Second, Request{MaxAge: 10 * time.Second}, "", 8 * time.Second},
		"slow, beyond max_age":            {50 * time.Second, 12 * time.Second, Request{MaxAge: 10 * time.Second}, ErrInteraction.Reason, 0},
		"far behind":                      {3 * time.Minute, 0, Request{MaxAge: 10 * time.Second}, ErrInteraction.Reason, 0},
		"far behind, nothing demanded":    {3 * time.Minute, 0, Request{}, "", 2 * time.Minute},
		"fast, and asked again":           {-50 * time.Second, 0, Request{Prompt: "login"}, "", 0},
		"fast, and not asked again":       {-50 * time.Second, 30 * time.Second, Request{Prompt: "login"}, ErrInteraction.Reason, 0},
		"fast, beyond max_age":            {-50 * time.Second, 12 * time.Second, Request{MaxAge: 10 * time.Second}, ErrInteraction.Reason, 0},
		"fast, long ago, nothing demands": {-50 * time.Second, time.Hour, Request{}, "", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			theirs := tokentest.Start.Add(-c.behind)
			p.claims["iat"], p.claims["auth_time"] = theirs.Unix(), theirs.Add(-c.age).Unix()
			provider := p.provider(nil)
			flow, _ := p.begin(provider, c.asked)
			got, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			if c.reason != "" {
				wantReason(t, err, c.reason)
			} else if err != nil || !got.AuthTime.Equal(tokentest.Start.Add(-c.at)) {
				t.Errorf("signed in at %s, %v, want %s before", got.AuthTime, err, c.at)
			}
		})
	}
}
