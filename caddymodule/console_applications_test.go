package caddymodule

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
)

// applicationsConsole is a console with an issuer that is an OpenID provider, and a declared client.
var applicationsConsole = []string{"store memory", "store memory\n\t\topenid\n\t\tclient fixed fixed-secret-fixed-secret-fixed-secret {\n\t\t\tname Fixed\n\t\t}"}

// page opens a page of the console.
func (s *consoleScene) page(v *visitorOfHosts, path string) answer {
	v.t.Helper()
	p, _ := v.walk(s.at("admin", "/oauth/admin"+path), "")
	return p
}

// sends sends the last form of a page of the console, with these values beside those that it has, and does not follow the redirect.
func (s *consoleScene) sends(v *visitorOfHosts, path string, values ...string) answer {
	v.t.Helper()
	form := s.page(v, path).body
	form = form[strings.LastIndex(form, `<form class="new" method="post"`):]
	fields := url.Values{}
	for _, found := range regexp.MustCompile(`<input [^>]*name="([^"]*)"[^>]*value="([^"]*)"`).FindAllStringSubmatch(form, -1) {
		if !strings.Contains(found[0], "checkbox") || strings.Contains(found[0], " checked") {
			fields.Set(found[1], html.UnescapeString(found[2]))
		}
	}
	for _, found := range regexp.MustCompile(`(?s)<textarea [^>]*name="([^"]*)"[^>]*>\n(.*?)</textarea>`).FindAllStringSubmatch(form, -1) {
		fields.Set(found[1], html.UnescapeString(found[2]))
	}
	for _, found := range regexp.MustCompile(`(?s)<select [^>]*name="([^"]*)".*?</select>`).FindAllStringSubmatch(form, -1) {
		if chosen := regexp.MustCompile(`value="([^"]*)" selected`).FindStringSubmatch(found[0]); chosen != nil {
			fields.Set(found[1], html.UnescapeString(chosen[1]))
		}
	}
	for i := 0; i < len(values); i += 2 {
		fields.Set(values[i], values[i+1])
	}
	return v.send(http.MethodPost, s.at("admin", "/oauth/admin"+path), fields.Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin",
		"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", s.origin("admin"))
}

