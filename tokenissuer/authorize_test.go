package tokenissuer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestA47ToA53RequestsThatAreRefused: each of these errors goes back to the client.
func TestA47ToA53RequestsThatAreRefused(t *testing.T) {
	f := newFlow(t)
	f.addClient(&store.Client{ID: "machine", Grants: []oauth.GrantType{oauth.ClientCredentials}})
	for _, v := range []struct {
		name, client string
		edit         func(*AuthorizationParameters)
		want         oauth.ErrorCode
	}{
		{"A47 no response_type", "conf", func(p *AuthorizationParameters) { p.ResponseType = "" }, oauth.InvalidRequest},
		{"A47 token", "conf", func(p *AuthorizationParameters) { p.ResponseType = "token" }, oauth.UnsupportedResponseType},
		{"A47 id_token", "conf", func(p *AuthorizationParameters) { p.ResponseType = "id_token" }, oauth.UnsupportedResponseType},
		{"A47 code token", "conf", func(p *AuthorizationParameters) { p.ResponseType = "code token" }, oauth.UnsupportedResponseType},
		{"A47 CODE", "conf", func(p *AuthorizationParameters) { p.ResponseType = "CODE" }, oauth.UnsupportedResponseType},
		{"A47 leading space", "conf", func(p *AuthorizationParameters) { p.ResponseType = " code" }, oauth.UnsupportedResponseType},
		{"A47 code code", "conf", func(p *AuthorizationParameters) { p.ResponseType = "code code" }, oauth.UnsupportedResponseType},
		{"A49 fragment", "conf", func(p *AuthorizationParameters) { p.ResponseMode = "fragment" }, oauth.InvalidRequest},
		{"A49 form_post", "conf", func(p *AuthorizationParameters) { p.ResponseMode = "form_post" }, oauth.InvalidRequest},
		{"A49 query.jwt", "conf", func(p *AuthorizationParameters) { p.ResponseMode = "query.jwt" }, oauth.InvalidRequest},
		{"A49 web_message", "conf", func(p *AuthorizationParameters) { p.ResponseMode = "web_message" }, oauth.InvalidRequest},
		{"A50 unknown scope", "conf", func(p *AuthorizationParameters) { p.Scope = "nonsense" }, oauth.InvalidScope},
		{"A50 scope not allowed", "legacy", func(p *AuthorizationParameters) { p.Scope = "refresh_token" }, oauth.InvalidScope},
		{"A50 long scope", "conf", func(p *AuthorizationParameters) { p.Scope = strings.Repeat("a ", 2500) }, oauth.InvalidScope},
		{"A51 twice", "conf", func(p *AuthorizationParameters) {
			p.Malformed = oauth.NewError(oauth.InvalidRequest, "parameter_duplicate")
		}, oauth.InvalidRequest},
		{"A53 state", "conf", func(p *AuthorizationParameters) { p.State = "a\xff" }, oauth.InvalidRequest},
		{"state too long", "conf", func(p *AuthorizationParameters) { p.State = strings.Repeat("a", 8<<10+1) }, oauth.InvalidRequest},
		{"A46 request", "conf", func(p *AuthorizationParameters) { p.HasRequest = true }, oauth.RequestNotSupported},
		{"A46 request_uri", "conf", func(p *AuthorizationParameters) { p.HasRequestURI = true }, oauth.RequestURINotSupported},
		{"T57 a public client without challenge", "pub", func(p *AuthorizationParameters) { p.CodeChallenge, p.CodeChallengeMethod = "", "" }, oauth.InvalidRequest},
		{"T58 plain", "conf", func(p *AuthorizationParameters) { p.CodeChallengeMethod = "plain" }, oauth.InvalidRequest},
		{"T58 s256", "conf", func(p *AuthorizationParameters) { p.CodeChallengeMethod = "s256" }, oauth.InvalidRequest},
		{"T58 S512", "conf", func(p *AuthorizationParameters) { p.CodeChallengeMethod = "S512" }, oauth.InvalidRequest},
		{"T58 garbage", "conf", func(p *AuthorizationParameters) { p.CodeChallengeMethod = "plain\ngarbage" }, oauth.InvalidRequest},
		{"T58 method alone", "conf", func(p *AuthorizationParameters) { p.CodeChallenge = "" }, oauth.InvalidRequest},
		{"T58 challenge alone", "conf", func(p *AuthorizationParameters) { p.CodeChallengeMethod = "" }, oauth.InvalidRequest},
		{"T58 42 characters", "conf", func(p *AuthorizationParameters) { p.CodeChallenge = challenge[:42] }, oauth.InvalidRequest},
		{"T58 44 characters", "conf", func(p *AuthorizationParameters) { p.CodeChallenge = challenge + "A" }, oauth.InvalidRequest},
		{"T58 another alphabet", "conf", func(p *AuthorizationParameters) { p.CodeChallenge = challenge[:42] + "+" }, oauth.InvalidRequest},
		{"T58 stray bits", "conf", func(p *AuthorizationParameters) { p.CodeChallenge = challenge[:42] + "N" }, oauth.InvalidRequest},
		{"T58 a line break counted", "conf", func(p *AuthorizationParameters) { p.CodeChallenge = strings.Repeat("A", 42) + "\n" }, oauth.InvalidRequest},
		{"prompt unknown", "conf", func(p *AuthorizationParameters) { p.Prompt = "create" }, oauth.InvalidRequest},
		{"prompt contradictory", "conf", func(p *AuthorizationParameters) { p.Prompt = "none login" }, oauth.InvalidRequest},
		{"max_age negative", "conf", func(p *AuthorizationParameters) { p.MaxAge = "-1" }, oauth.InvalidRequest},
		{"max_age with a sign", "conf", func(p *AuthorizationParameters) { p.MaxAge = "+1" }, oauth.InvalidRequest},
		{"max_age a fraction", "conf", func(p *AuthorizationParameters) { p.MaxAge = "1.5" }, oauth.InvalidRequest},
		{"max_age no number", "conf", func(p *AuthorizationParameters) { p.MaxAge = "5m" }, oauth.InvalidRequest},
		{"max_age a space", "conf", func(p *AuthorizationParameters) { p.MaxAge = " 5" }, oauth.InvalidRequest},
		{"max_age too large", "conf", func(p *AuthorizationParameters) { p.MaxAge = "9223372036854775808" }, oauth.InvalidRequest},
		{"hint too long", "conf", func(p *AuthorizationParameters) { p.LoginHint = strings.Repeat("a", 513) }, oauth.InvalidRequest},
		{"hint not UTF-8", "conf", func(p *AuthorizationParameters) { p.LoginHint = "\xff" }, oauth.InvalidRequest},
		{"no grant", "machine", func(*AuthorizationParameters) {}, oauth.UnauthorizedClient},
	} {
		t.Run(v.name, func(t *testing.T) {
			p := parameters("")
			v.edit(&p)
			_, err := f.read(v.client, p)
			tokentest.WantCode(t, err, v.want)
		})
	}
}

