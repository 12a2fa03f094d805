package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Rules about the claims of a valid token, and tokens that end.

// because checks that the gate refuses the request with this status and reason.
func (g *gateway) because(t *testing.T, request string, status int, reason string) (http.Header, string) {
	t.Helper()
	g.audited()
	got, header, body := g.raw(request)
	lines := g.audited()
	if got != status || len(lines) != 1 || lines[0]["reason"] != reason {
		t.Errorf("%d %s, audit %v; want %d because of %s", got, body, lines, status, reason)
	}
	g.upstream.none(t)
	g.refusedAlike(t, request, got, header, body)
	return header, body
}

// TestG45G150RulesOfARoute: a token, cached or not, at a rule of each kind → its refusal, and an audit line with who is refused, the name of the
// claim that is missing, and neither value; an unverified token → nothing of its claims there. Package rule tests what each rule asks, and in which
// readings of a request.
func TestG45G150RulesOfARoute(t *testing.T) {
	now := setClock(t)
	g := startGate(t, siteWith("", "	@deletes method DELETE\n"+gated("/route/* public trusted")+gated("", "require /scope/* scope trusted", "require /either/* any_scope trusted orders.read", "require /user/* user u-ada bob@example.com",
		"require /domain/* email_domain example.com", "require /role/* role admin", "require /group/* group staff", "require /claim/* claim org acme", "require /gold/* acr gold",
		"require /gold/* max_age 1h", "require /fresh/* max_age 1m", "require /expression/* expression {http.auth.user.role} == {header.X-Role}", "require @deletes scope trusted", "anonymous /open/*")))
	f := g.forger()
	person := g.watched(f.claiming(map[string]any{
		"sub": "u-ada", "org": "acme", "role": "admin", "groups": []string{"staff"}, "scope": "public trusted", "acr": "gold", "auth_time": node.Clock().Unix(),
	}))
	server, other := g.server("public"), g.user("u-1", "globex", "member", "public")
	for target, want := range map[string]struct{ reason, missing string }{
		"/scope/x": {"scope_missing", "scope trusted"}, "/scope%2fx": {"scope_missing", "scope trusted"}, "/SCOPE/": {"scope_missing", "scope trusted"},
		"/either/x": {"scope_missing", "any_scope trusted orders.read"}, "/user/x": {"user_not_listed", "user"}, "/domain/x": {"email_domain_missing", "email_domain example.com"},
		"/role/x": {"role_missing", "role admin"}, "/group/x": {"group_missing", "group staff"}, "/claim/x": {"claim_missing", "claim org"},
		"/expression/x": {"expression_false", "expression"}, "/x?_method=DELETE": {"scope_missing", "scope trusted"}, "/route/x": {"scope_missing", "scope trusted"},
	} {
		g.passed(t, g.request("GET", "/x", bearer(other))) // it is cached
		g.audited()
		status, header, body := g.raw(g.request("GET", target, bearer(other), "X-Role: admin"))
		lines := g.audited()
		if len(lines) != 1 || status != http.StatusForbidden || lines[0]["reason"] != want.reason || lines[0]["missing"] != want.missing ||
			lines[0]["subject"] != "u-1" || lines[0]["client_id"] != "conf" || lines[0]["issuer"] != g.url || lines[0]["trust"] != nil {
			t.Errorf("%s: %d, audit %v, want %v", target, status, lines, want)
		}
		if isScope := want.reason == "scope_missing"; isScope != (header.Get("Www-Authenticate") != "") || !isScope && !strings.Contains(body, `"access_denied"`) || strings.Contains(body, "example") {
			t.Errorf("%s: %s %v", target, body, header)
		}
		g.upstream.none(t)
		if target != "/domain/x" { // an access token of ours has no address
			if seen := g.passed(t, g.request("GET", target, bearer(person), "X-Role: admin")); seen.Target != target {
				t.Errorf("%s was forwarded as %s", target, seen.Target)
			}
		}
		g.refused(t, g.request("GET", target), 401)
	}
	header, body := g.refused(t, g.request("GET", "/gold/x", bearer(server)), 401)
	if challenge := parameters(t, header); challenge["acr_values"] != "gold" || challenge["max_age"] != "3600" || member(t, body, "error") != "insufficient_user_authentication" {
		t.Errorf("challenge %v, body %s", challenge, body)
	}
	for _, target := range []string{"/open/x?/scope/x", "/open/caf%C3%A9"} {
		if seen := g.passed(t, g.request("GET", target)).anonymous(t); seen.Target != target {
			t.Errorf("%s was forwarded as %s", target, seen.Target)
		}
	}
	g.refused(t, g.request("GET", "/%6fpen/x"), 401)
	g.refused(t, g.request("GET", "http://"+g.addr), 401)
	// The age is checked for every request, also with a cached token.
	g.passed(t, g.request("GET", "/fresh/x", bearer(person)))
	now.advance(2 * time.Minute)
	g.because(t, g.request("GET", "/fresh/x", bearer(person)), 401, "sign_in_too_old")
	g.passed(t, g.request("GET", "/gold/x", bearer(person)))
	forged := strings.Split(person, ".")
	for _, token := range []string{
		"bad", g.watched(f.claiming(map[string]any{"sub": "mallory", "exp": 1})), forged[0] + "." + forged[1] + "." + strings.Repeat("A", len(forged[2])),
	} {
		g.audited()
		status, _, _ := g.raw(g.request("GET", "/x", bearer(token)))
		if lines := g.audited(); status != 401 || len(lines) != 1 || lines[0]["subject"] != nil || lines[0]["issuer"] != nil || lines[0]["client_id"] != nil {
			t.Errorf("of an unverified token: %d %v", status, lines)
		}
	}
}

