package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// hub is a GitHub Enterprise Server on loopback.
type hub struct {
	*idp
	scope string
}

func newHub(t *testing.T) *hub {
	h := &hub{idp: newIDP(t), scope: "read:org,read:user,user:email"}
	for path, body := range map[string]string{
		"/user":        `{"id":583231,"login":"octocat","name":"The Octocat","avatar_url":"https://avatars.example/583231"}`,
		"/user/emails": `[{"email":"old@example.com","primary":false,"verified":true},{"email":"octocat@example.com","primary":true,"verified":true}]`,
		"/user/orgs":   `[{"login":"acme"},{"login":"globex"}]`,
		"/user/teams":  `[{"slug":"platform","organization":{"login":"acme"}},{"slug":"ops","organization":{"login":"initech"}}]`,
	} {
		h.api(path, body)
	}
	h.answer("/login/oauth/access_token", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		h.token = r.PostForm
		h.mu.Unlock()
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		switch {
		case r.PostForm.Get("client_id") != ourID || r.PostForm.Get("client_secret") != ourSecret:
			h.write(w, map[string]any{"error": "incorrect_client_credentials"})
		case r.PostForm.Get("code") != goodCode:
			h.write(w, map[string]any{"error": "bad_verification_code"})
		default:
			h.write(w, map[string]any{"access_token": accessToken, "token_type": "bearer", "scope": h.scope})
		}
	})
	return h
}

// api sets the response to requests with the access token.
func (h *hub) api(path, body string) {
	h.answer("/api/v3"+path, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+accessToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		says("application/json", body)(w, r)
	})
}

func (h *hub) github(groups GitHubGroups) *GitHub {
	h.t.Helper()
	g, err := NewGitHub(GitHubSettings{
		Name: "github", Client: Client{ourID, oauth.NewSecret(ourSecret)}, URL: h.URL + "/", Groups: groups, Organisations: []string{"acme", "globex", "Initech"}, AllowPrivateNetwork: true,
	}, fetch.Options{Now: h.clock.Now})
	if err != nil {
		h.t.Fatal(err)
	}
	return g
}

func TestGitHub(t *testing.T) {
	for groups, want := range map[GitHubGroups][]string{
		"": nil, GitHubOrganisations: {"acme", "globex"}, GitHubTeams: {"acme", "globex", "acme/platform", "initech/ops"},
	} {
		h := newHub(t)
		g := h.github(groups)
		flow, query := h.begin(g, Request{LoginHint: "octocat", Prompt: "select_account"})
		if query.Get("code_challenge_method") != "S256" || query.Get("login") != "octocat" || query.Get("prompt") != "select_account" ||
			strings.Contains(query.Get("scope"), "read:org") != (groups != "") {
			t.Errorf("asked with %v", query)
		}
		got, err := g.Finish(t.Context(), flow, goodAnswer(), redirectURI)
		if err != nil {
			t.Fatal(err)
		}
		if got.Provider != "github" || got.Subject != "583231" || got.Email != "octocat@example.com" || !got.EmailVerified || got.Name != "The Octocat" ||
			!slices.Equal(got.Groups, want) || got.Profile.PreferredUsername != "octocat" || got.Profile.Picture != "https://avatars.example/583231" {
			t.Errorf("got %+v", got)
		}
		if h.token.Get("code_verifier") != flow.Verifier.Reveal() {
			t.Error("no verifier was sent")
		}
		if s := g.State(); !s.LastSuccess.Equal(tokentest.Start) {
			t.Errorf("the state is %+v", s)
		}
	}
}

// TestP117OnlyNamedOrganisationsAreGroups: a GitHub organisation called as a group elsewhere → no group, only named organisations count.
func TestP117OnlyNamedOrganisationsAreGroups(t *testing.T) {
	h := newHub(t)
	h.api("/user/orgs", `[{"login":"admins"},{"login":"Acme"},{"login":"acme-evil"},{"login":"acm\u00e9"},{"login":"acme/platform"}]`)
	h.api("/user/teams", `[{"slug":"platform","organization":{"login":"admins"}},{"slug":"ops","organization":{"login":"Acme"}},{"slug":"acme","organization":{"login":""}}]`)
	got, err := h.signIn(h.github(GitHubTeams))
	if err != nil || !slices.Equal(got.Groups, []string{"Acme", "Acme/ops"}) {
		t.Errorf("groups %q, %v", got.Groups, err)
	}
	g := h.github(GitHubTeams)
	g.settings.Organisations = nil
	if got, err := h.signIn(g); err != nil || len(got.Groups) > 0 || got.Groups == nil {
		t.Errorf("none is named: groups %q, %v", got.Groups, err)
	}
}

