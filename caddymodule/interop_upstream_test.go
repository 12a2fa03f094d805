package caddymodule

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	idp "github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// nodeProvider is node oidc-provider, at which people sign in. It runs in its own process.
type nodeProvider struct {
	t      *testing.T
	issuer string
	in     io.Writer
	out    *bufio.Scanner
}

const (
	nodeClient = "gatehouse"
	nodeSecret = "a secret: of/our+client"
)

// startNodeProvider starts the process. The provider answers only after it receives start.
func startNodeProvider(t *testing.T) *nodeProvider {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("this test needs Node.js: ", err)
	}
	installPackages(t)
	script := exec.Command(node, "oidc-upstream.mjs")
	script.Dir = npmPackages
	var complaints strings.Builder
	script.Stderr = &complaints
	in, err := script.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := script.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // ends the process
		if err := script.Wait(); err != nil || t.Failed() {
			t.Logf("oidc-upstream.mjs: %v\n%s", err, complaints.String())
		}
	})
	p := &nodeProvider{t: t, issuer: "http://" + freeAddr(t), in: in, out: bufio.NewScanner(out)}
	given, err := json.Marshal(map[string]any{
		"issuer": p.issuer, "client": map[string]string{"id": nodeClient, "secret": nodeSecret},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.in.Write(append(given, '\n')); err != nil {
		t.Fatal(err)
	}
	p.tell("stop") // it has its port, but does not serve
	return p
}

// register sets the URLs to which the provider may redirect browsers, also after a sign-out.
func (p *nodeProvider) register(redirectURIs ...string) {
	p.t.Helper()
	p.tell("register " + strings.Join(redirectURIs, " "))
}

// tell sends a command and waits until it is done.
func (p *nodeProvider) tell(word string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, word+"\n"); err != nil {
		p.t.Fatal(err)
	}
	for p.out.Scan() {
		if p.out.Text() == "done" {
			return
		}
	}
	p.t.Fatalf("the provider ended at %q: %v", word, p.out.Err())
}

// person is a browser at the provider, with a user who enters a name there. It follows redirects until the provider
// redirects it back.
type person struct {
	t      *testing.T
	client *http.Client
}

