package rule

import (
	"bufio"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// app stands for the oauth block, which the matchers of the caller ask for.
type app struct{}

func (app) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oauth", New: func() caddy.Module { return new(app) }}
}
func (app) Start() error { return nil }
func (app) Stop() error  { return nil }

func init() { caddy.RegisterModule(app{}) }

// route has rules and anonymous requests as a handler has them.
type route struct {
	Require   []*Rule                  `json:"require"`
	Anonymous caddyhttp.RawMatcherSets `json:"anonymous" caddy:"namespace=http.matchers"`

	anonymous Anonymous
}

// provisioning is held while a route is provisioned: Caddy provisions one configuration at a time.
var provisioning sync.Mutex

// newRoute provisions a route from JSON.
func newRoute(t *testing.T, text string) (*route, error) {
	t.Helper()
	provisioning.Lock()
	defer provisioning.Unlock()
	ctx, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"oauth": json.RawMessage("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	var r route
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, rule := range r.Require {
		if err := rule.Provision(ctx); err != nil {
			return nil, err
		}
	}
	r.anonymous, err = NewAnonymous(ctx, &r, r.Anonymous)
	return &r, err
}

// requiring returns a route with rules.
func requiring(t *testing.T, rules ...string) *route {
	t.Helper()
	r, err := newRoute(t, `{"require":[`+strings.Join(rules, ",")+"]}")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// opening returns a route on which the requests of the matcher sets are anonymous.
func opening(t *testing.T, sets ...string) *route {
	t.Helper()
	r, err := newRoute(t, `{"anonymous":[`+strings.Join(sets, ",")+"]}")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newInput returns a request as a gate reads it. asked is its method and target, and after them any header lines.
func newInput(t *testing.T, asked string) Input {
	t.Helper()
	line, more, _ := strings.Cut(asked, "\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: h\r\n" + strings.ReplaceAll(more, "\n", "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatalf("%v: %s", err, asked)
	}
	r = caddyhttp.PrepareRequest(r.WithContext(t.Context()), caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), "verb", r.Method) // as `vars verb {method}` does
	return Input{Request: r, Exam: requestpath.Examine(r.URL), Now: tokentest.NewClock().Now}
}

// opens reports whether a request needs no token.
func (r *route) opens(t *testing.T, asked string) bool {
	t.Helper()
	in := newInput(t, asked)
	return r.anonymous.Allows(in.Request, in.Exam)
}

// refuses returns why the rules refuse a request with a token; nil: they do not.
func (r *route) refuses(t *testing.T, asked string, tok *token.AccessToken, own bool) (refusal *oauth.Error, missing string) {
	t.Helper()
	in := newInput(t, asked)
	in.Token, in.Own = tok, own
	caller.Remember(in.Request, tok)
	missing, err := Check(r.Require, in)
	if err == nil {
		return nil, ""
	}
	return oauth.AsError(err), missing
}

// holds checks the reason for which the rules refuse a request with a token of our own; "": they do not.
func (r *route) holds(t *testing.T, asked string, tok *token.AccessToken, reason string) {
	t.Helper()
	r.judges(t, asked, tok, true, reason)
}

func (r *route) judges(t *testing.T, asked string, tok *token.AccessToken, own bool, reason string) {
	t.Helper()
	got := ""
	if refusal, _ := r.refuses(t, asked, tok, own); refusal != nil {
		got = refusal.Reason
	}
	if got != reason {
		t.Errorf("%s: refused because of %q, want %q", asked, got, reason)
	}
}

type claims = map[string]any

// having returns a verified access token of the user u-1, with other claims.
func having(t *testing.T, edits claims) *token.AccessToken {
	t.Helper()
	all := claims{
		"iss": tokentest.Issuer, "aud": tokentest.Audience, "sub": "u-1", "client_id": "app", "scope": "public", "jti": "1",
		"iat": tokentest.Start.Unix(), "exp": tokentest.Start.Unix() + 3600,
	}
	maps.Copy(all, edits)
	payload, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	key, set := testkeys.Shared()[oauth.EdDSA], new(keys.Set)
	if err := set.Replace([]*keys.SigningKey{key}, oauth.EdDSA); err != nil {
		t.Fatal(err)
	}
	verifier := token.NewTrustedVerifier(token.TrustedTokens{Issuer: tokentest.Issuer}, set, tokentest.NewClock().Now)
	tok, err := verifier.Verify(testkeys.Sign(key, testkeys.Header(key), string(payload)), []string{tokentest.Audience})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// scoped returns a token of the user with a scope.
func scoped(t *testing.T, scope string) *token.AccessToken {
	t.Helper()
	return having(t, claims{"scope": scope})
}