// TestP17GitHub: GitHub: an unverified or secondary address → none; a login taken over → another account; no id, endless organisations,
// fewer scopes → refused.
func TestP17GitHub(t *testing.T) {
	entries := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`{"login":"a"},`, n), ",") + "]" }
	for name, c := range map[string]struct {
		path, body string
		reason     string
		email      string
		groups     []string
	}{
		"primary address not verified": {"/user/emails", `[{"email":"a@b.example","primary":true,"verified":false},{"email":"c@d.example","primary":false,"verified":true}]`, "", "", []string{"acme", "globex"}},
		"verified is a text":           {"/user/emails", `[{"email":"a@b.example","primary":true,"verified":"true"}]`, ErrMisconfigured.Reason, "", nil},
		"verified twice":               {"/user/emails", `[{"email":"a@b.example","primary":true,"verified":false,"verified":true}]`, ErrMisconfigured.Reason, "", nil},
		"Verified in another case":     {"/user/emails", `[{"email":"a@b.example","primary":true,"Verified":true}]`, "", "", []string{"acme", "globex"}},
		"no addresses":                 {"/user/emails", `[]`, "", "", []string{"acme", "globex"}},
		"no id":                        {"/user", `{"login":"octocat"}`, ErrUntrusted.Reason, "", nil},
		"id 0":                         {"/user", `{"id":0,"login":"octocat"}`, ErrUntrusted.Reason, "", nil},
		"id is negative":               {"/user", `{"id":-1}`, ErrUntrusted.Reason, "", nil},
		"id is a text":                 {"/user", `{"id":"583231"}`, ErrMisconfigured.Reason, "", nil},
		"id with a fraction":           {"/user", `{"id":583231.5}`, ErrMisconfigured.Reason, "", nil},
		"id twice":                     {"/user", `{"id":1,"id":583231}`, ErrMisconfigured.Reason, "", nil},
		"a list":                       {"/user", `[]`, ErrMisconfigured.Reason, "", nil},
		"no organisations":             {"/user/orgs", `[]`, "", "octocat@example.com", []string{}},
		"organisations without end":    {"/user/orgs", entries(pageSize), ErrMisconfigured.Reason, "", nil},
		"an organisation without name": {"/user/orgs", `[{"login":""},{"login":"acme"}]`, "", "octocat@example.com", []string{"acme"}},
		"an object":                    {"/user/orgs", `{"message":"Not Found"}`, ErrMisconfigured.Reason, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.api(c.path, c.body)
			got, err := h.signIn(h.github(GitHubOrganisations))
			if c.reason != "" {
				wantReason(t, err, c.reason)
				return
			}
			if err != nil || got.Email != c.email || got.EmailVerified != (c.email != "") || !slices.Equal(got.Groups, c.groups) || got.Groups == nil {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	t.Run("a login of somebody else", func(t *testing.T) { // renamed, and the login taken by another user; only the id counts
		h := newHub(t)
		h.api("/user", `{"id":7,"login":"octocat"}`)
		if got, err := h.signIn(h.github("")); err != nil || got.Subject != "7" || got.Name != "octocat" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("fewer scopes than asked for", func(t *testing.T) {
		h := newHub(t)
		h.scope = "read:user,user:email"
		_, err := h.signIn(h.github(GitHubTeams))
		wantReason(t, err, ErrDenied.Reason)
	})
	t.Run("a GitHub App has no scopes", func(t *testing.T) {
		h := newHub(t)
		h.scope = ""
		if _, err := h.signIn(h.github(GitHubTeams)); err != nil {
			t.Error(err)
		}
	})
	t.Run("an answer of another issuer", func(t *testing.T) {
		h := newHub(t)
		g := h.github("")
		flow, _ := h.begin(g, Request{})
		answer := goodAnswer()
		answer.Issuer = "https://evil.example"
		_, err := g.Finish(t.Context(), flow, answer, redirectURI)
		wantReason(t, err, ErrUntrusted.Reason)
		if h.count("/login/oauth/access_token") != 0 {
			t.Error("the code was redeemed")
		}
		answer.Issuer = h.URL + "/login/oauth"
		if _, err := g.Finish(t.Context(), flow, answer, redirectURI); err != nil {
			t.Error(err)
		}
	})
	t.Run("the person says no", func(t *testing.T) {
		h := newHub(t)
		g := h.github("")
		flow, _ := h.begin(g, Request{})
		_, err := g.Finish(t.Context(), flow, Answer{State: "state", Error: "access_denied"}, redirectURI)
		wantReason(t, err, ErrDenied.Reason)
	})
	t.Run("a code of before", func(t *testing.T) {
		h := newHub(t)
		g := h.github("")
		flow, _ := h.begin(g, Request{})
		_, err := g.Finish(t.Context(), flow, Answer{State: "state", Code: oauth.NewSecret("used")}, redirectURI)
		wantReason(t, err, ErrExpired.Reason)
	})
	t.Run("the API is away", func(t *testing.T) {
		h := newHub(t)
		h.answer("/api/v3/user", status(http.StatusBadGateway))
		g := h.github("")
		_, err := h.signIn(g)
		wantReason(t, err, ErrUnavailable.Reason)
		if g.State().DownSince.IsZero() {
			t.Error("it is not down")
		}
	})
	t.Run("prompt none", func(t *testing.T) {
		_, _, err := newHub(t).github("").Begin(t.Context(), Request{Prompt: "none"})
		wantReason(t, err, ErrInteraction.Reason)
	})
}

// TestGitHubPages fetches a list over several pages.
func TestGitHubPages(t *testing.T) {
	h := newHub(t)
	h.answer("/api/v3/user/orgs", func(w http.ResponseWriter, r *http.Request) {
		n := map[string]int{"1": pageSize, "2": pageSize, "3": 1}[r.URL.Query().Get("page")]
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"login":"org-%s-%d"}`, r.URL.Query().Get("page"), i)
		}
		says("application/json", "["+strings.Join(list, ",")+"]")(w, r)
	})
	g := h.github(GitHubOrganisations)
	g.settings.Organisations = []string{"org-1-0", fmt.Sprintf("org-2-%d", pageSize-1), "org-3-0"}
	if got, err := h.signIn(g); err != nil || !slices.Equal(got.Groups, g.settings.Organisations) {
		t.Errorf("got %q, %v", got.Groups, err)
	}
}

func TestTestOfGitHub(t *testing.T) {
	h := newHub(t)
	wantSteps(t, h.github("").Test(t.Context(), redirectURI), "address passed, address passed, client passed, redirect_uri advice")
	g := h.github("")
	g.settings.Client.Secret = oauth.NewSecret("wrong")
	wantSteps(t, g.Test(t.Context(), redirectURI), "address passed, address passed, client failed, redirect_uri advice")
}

func TestGitHubSettings(t *testing.T) {
	for name, s := range map[string]GitHubSettings{
		"no secret":      {Client: Client{ID: "a"}},
		"no id":          {Client: Client{Secret: oauth.NewSecret("a")}},
		"without TLS":    {Client: Client{"a", oauth.NewSecret("a")}, URL: "http://ghe.example"},
		"no URL":         {Client: Client{"a", oauth.NewSecret("a")}, URL: "ghe.example"},
		"a private file": {Client: Client{"a", oauth.NewSecret("a")}, URL: "file:///etc"},
	} {
		if _, err := NewGitHub(s, fetch.Options{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	g, err := NewGitHub(GitHubSettings{Client: Client{"a", oauth.NewSecret("a")}}, fetch.Options{})
	if err != nil || g.endpoint("/user", nil) != "https://api.github.com/user" {
		t.Errorf("got %v, %v", g, err)
	}
}
