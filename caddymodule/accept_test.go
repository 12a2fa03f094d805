package caddymodule

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// acceptSite accepts tokens of an issuer that plays GitHub Actions, Kubernetes and a company's identity provider.
const acceptSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store STORE
		limits {
			client 1000/1m per ip
		}
		scope deploy {
			server_tokens
		}
		scope orders.read
		client ci SECRET {
			scopes public deploy
		}
		client app other-SECRET {
			grants authorization_code urn:ietf:params:oauth:grant-type:jwt-bearer
			scopes public orders.read offline_access
			redirect_uris http://127.0.0.1/cb
		}
		client github:acme/taken third-SECRET
		user ada {
			email ada@acme.example
			email_verified
			password $argon2id$v=19$m=64,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$aq42HBL+IPAitHspChw/8mx5JRX2jFDkTmlsBskwH/0
		}
		trust actions PROVIDER {
			audience http://ADDR
			allow_private_network
		}
		trust other OTHER {
			audience http://ADDR
			allow_private_network
		}
		accept other {
			claims repository other/app
			subject other:{repository}
			scopes deploy
		}
		accept actions {
			claims repository acme/app acme/taken
			claims ref refs/heads/main refs/tags/v*
			subject github:{repository}
			scopes deploy
		}
		accept actions {
			claims repository acme/*
			claims environment production
			client ci
		}
		accept actions {
			claims environment staging
			client made
			scopes deploy
		}
		accept actions {
			claims environment testing
			client made
		}
		accept actions {
			claims sub system:serviceaccount:prod:*
			subject k8s:{kubernetes.io.namespace}/{kubernetes.io.serviceaccount.name}
			scopes deploy
		}
		accept actions {
			id_jag
			link verified_email
			scopes public orders.read
		}
	}
}
http://ADDR {
	oauth_server
	handle /deploy/* {
		protect deploy
		respond ok
	}
}
`

type acceptScene struct {
	*gatehouse
	provider, other *provider
	issuer          *forger
}

func startAccept(t *testing.T, store string) *acceptScene {
	t.Helper()
	s := newAcceptScene(t)
	s.gatehouse = startGatehouse(t, s.site(store).Replace(acceptSite))
	return s
}

func newAcceptScene(t *testing.T) *acceptScene {
	s := &acceptScene{provider: startProvider(t), other: startProvider(t)}
	s.provider.sayOpenID()
	s.other.sayOpenID()
	s.issuer = s.provider.signer()
	return s
}

// site returns a replacer that fills the issuers and the store into acceptSite and applies each old-new pair.
func (s *acceptScene) site(store string, oldnew ...string) *strings.Replacer {
	return strings.NewReplacer(append(oldnew, "PROVIDER", s.provider.url, "OTHER", s.other.url, "STORE", store)...)
}

// signed returns a token of the issuer with changes of its header and claims, as asserted makes it.
func (s *acceptScene) signed(f *forger, header, claims map[string]any) string {
	s.t.Helper()
	now := node.Clock().Unix()
	h, c := map[string]any{"typ": "JWT"}, map[string]any{"exp": now + 300, "nbf": now}
	maps.Copy(h, header)
	maps.Copy(c, claims)
	return s.asserted(f, s.provider.url, h, c)
}

// job returns a token as GitHub Actions makes it, and pod one as Kubernetes does: without typ, and with an array as aud.
func (s *acceptScene) job(changes map[string]any) string {
	claims := map[string]any{"sub": "repo:acme/app:ref:refs/heads/main", "repository": "acme/app", "ref": "refs/heads/main", "run_id": "17", "actor": "ada"}
	maps.Copy(claims, changes)
	return s.signed(s.issuer, nil, claims)
}

func (s *acceptScene) pod(account string) string {
	return s.signed(s.issuer, map[string]any{"typ": nil}, map[string]any{
		"sub": "system:serviceaccount:prod:" + account, "aud": []string{s.url},
		"kubernetes.io": map[string]any{"namespace": "prod", "serviceaccount": map[string]any{"name": account, "uid": "u"}},
	})
}

// grant returns an identity provider's assertion about ada for the application.
func (s *acceptScene) grant(header, changes map[string]any) string {
	h := map[string]any{"typ": "oauth-id-jag+jwt"}
	maps.Copy(h, header)
	claims := map[string]any{"sub": "ada-there", "client_id": "app", "scope": "public orders.read admin", "email": "ada@acme.example", "email_verified": true}
	maps.Copy(claims, changes)
	return s.signed(s.issuer, h, claims)
}

func (s *acceptScene) presents(text string, more ...string) (int, string) {
	s.t.Helper()
	form := url.Values{"grant_type": {string(oauth.JWTBearer)}, "assertion": {text}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	status, _, body := s.post("/oauth/token", form)
	return status, body
}

// wants presents an assertion and checks the status and, unless it is "", the error of the answer. It returns the body.
func (s *acceptScene) wants(t *testing.T, what string, want int, code, text string, more ...string) string {
	t.Helper()
	status, body := s.presents(text, more...)
	if status != want || code != "" && member(t, body, "error") != code {
		t.Errorf("%s: %d %s, want %d %s", what, status, body, want, code)
	}
	return body
}

// claimsIn returns the claims of the access token in an answer.
func claimsIn(t *testing.T, body string) map[string]any {
	t.Helper()
	return claims(t, member(t, body, "access_token"))
}

// TestQ80WorkloadsGetTokensWithoutASecret: a CI job's or pod's token that fits an `accept` rule → a server token by that rule, no refresh
// token, issuer and subject in the audit log.
func TestQ80WorkloadsGetTokensWithoutASecret(t *testing.T) {
	s := startAccept(t, "memory")
	for name, c := range map[string]struct {
		text     string
		more     []string
		sub, who string
		scope    string
	}{
		"a job":                   {s.job(nil), nil, "github:acme/app", "github:acme/app", "deploy"},
		"a tag":                   {s.job(map[string]any{"ref": "refs/tags/v1.2"}), nil, "github:acme/app", "github:acme/app", "deploy"},
		"a job of an environment": {s.job(map[string]any{"repository": "acme/other", "environment": "production"}), nil, "ci", "ci", "public deploy"},
		"with the client_id":      {s.job(map[string]any{"environment": "production"}), []string{"client_id", "ci"}, "ci", "ci", "public deploy"},
		"a narrower scope":        {s.job(map[string]any{"repository": "acme/x", "environment": "production"}), []string{"scope", "public"}, "ci", "ci", "public"},
		"a pod":                   {s.pod("builder"), nil, "k8s:prod/builder", "k8s:prod/builder", "deploy"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // a workload's token can be used more than once: a pod reads it from a file
				body := s.wants(t, name, http.StatusOK, "", c.text, c.more...)
				claims := claimsIn(t, body)
				if claims["sub"] != c.sub || claims["client_id"] != c.who || claims["scope"] != c.scope || member(t, body, "refresh_token") != "" {
					t.Errorf("got %v", claims)
				}
			}
		})
	}
	_, body := s.presents(s.job(nil))
	s.holdStatus(t, "the gate", "/deploy/x", member(t, body, "access_token"), http.StatusOK)
	holdWords(t, "the audit log", s.logs(), `"rule":"actions#1"`, `"rule":"actions#5"`, `"assertion_subject":"repo:acme/app:ref:refs/heads/main"`, `"assertion_issuer":"`+s.provider.url+`"`)
	_, _, metadata := s.get("/.well-known/oauth-authorization-server", "")
	holdWords(t, "the metadata", metadata, `"urn:ietf:params:oauth:grant-type:jwt-bearer"`, `"authorization_grant_profiles_supported":["urn:ietf:params:oauth:grant-profile:id-jag"]`)
}

// TestQ81WhatIsNoAssertion: such a token with one flaw, of another kind, for another audience, or with claims that almost fit →
// invalid_grant; a wider scope → invalid_scope. At the end a valid one passes.
func TestQ81WhatIsNoAssertion(t *testing.T) {
	s := startAccept(t, "memory")
	now := node.Clock().Unix()
	job := map[string]any{"sub": "s", "repository": "acme/app", "ref": "refs/heads/main"}
	header := func(changes map[string]any) string { return s.signed(s.issuer, changes, job) }
	stranger := *s.issuer
	stranger.key = issuertest.NewSignerOf("", "ES256").Private
	for name, text := range map[string]string{
		"an access token": header(map[string]any{"typ": "at+jwt"}), "a logout token": header(map[string]any{"typ": "logout+jwt"}),
		"alg none": header(map[string]any{"alg": "none"}), "jwk": header(map[string]any{"jwk": stranger.jwk()}), "another's key": s.signed(&stranger, nil, job), "crit": header(map[string]any{"crit": []string{"x"}}),
		"an ID token": s.job(map[string]any{"nonce": "n"}), "at_hash": s.job(map[string]any{"at_hash": "n"}), "events": s.job(map[string]any{"events": map[string]any{}}), "bound to a key": s.job(map[string]any{"cnf": map[string]any{"jkt": "x"}}), "token_use": s.job(map[string]any{"token_use": "id"}),
		"another issuer": s.job(map[string]any{"iss": "https://other.example"}), "no issuer": s.job(map[string]any{"iss": nil}), "ours": s.job(map[string]any{"iss": s.url}),
		"aud of another": s.job(map[string]any{"aud": "https://other.example"}), "aud with another": s.job(map[string]any{"aud": []string{s.url, "https://other.example"}}), "no aud": s.job(map[string]any{"aud": nil}), "aud of the endpoint": s.job(map[string]any{"aud": s.url + "/oauth/token"}),
		"expired": s.job(map[string]any{"exp": now - 60}), "no exp": s.job(map[string]any{"exp": nil}), "not yet": s.job(map[string]any{"nbf": now + 120}), "no sub": s.job(map[string]any{"sub": nil}),
		"another repository": s.job(map[string]any{"repository": "evil/app"}), "a branch": s.job(map[string]any{"ref": "refs/heads/x"}), "a deeper tag": s.job(map[string]any{"ref": "refs/tags/v1/x"}), "another prefix": s.job(map[string]any{"repository": "xacme/app"}), "more behind": s.job(map[string]any{"repository": "acme/app2"}), "a line more": s.job(map[string]any{"repository": "acme/app\n"}),
		"no claim": s.job(map[string]any{"repository": nil}), "two repositories": s.job(map[string]any{"repository": []string{"acme/app", "acme/taken2"}}), "an object": s.job(map[string]any{"repository": map[string]any{"x": "acme/app"}}), "the id of a client": s.job(map[string]any{"repository": "acme/taken"}),
		"no JWT": "x", "two parts": "a.b",
	} {
		s.wants(t, name, http.StatusBadRequest, "invalid_grant", text)
	}
	for name, c := range map[string]struct {
		more   []string
		status int
		code   string
	}{
		"no assertion":            {[]string{"assertion", ""}, http.StatusBadRequest, "invalid_request"},
		"a wider scope":           {[]string{"scope", "public"}, http.StatusBadRequest, "invalid_scope"},
		"a scope for users":       {[]string{"scope", "orders.read"}, http.StatusBadRequest, "invalid_scope"},
		"another resource":        {[]string{"resource", "https://other.example"}, http.StatusBadRequest, "invalid_target"},
		"another client's id":     {[]string{"client_id", "app"}, http.StatusBadRequest, "invalid_grant"},
		"a wrong secret":          {[]string{"client_id", "ci", "client_secret", "x"}, http.StatusUnauthorized, "invalid_client"},
		"another client's secret": {[]string{"client_id", "app", "client_secret", "other-" + confSecret}, http.StatusBadRequest, "invalid_grant"},
	} {
		s.wants(t, name, c.status, c.code, s.job(nil), c.more...)
	}
	// A client that the operator has added at runtime gets scopes that both it and the rule have, and no user scopes.
	s.ok("client", "add", "--id", "made", "--name", "Made", "--grant", "client_credentials", "--scope", "public", "--scope", "deploy", "--scope", "orders.read")
	in := func(environment string) string {
		return s.job(map[string]any{"repository": "x/y", "environment": environment})
	}
	if body := s.wants(t, "within the rule", http.StatusOK, "", in("staging")); claimsIn(t, body)["scope"] != "deploy" {
		t.Errorf("within the rule: %s", body)
	}
	s.wants(t, "a user's scope", http.StatusBadRequest, "invalid_scope", in("testing"), "scope", "orders.read")
	s.ok("client", "disable", "made")
	s.wants(t, "a client that is disabled", http.StatusBadRequest, "invalid_grant", in("staging"))
	// Rules apply only to their own issuer.
	theirs := s.other.signer()
	for repository, want := range map[string]int{"acme/app": http.StatusBadRequest, "other/app": http.StatusOK} {
		text := s.signed(theirs, nil, map[string]any{"iss": s.other.url, "sub": "s", "repository": repository, "ref": "refs/heads/main"})
		s.wants(t, repository+" of the other issuer", want, "", text)
	}
	good := s.job(nil)
	s.wants(t, "a good one", http.StatusOK, "", good)
	s.notLogged(t, good)
}

// TestQ83APersonOfAnotherIssuer: an identity assertion (ID-JAG) for a known or linkable person and this client → a user token with the
// scopes in common; unknown, unverified, another client, twice, too long → refused.
func TestQ83APersonOfAnotherIssuer(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	s := startAccept(t, "postgres "+dsn)
	as := func(what string, want int, code, text string, more ...string) string {
		t.Helper()
		return s.wants(t, what, want, code, text, append([]string{"client_id", "app", "client_secret", "other-" + confSecret}, more...)...)
	}
	site := s.site("postgres " + dsn)
	s.reload(s.site("postgres "+dsn, "link verified_email", "").Replace(acceptSite))
	as("by her address, where no rule says so", http.StatusBadRequest, "invalid_grant", s.grant(nil, nil))
	s.reload(site.Replace(acceptSite))
	first := s.grant(nil, nil)
	body := as("her", http.StatusOK, "", first)
	if claims := claimsIn(t, body); claims["sub"] != "ada" || claims["client_id"] != "app" || claims["scope"] != "public orders.read" || member(t, body, "refresh_token") != "" {
		t.Errorf("got %v", claims)
	}
	now := node.Clock().Unix()
	for name, c := range map[string]struct {
		text string
		more []string
		code string
	}{
		"again":                     {first, nil, "invalid_grant"},
		"for another client":        {s.grant(nil, map[string]any{"client_id": "ci"}), nil, "invalid_grant"},
		"for no client":             {s.grant(nil, map[string]any{"client_id": nil}), nil, "invalid_grant"},
		"without jti":               {s.grant(nil, map[string]any{"jti": nil}), nil, "invalid_grant"},
		"for a day":                 {s.grant(nil, map[string]any{"exp": now + 86400}), nil, "invalid_grant"},
		"an address unverified":     {s.grant(nil, map[string]any{"sub": "x", "email_verified": false}), nil, "invalid_grant"},
		"of nobody":                 {s.grant(nil, map[string]any{"sub": "y", "email": "eve@evil.example"}), nil, "invalid_grant"},
		"another account of hers":   {s.grant(nil, map[string]any{"sub": "z"}), nil, "invalid_grant"},
		"typ JWT":                   {s.grant(map[string]any{"typ": "JWT"}, nil), nil, "invalid_grant"},
		"typ at+jwt":                {s.grant(map[string]any{"typ": "at+jwt"}, nil), nil, "invalid_grant"},
		"for two audiences":         {s.grant(nil, map[string]any{"aud": []string{s.url, "https://other.example"}}), nil, "invalid_grant"},
		"for another resource":      {s.grant(nil, map[string]any{"resource": "https://other.example"}), nil, "invalid_target"},
		"scopes that nobody has":    {s.grant(nil, map[string]any{"scope": "admin"}), nil, "invalid_scope"},
		"scopes in a list":          {s.grant(nil, map[string]any{"scope": []string{"public"}}), nil, "invalid_grant"},
		"scopes in an object":       {s.grant(nil, map[string]any{"scope": map[string]any{"public": true}}), nil, "invalid_grant"},
		"no scope of several":       {s.grant(nil, map[string]any{"scope": ""}), nil, "invalid_grant"},
		"no resource of several":    {s.grant(nil, map[string]any{"resource": []string{}}), nil, "invalid_grant"},
		"an empty resource":         {s.grant(nil, map[string]any{"resource": []string{s.url + "/deploy", ""}}), nil, "invalid_grant"},
		"a resource in an object":   {s.grant(nil, map[string]any{"resource": map[string]any{"uri": s.url}}), nil, "invalid_grant"},
		"a refresh token":           {s.grant(nil, map[string]any{"scope": "offline_access"}), nil, "invalid_scope"},
		"more than the grant's":     {s.grant(nil, map[string]any{"scope": "public"}), []string{"scope", "orders.read"}, "invalid_scope"},
		"another resource is asked": {s.grant(nil, map[string]any{"resource": s.url + "/deploy"}), []string{"resource", s.url + "/other"}, "invalid_target"},
	} {
		as(name, http.StatusBadRequest, c.code, c.text, c.more...)
	}
	s.wants(t, "no client", http.StatusUnauthorized, "invalid_client", s.grant(nil, nil))
	s.wants(t, "a client's id alone", http.StatusUnauthorized, "invalid_client", s.grant(nil, nil), "client_id", "app")
	s.wants(t, "a client without the grant", http.StatusBadRequest, "unauthorized_client", s.grant(nil, map[string]any{"client_id": "ci"}), "client_id", "ci", "client_secret", confSecret)
	// The linked account identifies her now, whatever her address at the issuer.
	if body := as("with another address", http.StatusOK, "", s.grant(nil, map[string]any{"email": "moved@acme.example"})); claimsIn(t, body)["sub"] != "ada" {
		t.Errorf("with another address: %s", body)
	}
	// An assertion that was used here is also used up on another node.
	other := s.otherNode(dsn)
	used := s.grant(nil, nil)
	as("used here", http.StatusOK, "", used)
	_, _, err := grants.New(other, s.loaded().others.accepted(&s.app().settings, s.app().accounts())).Exchange(t.Context(), grants.Request{
		GrantType: oauth.JWTBearer, Assertion: oauth.NewSecret(used),
		Client: clients.Authentication{Address: "192.0.2.1", Readings: []clients.Credential{{ID: "app", Secret: oauth.NewSecret("other-" + confSecret)}}},
	})
	if oauth.AsError(err).Reason != "assertion_used" {
		t.Errorf("on another node: %v", err)
	}
	// An assertion does not let in users whom `allow` would refuse when they sign in at that provider.
	for _, c := range []struct {
		allow  string
		groups []string
		status int
	}{
		{"email_domain other.example", nil, http.StatusBadRequest},
		{"group staff", nil, http.StatusBadRequest},
		{"group staff", []string{"guests"}, http.StatusBadRequest},
		{"email_domain acme.example\n\t\t\t\tallow group staff", []string{"staff"}, http.StatusOK},
	} {
		// Another provider, which comes first and refuses no user, has no say.
		signIn := "sign_in {\n\t\t\tprovider lax " + s.other.url + " {\n\t\t\t\tclient gatehouse written-out-secret\n\t\t\t\tallow_private_network\n\t\t\t}" +
			"\n\t\t\tprovider corp " + s.provider.url + " {\n\t\t\t\tclient gatehouse written-out-secret\n\t\t\t\tallow_private_network\n\t\t\t\tgroups claim groups\n\t\t\t\tallow " + c.allow + "\n\t\t\t}\n\t\t}\n\t\tuser ada"
		s.reload(s.site("postgres "+dsn, "user ada", signIn).Replace(acceptSite))
		as(fmt.Sprintf("allow %s, in %v", c.allow, c.groups), c.status, "", s.grant(nil, map[string]any{"groups": c.groups}))
	}
	s.notLogged(t, first, used)
}

// TestQ82GuessedAssertionsAreCounted: guesses at one issuer from one address → 429; another issuer → served.
func TestQ82GuessedAssertionsAreCounted(t *testing.T) {
	s := newAcceptScene(t)
	s.gatehouse = startGatehouse(t, s.site("memory", "client 1000/1m per ip", "client 3/1m per ip").Replace(acceptSite))
	for range 3 {
		s.wants(t, "a guess", http.StatusBadRequest, "", s.job(map[string]any{"repository": "evil/app"}))
	}
	s.wants(t, "after three failures", http.StatusTooManyRequests, "", s.job(nil))
	s.wants(t, "another issuer", http.StatusOK, "", s.signed(s.other.signer(), nil, map[string]any{"iss": s.other.url, "sub": "s", "repository": "other/app"}))
}

// TestP170AccountsAtATrust: an account linked at one issuer, presented by another issuer that takes over the trust's name → refused.
func TestP170AccountsAtATrust(t *testing.T) {
	s := startAccept(t, "memory")
	check(t, s.app().node.Store().Identities.LinkIdentity(t.Context(), store.Identity{
		Provider: "trust:actions", Subject: "1", UserID: "ada", DeclaredEmail: "ada@acme.example", Source: "trust " + s.provider.url,
	}))
	s.provider, s.other = s.other, s.provider
	s.issuer = s.provider.signer()
	s.reload(s.site("memory").Replace(acceptSite))
	s.wants(t, "another issuer of the name", http.StatusBadRequest, "", s.grant(nil, map[string]any{"sub": "1", "email": nil}), "client_id", "app", "client_secret", "other-"+confSecret)
	holdWords(t, "the log", s.logs(), `"reason":"identity_of_other_provider"`)
}

// TestQ205ATrustForAcceptAloneNeedsNoAudience: a `trust` without audience, used by `accept` → its tokens are exchanged and pass no gate.
func TestQ205ATrustForAcceptAloneNeedsNoAudience(t *testing.T) {
	s := newAcceptScene(t)
	site := s.site("memory", "\t\t\taudience http://ADDR\n", "").Replace(acceptSite)
	s.gatehouse = startGatehouse(t, site)
	body := s.wants(t, "a job", http.StatusOK, "", s.job(nil))
	s.holdStatus(t, "the token that was given", "/deploy/x", member(t, body, "access_token"), http.StatusOK)
	job := s.signed(s.issuer, map[string]any{"typ": "at+jwt"}, map[string]any{"sub": "x", "client_id": "x", "scope": "deploy"})
	s.holdStatus(t, "the job's own token", "/deploy/x", job, http.StatusUnauthorized)
	file := func(lines string) error {
		config, err := adapt(s.vars.Replace(strings.Replace(site, "protect deploy", "protect deploy {\n\t\t\t"+lines+"\n\t\t}", 1)))
		if err == nil {
			err = validateJSON(t, config)
		}
		return err
	}
	if err := file("issuer self actions"); err == nil || !strings.Contains(err.Error(), "issuer actions: its trust has no audience") || !strings.Contains(err.Error(), "Caddyfile:") {
		t.Errorf("a route takes its tokens: %v", err)
	}
	if err := file("issuer self actions\n\t\t\taudience http://ADDR"); err != nil {
		t.Errorf("with an audience of its own: %v", err)
	}
}
