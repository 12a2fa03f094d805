package caddymodule

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// posted checks a form_post page, and returns the parameters of the answer.
func posted(t *testing.T, p page, r request) url.Values {
	t.Helper()
	if p.status != http.StatusOK || p.header.Get("Location") != "" || p.header.Get("Content-Type") != "text/html; charset=utf-8" || p.header.Get("X-Frame-Options") != "DENY" {
		t.Fatalf("%d %v %s", p.status, p.header, p.body)
	}
	holdNoStore(t, p)
	forms, scripts := 0, []string(nil)
	fields := make(url.Values)
	for n := range nodes(t, p) {
		attributes := attributesOf(n)
		switch {
		case n.Data == "form":
			forms++
			if attributes["action"] != r.redirectURI || attributes["method"] != "post" || len(n.Attr) != 2 {
				t.Errorf("the form: %v", n.Attr)
			}
		case n.Data == "script" && n.Type == html.ElementNode:
			if len(n.Attr) > 0 {
				t.Errorf("a script: %v", n.Attr)
			}
			scripts = append(scripts, n.FirstChild.Data)
		case n.Data == "input":
			fields.Add(attributes["name"], attributes["value"])
		case slices.Contains([]string{"img", "iframe", "svg", "object", "base", "a"}, n.Data):
			t.Errorf("a <%s>", n.Data)
		}
		for name := range attributes {
			if strings.HasPrefix(name, "on") {
				t.Errorf("%s in <%s>", name, n.Data)
			}
		}
	}
	if forms != 1 || len(scripts) != 1 {
		t.Fatalf("%d forms, scripts %q", forms, scripts)
	}
	digest := sha256.Sum256([]byte(scripts[0]))
	target, _ := url.Parse(r.redirectURI)
	policy := strings.Split(p.header.Get("Content-Security-Policy"), "; ")
	for _, want := range []string{
		"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self' " + target.Scheme + "://" + target.Host + " " + target.Scheme + ":",
		"script-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'",
	} {
		if !slices.Contains(policy, want) {
			t.Errorf("no %s in %q", want, policy)
		}
	}
	return fields
}

// TestT186T187T199AnAnswerInAForm: form_post with hostile state, client name and URI → one form to the exact URI, data only, one script whose
// hash stands in the CSP, and `iss` equal to discovery, against mix-up of issuers (RFC 9207); form_post to a private scheme, twice or misspelled →
// invalid_request by redirect; to an unregistered URI → a page. toClient holds `iss` in answers by redirect.
func TestT186T187T199AnAnswerInAForm(t *testing.T) {
	g := startOpenID(t, "type native\n\t\t\tscopes public trusted", "type native\n\t\t\tscopes public trusted openid")
	const odd = `https://odd.example/cb?a="><script>alert(1)</script>&b='x'&c=%22`
	secret := g.addClient(t, store.Client{
		ID: "odd", Name: `"><script>alert(1)</script>`, Grants: []oauth.GrantType{oauth.AuthorizationCode}, Scopes: oauth.Scopes{"openid"}, RedirectURIs: []string{odd},
	})
	b := g.browser()
	usual := openIDRequestOf("conf", "openid", "response_mode", "form_post")
	strange := usual
	strange.clientID, strange.secret, strange.redirectURI = "odd", secret, odd
	for name, r := range map[string]request{"usual": usual, "odd": strange} {
		t.Run(name, func(t *testing.T) {
			p := b.answerPage(t, r, "ada@acme.example")
			fields := posted(t, p, r)
			if len(fields) != 3 || fields.Get("state") != r.state || fields.Get("iss") != g.url {
				t.Errorf("%v", fields)
			}
			if got := g.obtain(r.exchange(fields.Get("code"))); got.IDToken == "" {
				t.Error("no ID token")
			}
			g.notLogged(t, fields.Get("code"))
		})
	}
	for name, state := range map[string]string{
		"markup": `"><script>alert(1)</script>`, "single quotes": `' onfocus='alert(1)`, "end of the form": "</form><form action=//evil.example>", "comment": "<!--", "entities": "&quot;&lt;&#0;&amp;amp;",
		"line ends": "a\r\nb", "template": "{{.}}${1}", "spaces": "  x ", "not ASCII": "ﷺ 👩‍❤️‍💋‍👩 \u202e\u2028", "long": strings.Repeat("é", 1<<10),
	} {
		t.Run("state: "+name, func(t *testing.T) {
			r := usual
			r.state = state
			// A browser sends line ends as CR LF, whatever the page has.
			if fields := posted(t, b.open(r.path()), r); strings.ReplaceAll(fields.Get("state"), "\n", "\r\n") != state {
				t.Errorf("state %q", fields.Get("state"))
			}
		})
	}
	t.Run("errors", func(t *testing.T) {
		for name, c := range map[string][2]string{
			"scope": {"invalid_scope", "nonsense"}, "response_type": {"unsupported_response_type", "token"}, "prompt": {"invalid_request", "x"}, "max_age": {"invalid_request", "x"},
		} {
			r := usual
			r.more = url.Values{"response_mode": {"form_post"}}
			p := b.ask(r.with(name, c[1]))
			if fields := posted(t, p, r); fields.Get("error") != c[0] || fields.Get("error_description") == "" || fields.Get("state") != r.state || fields.Get("iss") != g.url || fields.Has("code") {
				t.Errorf("%s: %v", name, fields)
			}
		}
		denied := openIDRequestOf("pub", "openid", "response_mode", "form_post")
		if fields := posted(t, b.decide(b.follow(b.open(denied.path())), "deny"), denied); fields.Get("error") != "access_denied" {
			t.Errorf("%v", fields)
		}
	})
	t.Run("an answer that no form can take", func(t *testing.T) {
		native := openIDRequestOf("nat", "openid", "response_mode", "form_post")
		posted(t, b.answerPage(t, native, "ada@acme.example"), native) // at loopback
		native.redirectURI = "com.example.app:/cb"
		b.errorToClient(t, b.open(native.path()), native, "invalid_request", "")
		conf := openIDRequestOf("conf", "openid")
		for _, mode := range []string{"form_post&response_mode=form_post", "form_post&response_mode=query", "fragment", "FORM_POST", "form_post.jwt", "query+form_post"} {
			b.errorToClient(t, b.open(conf.path()+"&response_mode="+mode), conf, "invalid_request", "")
		}
		holdRefusal(t, b.ask(usual.with("redirect_uri", "https://evil.example/")))
	})
}