func TestA47ToA54RequestsThatAreTaken(t *testing.T) {
	f := newFlow(t)
	for name, edit := range map[string]func(*AuthorizationParameters){
		"as it is": func(*AuthorizationParameters) {}, "A49 response_mode query": func(p *AuthorizationParameters) { p.ResponseMode = "query" },
		"A54 no state": func(p *AuthorizationParameters) { p.State = "" }, "A52 odd state": func(p *AuthorizationParameters) { p.State = "\r\n\x00🚪&=" },
		"A50 no scope": func(p *AuthorizationParameters) { p.Scope = "" }, "prompt": func(p *AuthorizationParameters) { p.Prompt = "login consent" },
	} {
		p := parameters("public")
		edit(&p)
		r, err := f.read("conf", p)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sameScopes(t, r.Scopes, oauth.ScopePublic)
		if r.ID != "" || r.State != p.State || r.RedirectURI != callback || r.Challenge != challenge || !r.At.Equal(tokentest.Start) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// wants says what comes next for a request of the scope.
func (f *flow) wants(t *testing.T, clientID string, p AuthorizationParameters, s *Session) Step {
	t.Helper()
	r, err := f.read(clientID, p)
	f.must(err)
	step, err := f.NextStep(t.Context(), &r, f.client(clientID), s)
	f.must(err)
	return step
}

func TestA75AConfidentialClientIsAskedAboutOnce(t *testing.T) {
	f := newFlow(t)
	s := f.session("ada")
	if got := f.wants(t, "conf", parameters("public"), nil); got != AskSignIn {
		t.Errorf("nobody is signed in: %v", got)
	}
	if got := f.wants(t, "conf", parameters("public trusted"), s); got != AskConsent {
		t.Errorf("never allowed: %v", got)
	}
	f.code("conf", parameters("public trusted"))
	for scope, want := range map[string]Step{"public trusted": GrantNow, "trusted": GrantNow, "": GrantNow, "public trusted refresh_token": AskConsent, "refresh_token": AskConsent} {
		if got := f.wants(t, "conf", parameters(scope), s); got != want {
			t.Errorf("%q: %v, want %v", scope, got, want)
		}
	}
	// Who asks for less does not make the rest forgotten.
	f.code("conf", parameters("public"))
	if got := f.wants(t, "conf", parameters("public trusted"), s); got != GrantNow {
		t.Errorf("after a narrower request: %v", got)
	}
	// Another user, another client.
	if got := f.wants(t, "conf", parameters("public"), f.session("eve")); got != AskConsent {
		t.Errorf("another user: %v", got)
	}
	if got := f.wants(t, "other", parameters("public"), s); got != AskConsent {
		t.Errorf("another client: %v", got)
	}
	f.must(f.RevokeApplication(t.Context(), s.User, "conf"))
	if got := f.wants(t, "conf", parameters("public"), s); got != AskConsent {
		t.Errorf("withdrawn: %v", got)
	}
}

// TestA75WhatIsUntickedIsForgotten: a scope that the user has not allowed this time is asked about again.
func TestA75WhatIsUntickedIsForgotten(t *testing.T) {
	f := newFlow(t)
	s := f.session("ada")
	f.code("conf", parameters("public trusted"))
	r, err := f.read("conf", parameters("public trusted"))
	f.must(err)
	_, err = f.Approve(t.Context(), &r, f.client("conf"), s, oauth.Scopes{oauth.ScopePublic})
	f.must(err)
	for scope, want := range map[string]Step{"public": GrantNow, "trusted": AskConsent} {
		if got := f.wants(t, "conf", parameters(scope), s); got != want {
			t.Errorf("%q: %v, want %v", scope, got, want)
		}
	}
}

// TestA76APublicClientIsAlwaysAskedAbout: anybody can use its id.
func TestA76APublicClientIsAlwaysAskedAbout(t *testing.T) {
	f := newFlow(t)
	s := f.session("ada")
	f.addClient(&store.Client{ID: "own-app", Type: store.PublicClient, FirstParty: true})
	f.code("pub", parameters("public"))
	f.must(f.store.PutConsent(t.Context(), "u-ada", "pub", oauth.Scopes{oauth.ScopePublic}, tokentest.Start)) // as from when it had a secret
	if got := f.wants(t, "pub", parameters("public"), s); got != AskConsent {
		t.Errorf("public: %v", got)
	}
	for _, f.redirectURI = range []string{"http://127.0.0.1:5000/cb", "http://127.0.0.1:5001/cb"} {
		f.code("nat", parameters("public"))
		if got := f.wants(t, "nat", parameters("public"), s); got != AskConsent {
			t.Errorf("native at %s: %v", f.redirectURI, got)
		}
	}
	f.redirectURI = callback
	for _, client := range []string{"own-app", "first"} {
		if got := f.wants(t, client, parameters("public"), s); got != GrantNow {
			t.Errorf("%s: %v", client, got)
		}
	}
}

// TestMaxAgeAsksForAFreshSignIn: a client that the gate tells to come back with a fresher sign-in (RFC 9470 §4) gets one.
func TestMaxAgeAsksForAFreshSignIn(t *testing.T) {
	f := newFlow(t)
	s := f.session("ada")
	f.code("conf", parameters("public"))
	with := func(maxAge, prompt string) AuthorizationParameters {
		p := parameters("public")
		p.MaxAge, p.Prompt = maxAge, prompt
		return p
	}
	f.wait(5 * time.Minute)
	for maxAge, want := range map[string]Step{
		"": GrantNow, "0": AskSignIn, "1": AskSignIn, "299": AskSignIn, "300": GrantNow, "00301": GrantNow, "9223372036854775807": GrantNow,
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
	if got := f.wants(t, "conf", with("1000", "login"), s); got != AskSignIn {
		t.Errorf("prompt=login beside a max_age that is met: %v", got)
	}
	// Who stays on a page until the sign-in is too old is asked for it once, and not again however long they take then.
	r, err := f.read("conf", with("300", ""))
	f.must(err)
	f.wait(time.Second)
	for _, v := range []struct {
		name string
		s    *Session
		want Step
	}{{"the sign-in has become too old", s, AskSignIn}, {"after another one", f.session("ada"), GrantNow}} {
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
	if step, err := f.NextStep(t.Context(), &zero, f.client("conf"), fresh); err != nil || step != GrantNow {
		t.Errorf("max_age=0, nine minutes after the sign-in that it asked for: %v, %v", step, err)
	}
}

func TestPromptDecidesWhatIsAsked(t *testing.T) {
	f := newFlow(t)
	s := f.session("ada")
	f.code("conf", parameters("public"))
	with := func(prompt string) AuthorizationParameters {
		p := parameters("public")
		p.Prompt = prompt
		return p
	}
	f.wait(time.Second)
	for prompt, want := range map[string]Step{"": GrantNow, "consent": AskConsent, "login": AskSignIn, "select_account": AskSignIn, "login consent": AskSignIn} {
		if got := f.wants(t, "conf", with(prompt), s); got != want {
			t.Errorf("%q: %v, want %v", prompt, got, want)
		}
	}
	// The password that was asked for counts.
	r, err := f.read("conf", with("login"))
	f.must(err)
	f.wait(time.Second)
	if step, err := f.NextStep(t.Context(), &r, f.client("conf"), f.session("ada")); err != nil || step != GrantNow {
		t.Errorf("after a new sign-in: %v, %v", step, err)
	}
	for name, v := range map[string]struct {
		client string
		s      *Session
		want   oauth.ErrorCode
	}{
		"nobody": {"conf", nil, oauth.LoginRequired}, "not allowed": {"other", s, oauth.ConsentRequired}, "public": {"pub", s, oauth.ConsentRequired},
	} {
		r, err := f.read(v.client, with("none"))
		f.must(err)
		_, err = f.NextStep(t.Context(), &r, f.client(v.client), v.s)
		if oauth.AsError(err).Code != v.want {
			t.Errorf("prompt=none, %s: %v", name, err)
		}
	}
	if got := f.wants(t, "conf", with("none"), s); got != GrantNow {
		t.Errorf("prompt=none, allowed: %v", got)
	}
	f.store.fail("Consent", false)
	r, err = f.read("conf", parameters("public"))
	f.must(err)
	if step, err := f.NextStep(t.Context(), &r, f.client("conf"), s); err == nil || step == GrantNow {
		t.Error("a store that is down has consented")
	}
}

// TestA63OneDecisionARequest, in this tab or another, yes or no.
func TestA63OneDecisionARequest(t *testing.T) {
	f := newFlow(t)
	ctx := context.Background()
	s := f.session("ada")
	conf := f.client("conf")
	for name, first := range map[string]func(*AuthorizationRequest) error{
		"allowed": func(r *AuthorizationRequest) error { _, err := f.Approve(ctx, r, conf, s, r.Scopes); return err },
		"denied": func(r *AuthorizationRequest) error {
			err := f.Deny(ctx, r, s)
			if oauth.AsError(err).Code == oauth.Denied {
				return nil
			}
			return err
		},
	} {
		r := f.pending("conf", parameters("public"))
		f.must(first(&r))
		f.wait(9 * time.Minute)
		_, err := f.Approve(ctx, &r, conf, s, r.Scopes)
		if oauth.AsError(err).Reason != oauth.ReasonDecided {
			t.Errorf("%s, then allowed: %v", name, err)
		}
		if err := f.Deny(ctx, &r, s); oauth.AsError(err).Reason != oauth.ReasonDecided {
			t.Errorf("%s, then denied: %v", name, err)
		}
	}
	r := f.pending("conf", parameters("public"))
	errs := tokentest.Together(racers, func(int) error { _, err := f.Approve(ctx, &r, conf, s, r.Scopes); return err })
	if n := wins(t, errs, oauth.InvalidRequest); n != 1 {
		t.Errorf("%d codes of one request", n)
	}
}

func TestA59A67WhatTheUserAllows(t *testing.T) {
	f := newFlow(t)
	s := f.session("ada")
	for name, v := range map[string]struct {
		allowed oauth.Scopes
		want    []string
	}{
		"all": {oauth.Scopes{"public", "trusted"}, []string{"trusted", "public"}}, "one": {oauth.Scopes{"trusted"}, []string{"trusted"}}, "one that was added": {oauth.Scopes{"public", "refresh_token"}, []string{"public"}},
		"none": {nil, nil}, "others only": {oauth.Scopes{"refresh_token", ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := f.read("conf", parameters("trusted public"))
			f.must(err)
			code, err := f.Approve(t.Context(), &r, f.client("conf"), s, v.allowed)
			if v.want == nil {
				tokentest.WantCode(t, err, oauth.Denied)
				if oauth.AsError(err).Description != "The resource owner or authorization server denied the request." || !code.IsEmpty() {
					t.Errorf("%v", oauth.AsError(err).Description)
				}
				return
			}
			f.must(err)
			tokens, err := f.redeem("conf", code)
			f.must(err)
			sameScopes(t, tokens.Scopes, v.want...)
		})
	}
}

// TestAFaultWhileDeciding: what is not stored was not decided. A consent that is not remembered is asked for again.
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
	for _, step := range []string{"PutConsent", "Consent"} {
		f.store.fail(step, false)
		r, err = f.read("conf", parameters("public"))
		f.must(err)
		code, err = f.Approve(t.Context(), &r, conf, s, r.Scopes)
		f.must(err)
		f.store.fail("", false)
		_, err = f.redeem("conf", code)
		f.must(err)
		if got := f.wants(t, "conf", parameters("public"), s); got != AskConsent {
			t.Errorf("%s: %v", step, got)
		}
	}
}