// copiedText returns the text to be copied with that name on a page.
func copiedText(t *testing.T, p answer, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?s)<label for="(copied-[^"]*)">` + regexp.QuoteMeta(name) + `</label>\s*<textarea id="copied[^>]*>\n(.*?)</textarea>`).FindStringSubmatch(p.body)
	if found == nil {
		t.Fatalf("%d, without %q: %.3000s", p.status, name, p.body)
	}
	return html.UnescapeString(found[2])
}

// tokenAt asks the token endpoint.
func (s *consoleScene) tokenAt(v *visitorOfHosts, values url.Values) answer {
	return v.send(http.MethodPost, s.at("auth", "/oauth/token"), values.Encode(), "Content-Type", urlEncoded)
}

// TestO24ApplicationsInTheConsole: each kind of application registered by its form, a faulty redirect URI, a rotation, two edits at once, hostile
// ids and names, and a declared client → clients that work, faults at their fields, both secrets valid, both values shown, text, and no change.
func TestO24ApplicationsInTheConsole(t *testing.T) {
	s := startConsole(t, applicationsConsole...)
	v := s.operator(t, "olga@acme.example")
	const uri = "https://app.example.com/callback"
	credentials := func(id, secret string) url.Values {
		return url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}
	}
	secret := ""

	t.Run("kinds", func(t *testing.T) {
		for _, kind := range []string{"web", "page", "native", "service", "mcp"} {
			if p := s.page(v, "/applications/new"); !strings.Contains(p.body, "/applications/add?kind="+kind) {
				t.Errorf("%s is not offered", kind)
			}
			values := []string{"name", "The " + kind, "id", "a-" + kind, "redirect_uris", uri, "first_party", "yes"}
			if kind == "service" {
				values = values[:4]
			}
			p := s.sends(v, "/applications/add?kind="+kind, values...)
			if p.status != http.StatusOK || !strings.Contains(p.body, s.origin("auth")) || p.header.Get("Cache-Control") != "no-store" {
				t.Fatalf("%s: %d %.3000s", kind, p.status, p.body)
			}
			switch confidential := kind == "web" || kind == "service"; {
			case confidential:
				secret = copiedText(t, p, "Secret")
			case strings.Contains(p.body, ">Secret</label>"):
				t.Errorf("%s has a secret", kind)
			}
			if shown := s.page(v, "/applications/application?id=a-"+kind); shown.status != http.StatusOK || secret != "" && strings.Contains(shown.body, secret) {
				t.Errorf("%s: %d %.3000s", kind, shown.status, shown.body)
			}
			if kind == "web" {
				verifier := strings.Repeat("v", 43)
				digest := sha256.Sum256([]byte(verifier))
				a, _ := v.walkTo(s.at("auth", "/oauth/authorize?"+url.Values{
					"response_type": {"code"}, "client_id": {"a-web"}, "redirect_uri": {uri}, "scope": {"openid"}, "state": {"st"}, "code_challenge_method": {"S256"},
					"code_challenge": {base64.RawURLEncoding.EncodeToString(digest[:])},
				}.Encode()), uri)
				back, err := url.Parse(a.header.Get("Location"))
				check(t, err)
				got := s.tokenAt(v, url.Values{
					"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {uri}, "client_id": {"a-web"}, "client_secret": {secret}, "code_verifier": {verifier},
				})
				if got.status != http.StatusOK || member(t, got.body, "id_token") == "" {
					t.Errorf("the web application gets %d %s", got.status, got.body)
				}
			}
			if kind == "service" {
				if got := s.tokenAt(v, credentials("a-service", secret)); got.status != http.StatusOK {
					t.Errorf("the service gets %d %s", got.status, got.body)
				}
			}
		}
	})

	t.Run("faults", func(t *testing.T) {
		for _, wrong := range []string{"", "http://app.example.com/cb", "https://*.example.com/cb", "javascript:alert(1)", "https://app.example.com/cb#x"} {
			p := s.sends(v, "/applications/add?kind=web", "name", "Typed <b>", "redirect_uris", wrong)
			if p.status != http.StatusBadRequest || !strings.Contains(p.body, `-fault" class="notice error"`) || !strings.Contains(p.body, "Typed &lt;b&gt;") || !strings.Contains(p.body, html.EscapeString(wrong)) {
				t.Errorf("%q: %d %.3000s", wrong, p.status, p.body)
			}
		}
		if p := s.page(v, "/applications/add?kind=robot"); p.status != http.StatusNotFound {
			t.Errorf("an unknown kind: %d", p.status)
		}
	})

	t.Run("rotation", func(t *testing.T) {
		p := s.sends(v, "/applications/act?do=rotate_secret&id=a-service", "overlap", "24h")
		for _, one := range []string{secret, copiedText(t, p, "Secret")} {
			if got := s.tokenAt(v, credentials("a-service", one)); got.status != http.StatusOK {
				t.Errorf("within the overlap: %d", got.status)
			}
		}
		if p := s.sends(v, "/applications/act?do=rotate_secret&id=a-service", "overlap", ""); p.status != http.StatusBadRequest {
			t.Errorf("without an overlap: %d", p.status)
		}
	})

	t.Run("two edits", func(t *testing.T) {
		form := s.page(v, "/applications/edit?id=a-web")
		version := regexp.MustCompile(`name="version" value="([^"]*)"`).FindStringSubmatch(form.body)
		if version == nil {
			t.Fatalf("%d %s", form.status, form.body)
		}
		s.ok("client", "update", "a-web", "--name", "Theirs")
		p := s.sends(v, "/applications/edit?id=a-web", "name", "Mine", "version", html.UnescapeString(version[1]))
		if p.status != http.StatusConflict || !strings.Contains(p.body, `value="Mine"`) || !strings.Contains(p.body, "Theirs") || strings.Contains(s.ok("client", "show", "a-web"), "Mine") {
			t.Errorf("%d %.3000s", p.status, p.body)
		}
		if p := s.sends(v, "/applications/edit?id=a-web", "name", "Mine"); p.status != http.StatusSeeOther || !strings.Contains(s.ok("client", "show", "a-web"), "Mine") {
			t.Errorf("once more: %d %s", p.status, p.body)
		}
	})

	t.Run("lifetimes, exchange, keys", func(t *testing.T) {
		if p := s.sends(v, "/applications/add?kind=service", "name", "Batch", "id", "batch"); p.status != http.StatusOK {
			t.Fatalf("%d %.2000s", p.status, p.body)
		} else {
			secret = copiedText(t, p, "Secret")
		}
		const path = "/applications/edit?id=batch"
		expires := func() string {
			return strings.TrimPrefix(regexp.MustCompile(`"expires_in":\d+`).FindString(s.tokenAt(v, credentials("batch", secret)).body), `"expires_in":`)
		}
		for _, step := range []struct {
			name, value, expires, shown string
			status                      int
		}{
			{"tokens", "client_credentials=10m\nrefresh=2h", "600", "client_credentials 10m0s", http.StatusSeeOther},
			{"tokens", "refresh=3h", "7200", "refresh 3h0m0s", http.StatusSeeOther}, // what is not there any more is reset
			{"tokens", "client_credentials", "7200", "refresh 3h0m0s", http.StatusBadRequest},
			{"tokens", "client_credentials=99999d", "7200", "refresh 3h0m0s", http.StatusBadRequest},
			{"tokens", "sessions=1h", "7200", "refresh 3h0m0s", http.StatusBadRequest},
			{"tokens", "", "7200", "", http.StatusSeeOther},
			{"may_exchange", "reports billing from shop scopes public\narchive", "7200", "reports billing from shop scopes public", http.StatusSeeOther},
			{"may_exchange", "from shop", "7200", "archive", http.StatusBadRequest},
		} {
			p := s.sends(v, path, step.name, step.value)
			shown, got := s.ok("client", "show", "batch"), expires()
			if p.status != step.status || got != step.expires || !strings.Contains(strings.Join(strings.Fields(shown), " "), step.shown) || step.value == "" && strings.Contains(shown, "refresh  ") {
				t.Errorf("%s %q: %d, expires in %s: %.1500s\n%s", step.name, step.value, p.status, got, p.body, shown)
			}
			if step.status == http.StatusBadRequest && step.name == "tokens" && (!strings.Contains(p.body, `-fault" class="notice error"`) || strings.Contains(p.body, "json:")) {
				t.Errorf("%s %q is no fault at its field: %.3000s", step.name, step.value, p.body)
			}
			if again := s.sends(v, path); step.status == http.StatusSeeOther && (again.status != http.StatusSeeOther || s.ok("client", "show", "batch") != shown) {
				t.Errorf("%s %q, sent again: %d, %s", step.name, step.value, again.status, s.ok("client", "show", "batch"))
			}
		}
		set := keySetOf(t, &forger{key: issuertest.NewSignerOf("", "ES256").Private, kid: "batch-1", alg: "ES256"})
		for _, wrong := range []string{"{", "[]", `"text"`, `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`} {
			if p := s.sends(v, path, "jwks", wrong); p.status != http.StatusBadRequest || expires() != "7200" {
				t.Errorf("jwks %s: %d %.1500s", wrong, p.status, p.body)
			}
		}
		p := s.sends(v, path, "jwks", strings.ReplaceAll(set, ",", ",\r\n"))
		if got := s.tokenAt(v, credentials("batch", secret)); p.status != http.StatusSeeOther || got.status != http.StatusUnauthorized {
			t.Errorf("with keys: %d, and with its secret %d: %.1500s", p.status, got.status, p.body)
		}
		if p := s.page(v, "/applications/application?id=batch"); !strings.Contains(p.body, "batch-1") || !strings.Contains(p.body, "private_key_jwt") || strings.Contains(p.body, "rotate_secret") {
			t.Errorf("shown with keys: %d %.3000s", p.status, p.body)
		}
	})

	t.Run("hostile", func(t *testing.T) {
		for _, id := range []string{"../users", "a/b?c=d&e#f", strings.Repeat("x", 255), "\u202eevil", `"><script>alert(1)</script>`} {
			p := s.sends(v, "/applications/add?kind=service", "name", id[:min(len(id), 250)]+"'\"<i>", "id", id)
			shown := s.page(v, "/applications/application?"+url.Values{"id": {id}}.Encode())
			found := s.page(v, "/applications?"+url.Values{"search": {id}}.Encode())
			for name, p := range map[string]answer{"added": p, "shown": shown, "found": found} {
				if p.status != http.StatusOK || strings.Contains(p.body, "<script>") || strings.Contains(p.body, "<i>") || !strings.Contains(p.body, html.EscapeString(id)) {
					t.Errorf("%q %s: %d %.2000s", id, name, p.status, p.body)
				}
			}
			if p := s.sends(v, "/applications/act?"+url.Values{"do": {"remove_client"}, "id": {id}}.Encode()); p.status != http.StatusSeeOther {
				t.Errorf("%q removed: %d %.2000s", id, p.status, p.body)
			}
		}
	})

	t.Run("declared", func(t *testing.T) {
		if p := s.page(v, "/applications/application?id=fixed"); !strings.Contains(p.body, "Set in the Caddyfile") || strings.Contains(p.body, "/applications/edit") || strings.Contains(p.body, "rotate_secret") {
			t.Errorf("%d %.3000s", p.status, p.body)
		}
		if p := s.page(v, "/applications/edit?id=fixed"); p.status != http.StatusConflict {
			t.Errorf("edit: %d", p.status)
		}
		for _, do := range []string{"rotate_secret", "disable_client", "remove_client"} {
			if p := s.sends(v, "/applications/act?id=fixed&do="+do, "overlap", "24h"); p.status != http.StatusConflict {
				t.Errorf("%s: %d %.2000s", do, p.status, p.body)
			}
		}
	})

	t.Run("tokens", func(t *testing.T) {
		token := member(t, s.tokenAt(v, credentials("fixed", "fixed-secret-fixed-secret-fixed-secret")).body, "access_token")
		p := s.sends(v, "/tokens", "token", "Bearer "+token)
		if p.status != http.StatusOK || !strings.Contains(p.body, "The token is accepted.") || strings.Contains(p.body, token) {
			t.Fatalf("%d %.3000s", p.status, p.body)
		}
		jti := regexp.MustCompile(`/tokens/act\?do=revoke_token[^"]*`).FindString(html.UnescapeString(p.body))
		if strings.Contains(p.body, "revoke_user") || strings.Contains(p.body, "/people/person?id=fixed") {
			t.Errorf("a person is shown of a token of a service: %.3000s", p.body)
		}
		if p := s.sends(v, "/tokens/revoke", "do", "revoke_token", "id", token); p.status != http.StatusBadRequest || p.header.Get("Location") != "" || strings.Contains(p.body, token) {
			t.Errorf("a token as its id: %d %v %.3000s", p.status, p.header, p.body)
		}
		if p := s.sends(v, "/tokens/revoke", "do", "revoke_user", "id", " u-ada "); p.header.Get("Location") != "/oauth/admin/tokens/act?do=revoke_user&id=u-ada" {
			t.Errorf("by an id: %d %v", p.status, p.header)
		}
		if p := s.sends(v, jti); p.status != http.StatusSeeOther {
			t.Errorf("revoking: %d %.2000s", p.status, p.body)
		}
		if p := s.sends(v, "/tokens", "token", token); !strings.Contains(p.body, "The token is refused.") {
			t.Errorf("revoked: %d %.3000s", p.status, p.body)
		}
		for _, text := range []string{"", "x.y.z", strings.Repeat("a", 4000), "<script>"} {
			if p := s.sends(v, "/tokens", "token", text); p.status >= 500 || strings.Contains(p.body, "<script>") || len(text) > 10 && strings.Contains(p.body, text) {
				t.Errorf("%.10q: %d %.2000s", text, p.status, p.body)
			}
		}
		if strings.Contains(s.logs()+s.ok("audit", "--json"), token) {
			t.Error("the token is in a log")
		}
		if log := s.logs(); !strings.Contains(log, `"tokens revoked"`) || !strings.Contains(log, `"operator":"u-olga"`) {
			t.Error("the revocation is not in the audit log")
		}
	})

	t.Run("owner", func(t *testing.T) {
		owner := s.operator(t, "owen@acme.example")
		for path := range strings.SplitSeq("/applications /applications/new /applications/add?kind=web /applications/application?id=a-web /applications/edit?id=a-web /applications/act?do=disable_client&id=a-web /tokens /tokens/act?do=revoke_user&id=u-ada", " ") {
			if p := s.page(owner, path); p.status != http.StatusNotFound {
				t.Errorf("%s: %d", path, p.status)
			}
		}
	})
}

// walkTo is walk, until a redirect to an address that begins so, which it does not follow.
func (v *visitorOfHosts) walkTo(target, end string) (answer, string) {
	v.t.Helper()
	for range 12 {
		a := v.navigate(target)
		location := a.header.Get("Location")
		if location == "" || strings.HasPrefix(location, end) {
			return a, target
		}
		next, err := url.Parse(target)
		check(v.t, err)
		next, err = next.Parse(location)
		check(v.t, err)
		target = next.String()
	}
	v.t.Fatal(fmt.Sprint("too many redirects to ", target))
	return answer{}, ""
}