// TestG83RulesThatCannotWork checks that such rules are refused when the configuration is loaded, with the position if it is known.
func TestG83RulesThatCannotWork(t *testing.T) {
	emptyHome(t)
	for rule, want := range map[string]string{
		"require expression oauth_scope('orders.raed')":        `unknown scope "orders.raed"`,
		"require @typed scope public":                          `unknown scope "orders.raed"`,
		"anonymous @negated":                                   "nobody has looked at a token yet",
		"anonymous @all":                                       "would protect nothing",
		"anonymous /open/*\n\t\trequire @negated scope public": "",
	} {
		err := validate(t, wrapped("", "\t@typed oauth_scope orders.raed\n\t@negated not oauth_scope public\n\t@all path /a /*\n\tprotect {\n\t\t"+rule+"\n\t}"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", rule, err, want)
		}
	}
}

// adapted returns a Caddyfile as JSON.
func adapted(t *testing.T, caddyfile string) string {
	t.Helper()
	config, err := adapt(caddyfile)
	check(t, err)
	return string(config)
}

// TestG44CacheOutlivesNothing: a cached token that expires, is revoked or loses its key → refused at once.
func TestG44CacheOutlivesNothing(t *testing.T) {
	now := setClock(t)
	g := startGate(t, site)
	short := g.watched(g.issue(issuer.Grant{Scopes: oauth.Scopes{"public"}, Lifetime: 20 * time.Second}))
	long := g.server("public")
	for _, token := range []string{short, long, short} {
		g.passed(t, g.request("GET", "/any/x", bearer(token)))
	}
	now.advance(27 * time.Second)
	header, _ := g.refused(t, g.request("GET", "/any/x", bearer(short)), 401)
	if got := parameters(t, header)["error_description"]; got != "The access token expired" {
		t.Errorf("%q", got)
	}
	g.passed(t, g.request("GET", "/any/x", bearer(long)))
	// Revocation at the revocation endpoint.
	status, _, body := g.do("POST", "/oauth/revoke", "token="+long+"&client_id=conf&client_secret="+confSecret, "Content-Type", "application/x-www-form-urlencoded")
	if status != 200 {
		t.Fatalf("revoke: %d %s", status, body)
	}
	g.refused(t, g.request("GET", "/any/x", bearer(long)), 401)
	// Revocation on another node. The store delivers it within a second.
	elsewhere := g.server("public")
	g.passed(t, g.request("GET", "/any/x", bearer(elsewhere)))
	claims := g.claims(t, elsewhere)
	check(t, g.app().node.Store().Revocations.Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: claims.ID, ExpiresAt: claims.ExpiresAt}))
	g.eventually("a revocation from elsewhere has arrived", func() bool {
		status, _, _ := g.raw(g.request("GET", "/any/x", bearer(elsewhere)))
		return status == 401
	})
	g.upstream.seen()
	// The key has been removed.
	keyless := g.server("public")
	g.passed(t, g.request("GET", "/any/x", bearer(keyless)))
	check(t, g.app().node.Keys.Replace(nil, oauth.ES256))
	g.refused(t, g.request("GET", "/any/x", bearer(keyless)), 401)
}