func newPerson(t *testing.T, jar http.CookieJar) *person {
	t.Helper()
	client := &http.Client{Jar: jar, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &person{t, client}
}

// comesBack signs in by that name, and returns the URL to which the provider then redirects the browser.
func (p *person) comesBack(location, name, redirectURI string) *url.URL {
	p.t.Helper()
	response := p.get(location)
	for range 20 {
		if next := response.Header.Get("Location"); next != "" {
			where, err := response.Request.URL.Parse(next)
			if err != nil {
				p.t.Fatal(err)
			}
			if strings.HasPrefix(where.String(), redirectURI) {
				return where
			}
			response = p.get(where.String())
			continue
		}
		action, fields := p.form(response)
		if fields.Get("prompt") == "login" {
			fields.Set("login", name)
			fields.Set("password", "anything")
		}
		request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, action, strings.NewReader(fields.Encode()))
		if err != nil {
			p.t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response = p.do(request)
	}
	p.t.Fatal("the provider never sends the browser back")
	return nil
}

func (p *person) get(location string) *http.Response {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, location, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.do(request)
}

func (p *person) do(request *http.Request) *http.Response {
	p.t.Helper()
	response, err := p.client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	response.Body = io.NopCloser(strings.NewReader(string(body)))
	return response
}

// form returns the form of a page with its preset fields.
func (p *person) form(response *http.Response) (action string, fields url.Values) {
	p.t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	document, err := html.Parse(strings.NewReader(string(body)))
	if err != nil {
		p.t.Fatal(err)
	}
	fields = make(url.Values)
	for n := range document.Descendants() {
		switch attributes := attributesOf(n); {
		case n.Data == "form" && action == "":
			where, err := response.Request.URL.Parse(attributes["action"])
			if err != nil {
				p.t.Fatal(err)
			}
			action = where.String()
		case n.Data == "input" && attributes["name"] != "":
			fields.Set(attributes["name"], attributes["value"])
		}
	}
	if action == "" {
		p.t.Fatalf("%d, no form at %s: %s", response.StatusCode, response.Request.URL, body)
	}
	return action, fields
}

// TestP23InteropOIDCProviderAsUpstream: node oidc-provider: sign-ins of several people, lies, rotated keys, slowness, outage, sign-out →
// the right account, or the refusal of P1 to P5.
func TestP23InteropOIDCProviderAsUpstream(t *testing.T) {
	const redirectURI = "https://id.example/oauth/callback/corp"
	node := startNodeProvider(t)
	node.register(redirectURI)
	node.tell("start")
	corp, err := idp.NewOpenID(idp.Settings{
		Name: "corp", Issuer: node.issuer, Client: idp.Client{ID: nodeClient, Secret: oauth.NewSecret(nodeSecret)},
		Scopes: []string{"openid", "email", "profile", "roles"}, GroupsClaim: "realm_access.roles", AllowPrivateNetwork: true,
	}, fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	signIn := func(name string) (signin.Account, error) {
		t.Helper()
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		location, flow, err := corp.Begin(t.Context(), idp.Request{RedirectURI: redirectURI, State: "the state", Prompt: "login"})
		if err != nil {
			return signin.Account{}, err
		}
		back := newPerson(t, jar).comesBack(location, name, redirectURI)
		answer, err := idp.ReadAnswer(back.Query())
		if err != nil || answer.State != "the state" || answer.Issuer != node.issuer {
			t.Fatalf("came back with %s, %v", back, err)
		}
		account, err := corp.Finish(t.Context(), flow, answer, redirectURI)
		if _, again := corp.Finish(t.Context(), flow, answer, redirectURI); err == nil && oauth.AsError(again).Reason != idp.ErrExpired.Reason {
			t.Errorf("the code was taken twice: %v", again)
		}
		return account, err
	}
	holds := func(name string, verified bool) {
		t.Helper()
		got, err := signIn(name)
		if err != nil || got.Provider != "corp" || got.Subject != name || got.Email != name+"@example.com" || got.EmailVerified != verified ||
			got.Name != name+" of the provider" || strings.Join(got.Groups, " ") != "engineering "+name {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	fails := func(reason string) {
		t.Helper()
		if got, err := signIn("ada"); err == nil || oauth.AsError(err).Reason != reason || got.Subject != "" {
			t.Errorf("got %+v, %v, want %s", got, err, reason)
		}
	}

	for _, step := range corp.Test(t.Context(), redirectURI) {
		if step.Result == signin.Failed || step.Name == "client" && step.Result != signin.Passed {
			t.Errorf("the test says %+v", step)
		}
	}
	holds("ada", true)
	holds("unverified-eve", false)

	for _, lie := range []string{
		`iss "https://evil.example"`, `nonce "another"`, `aud "another"`, `aud ["gatehouse","another"]`, `azp "another"`, `exp 1`, `iat 99999999999`, `sub ""`,
		`sub "somebody-else"`, // userinfo is about ada
	} {
		node.tell("lie " + lie)
		fails(idp.ErrUntrusted.Reason)
		node.tell("truth")
	}
	holds("ada", true)

	// A fetch just before the new key was published prevents another one for 30 seconds.
	node.tell("rotate")
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := signIn("bob")
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "key_unknown") || time.Now().After(deadline) {
			t.Fatalf("after a rotation: %v", err)
		}
	}
	holds("bob", true)

	location, flow, err := corp.Begin(t.Context(), idp.Request{RedirectURI: redirectURI, State: "s"})
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	back := newPerson(t, jar).comesBack(location, "ada", redirectURI)
	answer, err := idp.ReadAnswer(back.Query())
	if err != nil {
		t.Fatal(err)
	}
	node.tell("slow")
	start := time.Now()
	if _, err = corp.Finish(t.Context(), flow, answer, redirectURI); oauth.AsError(err).Reason != idp.ErrUnavailable.Reason || time.Since(start) > 9*time.Second {
		t.Errorf("slow: %v after %s", err, time.Since(start))
	}
	node.tell("truth")
	node.tell("stop")
	if _, err = corp.Finish(t.Context(), flow, answer, redirectURI); oauth.AsError(err).Reason != idp.ErrUnavailable.Reason || corp.State().DownSince.IsZero() {
		t.Errorf("away: %v, %+v", err, corp.State())
	}
	node.tell("start")
	holds("ada", true)
	if !corp.State().DownSince.IsZero() {
		t.Errorf("the state is %+v", corp.State())
	}

	out := corp.SignOutURL(idp.SignOut{RedirectURI: redirectURI, State: "bye"})
	if response := newPerson(t, jar).get(out); response.StatusCode != http.StatusOK {
		t.Errorf("the provider refuses the sign-out: %d at %s", response.StatusCode, out)
	}
}