// answerPage is authorize for an answer that is a page.
func (b *browser) answerPage(t *testing.T, r request, email string) page {
	t.Helper()
	p := b.follow(b.open(r.path()))
	if strings.Contains(p.body, `name="password"`) {
		p = b.follow(b.signIn(p, email, peoplePassword))
	}
	if strings.Contains(p.body, `name="decision"`) {
		p = b.decide(p, "allow")
	}
	return p
}

// TestT188WhoMayLeaveTheChallengeOut: `pkce optional` of a confidential client: openid with a nonce and no challenge → a code; without
// nonce or openid, or a challenge without its verifier → invalid_request.
func TestT188WhoMayLeaveTheChallengeOut(t *testing.T) {
	for name, pkce := range map[string]string{"pkce required": "pkce required\n\t\t", "the default": ""} {
		t.Run(name, func(t *testing.T) {
			g := startOpenID(t, "password_grant\n", pkce+"password_grant\n\t\topenid\n")
			old := openIDRequestOf("conf", "openid", "nonce", "n")
			old.clientID, old.redirectURI, old.verifier = "old", "https://old.example/cb", ""
			old.secret = g.addClient(t, store.Client{
				ID: "old", Grants: []oauth.GrantType{oauth.AuthorizationCode}, Scopes: oauth.Scopes{"openid", "email"}, RedirectURIs: []string{old.redirectURI}, PKCE: oauth.PKCEOptional,
			})
			b := g.browser()
			got := b.redeem(t, b.authorize(old, "ada@acme.example"), old)
			if _, claims := g.identity(t, got.IDToken); claims["nonce"] != "n" {
				t.Errorf("%v", claims)
			}
			missing := "Missing required parameter: code_challenge."
			for what, more := range map[string][]string{"no nonce": {"openid", ""}, "no openid": {"email", "n"}} {
				r := old
				r.scope, r.more = more[0], url.Values{"nonce": {more[1]}}
				if p := b.open(r.path()); pkce != "" {
					b.errorToClient(t, p, r, "invalid_request", missing)
				} else if p.status == http.StatusSeeOther && p.location().Query().Has("error") {
					t.Errorf("%s: %s", what, p.header.Get("Location"))
				}
			}
			for _, clientID := range []string{"pub", "conf"} {
				r := openIDRequestOf(clientID, "openid", "nonce", "n")
				r.verifier = ""
				if p := b.open(r.path()); clientID == "pub" || pkce != "" {
					b.errorToClient(t, p, r, "invalid_request", missing)
				}
			}
			bound := old
			bound.verifier = "verifier-" + strings.Repeat("v", 43)
			code := b.codeToClient(t, b.open(bound.path()), bound)
			g.refused(old.exchange(code), http.StatusBadRequest, "invalid_request")
			unbound := old.exchange(b.codeToClient(t, b.open(old.path()), old))
			unbound.Del("redirect_uri")
			g.refused(unbound, http.StatusBadRequest, "invalid_request")
		})
	}
}
