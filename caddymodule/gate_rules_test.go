package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// Rules about the claims of a valid token, and the requests that they apply to.

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

func TestG41ExpressionOfARoute(t *testing.T) {
	g := startGate(t, siteWith("", "	@writes method POST PUT\n	handle {\n		protect {\n"+
		"			require /by-role/* expression `{http.auth.user.role} == 'admin' && {http.auth.user.organisation} == 'acme'`\n"+
		"			require /tenants/* expression {http.auth.user.org} == {header.X-Tenant}\n"+
		"			require @writes expression oauth_scope('trusted', 'orders.read')\n"+
		"			require /either/* expression \"oauth_claim('role', 'admin', 'member') || oauth_scope('orders.read')\"\n"+
		"			require /broken/* expression `int({http.auth.user.role}) > 3`\n"+
		"			require /query/* expression `!query({'debug': '1'})`\n"+
		"		}\n		reverse_proxy UPSTREAM\n	}"))
	admin, member, other := g.user("u-1", "acme", "admin", "trusted"), g.user("u-2", "acme", "member", "orders.read"), g.user("u-3", "rival", "admin", "trusted", "orders.read")
	server := g.server("public")
	const failed, untrue = "expression_failed", "expression_false"
	for name, test := range map[string]struct {
		method, target, token string
		reason                string // empty: the request passes
	}{
		"role and organisation": {"GET", "/by-role/1", admin, ""},
		"another role":          {"GET", "/by-role/1", member, untrue},
		"a server's":            {"GET", "/by-role/1", server, untrue},
		"no rule for it":        {"GET", "/1", server, ""},
		"own tenant":            {"GET", "/tenants/1", admin, ""},
		"another tenant":        {"GET", "/tenants/1", other, untrue},
		"both scopes":           {"POST", "/1", other, ""},
		"one scope":             {"PUT", "/1", admin, untrue},
		"neither":               {"GET", "/either/1", server, untrue},
		"not to be evaluated":   {"GET", "/broken/1", admin, failed},
		"a number":              {"GET", "/broken/1", g.watched(g.forger().user("u-4", "", "4")), ""},
		"wrong query":           {"GET", "/query/1?debug=1", admin, untrue},
		"malformed query":       {"GET", "/query/1?debug=1&%zz", admin, failed},
	} {
		t.Run(name, func(t *testing.T) {
			request := g.request(test.method, test.target, bearer(test.token), "X-Tenant: acme", "Content-Length: 0")
			if test.reason == "" {
				g.passed(t, request)
				return
			}
			header, body := g.because(t, request, http.StatusForbidden, test.reason)
			if !strings.Contains(body, `"access_denied"`) || header.Get("Www-Authenticate") != "" {
				t.Errorf("%s %v", body, header)
			}
		})
	}
	g.refused(t, g.request("GET", "/by-role/1"), 401)
	for range 2 { // with a token that was verified once and different requests
		g.passed(t, g.request("GET", "/tenants/1", bearer(admin), "X-Tenant: acme"))
		g.because(t, g.request("GET", "/tenants/1", bearer(admin), "X-Tenant: rival"), 403, "expression_false")
	}
}

// TestG55ClaimsAreTextToExpressions checks that a claim is never evaluated as CEL or a placeholder and never ends a literal.
func TestG55ClaimsAreTextToExpressions(t *testing.T) {
	t.Setenv("GATE_TEST_SECRET", "admin")
	g := startGate(t, siteWith("", "	handle {\n		protect {\n"+
		"			require /ph/* expression `{http.auth.user.role} == 'admin'`\n"+
		"			require /fn/* expression `oauth_claim('role', 'admin')`\n"+
		"			require /own/* expression `{http.auth.user.role} == {header.X-Role}`\n"+
		"		}\n		reverse_proxy UPSTREAM\n	}"))
	f := g.forger()
	for _, role := range []string{
		"{env.GATE_TEST_SECRET}", "{http.request.header.X-Secret}", "admin' || 'a' == 'a", "' || true || '", `admin" || "a" == "a`, "true",
		"ph(req, 'env.GATE_TEST_SECRET')", `\'admin\'`, "admin\x01", "admin admin",
	} {
		token := g.watched(f.user("u-1", "acme", role))
		g.because(t, g.request("GET", "/ph/x", bearer(token), "X-Secret: admin"), 403, "expression_false")
		g.because(t, g.request("GET", "/fn/x", bearer(token), "X-Secret: admin"), 403, "expression_false")
		if role != "admin\x01" {
			g.passed(t, g.request("GET", "/own/x", bearer(token), "X-Role: "+role))
		}
	}
}

// TestG56RulesOfAllKindsAreAskedAboutEveryReading checks that a rule applies to every way in which an upstream may read a request.
func TestG56RulesOfAllKindsAreAskedAboutEveryReading(t *testing.T) {
	g := startGate(t, siteWith("", "	@get method GET\n	@export path /export\n	handle {\n		protect {\n"+
		"			require @get acr gold\n"+
		"			require @export max_age 1h\n"+
		"			require /slash/a/* claim tenant acme\n"+
		"			require expression `!path('/hidden') && !path('/deep/a/*')`\n"+
		"		}\n		reverse_proxy UPSTREAM\n	}"))
	f := g.forger()
	user := func(claims map[string]any) string {
		claims["sub"] = "u-1"
		return g.watched(f.claiming(claims))
	}
	plain, gold := user(map[string]any{}), user(map[string]any{"acr": "gold"})
	g.because(t, g.request("HEAD", "/x", bearer(plain)), 401, "acr_insufficient")
	g.passed(t, g.request("POST", "/x", bearer(plain), "Content-Length: 0"))
	for _, target := range []string{"/export", "/export/", "/EXPORT", "/%65xport"} {
		g.because(t, g.request("GET", target, bearer(gold)), 401, "sign_in_too_old")
	}
	for _, target := range []string{"/slash/a/b", "/slash/a%2fb", "/slash%2fa%2fb", "/slash/A/"} {
		g.because(t, g.request("GET", target, bearer(gold)), 403, "claim_missing")
	}
	for _, target := range []string{"/hidden", "/hidden/", "/Hidden", "/deep/a/b", "/deep%2fa/b", "/deep/a%2fb"} {
		g.because(t, g.request("GET", target, bearer(gold)), 403, "expression_false")
	}
	g.passed(t, g.request("GET", "/hidden/b", bearer(gold)))
}

// TestG56AnAmbiguousPathFallsUnderEveryRule checks routes that let ambiguous paths through.
func TestG56AnAmbiguousPathFallsUnderEveryRule(t *testing.T) {
	tests := []struct {
		rule   string
		status int
		reason string
	}{
		{"acr gold", 401, "acr_insufficient"}, {"max_age 1h", 401, "sign_in_too_old"}, {"claim tenant acme", 403, "claim_missing"}, {"expression false", 403, "expression_false"},
		{"expression `!path('/x/*')`", 403, "expression_failed"}, {"expression `{path} != '/y'`", 403, "expression_failed"},
	}
	routes := ""
	for i, test := range tests {
		routes += gatedBelow("/"+itoa(i)+"/*", "paths lenient", "require /never/* "+test.rule)
	}
	g := startGate(t, siteWith("", routes))
	token := g.server("public")
	for i, test := range tests {
		g.because(t, g.request("GET", "/"+itoa(i)+"/a;b", bearer(token)), test.status, test.reason)
		g.passed(t, g.request("GET", "/"+itoa(i)+"/b", bearer(token)))
	}
}

// TestG70ExpressionsSeeThePathThatIsForwarded checks expressions behind handle_path and rewrite. Rules with matchers see the same path.
func TestG70ExpressionsSeeThePathThatIsForwarded(t *testing.T) {
	g := startGate(t, siteWith("", "	handle_path /p/* {\n		protect {\n			require expression `!path('/admin/*') || oauth_scope('trusted')`\n		}\n		reverse_proxy UPSTREAM\n	}\n"+
		"	handle /r/* {\n		rewrite * /admin/x\n		protect {\n			require expression `!path('/admin/*') || oauth_scope('trusted')`\n		}\n		reverse_proxy UPSTREAM\n	}"))
	public, trusted := g.server("public"), g.user("u-1", "", "", "trusted")
	for _, target := range []string{"/p/admin/x", "/r/x"} {
		g.because(t, g.request("GET", target, bearer(public)), 403, "expression_false")
		if seen := g.passed(t, g.request("GET", target, bearer(trusted))); seen.Target != "/admin/x" {
			t.Errorf("%s reached the upstream as %s", target, seen.Target)
		}
	}
	g.passed(t, g.request("GET", "/p/x", bearer(public)))
}

// TestG84StepUp: a sign-in that is too old or of another acr → 401 with acr_values and max_age (RFC 9470 §3).
func TestG84StepUp(t *testing.T) {
	now := setClock(t)
	g := startGate(t, siteWith("", gated("", "require /gold/* acr gold urn:example:platinum", "require /fresh/* max_age 5m", "require /hurry/* max_age 1m", "require /both/* acr gold", "require /both/* max_age 1h", "require /both/very/* max_age 1m")))
	f := g.forger()
	user := func(age time.Duration, acr any) string {
		return g.watched(f.claiming(map[string]any{"sub": "u-1", "acr": acr, "auth_time": node.Clock().Add(-age).Unix()}))
	}
	never := g.watched(f.claiming(map[string]any{"sub": "u-1", "acr": "gold"}))
	server := g.watched(f.claiming(map[string]any{"acr": "gold", "auth_time": node.Clock().Unix()}))
	for name, test := range map[string]struct {
		target, token string
		acr, maxAge   string // of the challenge; both empty: the request passes
	}{
		"acr":                     {"/gold/x", user(0, "gold"), "", ""},
		"wrong acr":               {"/gold/x", user(0, "silver"), "gold urn:example:platinum", ""},
		"acr is an object":        {"/gold/x", user(0, map[string]any{"gold": true}), "gold urn:example:platinum", ""},
		"acr of a server":         {"/gold/x", server, "gold urn:example:platinum", ""},
		"fresh":                   {"/fresh/x", user(time.Minute, nil), "", ""},
		"within the leeway":       {"/fresh/x", user(5*time.Minute+2*time.Second, nil), "", ""},
		"too old":                 {"/fresh/x", user(5*time.Minute+10*time.Second, nil), "", "300"},
		"no auth_time":            {"/fresh/x", never, "", "300"},
		"auth_time of a server":   {"/fresh/x", server, "", "300"},
		"all that is asked":       {"/both/x", user(2*time.Hour, nil), "gold", "3600"},
		"all, and the youngest":   {"/both/very/x", user(0, nil), "gold", "60"},
		"all that is asked is in": {"/both/very/x", user(0, "gold"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := g.request("GET", test.target, bearer(test.token))
			if test.acr == "" && test.maxAge == "" {
				g.passed(t, request)
				return
			}
			header, body := g.refused(t, request, 401)
			challenge := parameters(t, header)
			if challenge["error"] != "insufficient_user_authentication" || challenge["error_description"] == "" || challenge["acr_values"] != test.acr || challenge["max_age"] != test.maxAge {
				t.Errorf("challenge %v, want acr_values %q and max_age %q", challenge, test.acr, test.maxAge)
			}
			if member(t, body, "error") != "insufficient_user_authentication" {
				t.Errorf("body %s", body)
			}
		})
	}
	// The age is checked for every request, also with a cached token.
	token := user(0, nil)
	g.passed(t, g.request("GET", "/hurry/x", bearer(token)))
	now.advance(2 * time.Minute)
	g.because(t, g.request("GET", "/hurry/x", bearer(token)), 401, "sign_in_too_old")
	g.passed(t, g.request("GET", "/fresh/x", bearer(token)))
}

// TestG83RulesThatCannotWork checks that such rules are refused when the configuration is loaded, with the position if it is known.
func TestG83RulesThatCannotWork(t *testing.T) {
	emptyHome(t)
	for rule, want := range map[string]string{
		"require expression `{path} ==`":                       "require expression",
		"require expression `'a'`":                             "return type of bool",
		"require expression nonsense('a')":                     "undeclared reference to 'nonsense'",
		"require expression oauth_scope()":                     "requires at least one argument",
		"require expression oauth_scope('orders.raed')":        `unknown scope "orders.raed"`,
		"require expression oauth_claim('role')":               "oauth_claim role needs a value",
		"require expression oauth_claim_request_list(req, [])": "oauth_claim needs an argument",
		"require @typed scope public":                          `unknown scope "orders.raed"`,
		"anonymous @negated":                                   "nobody has looked at a token yet",
		"anonymous @expressed":                                 "nobody has looked at a token yet",
		"anonymous @placeholder":                               "nobody has looked at a token yet",
		"anonymous /open/*\n\t\trequire @negated scope public": "",
	} {
		t.Run(rule, func(t *testing.T) {
			err := validate(t, wrapped("", "\t@typed oauth_scope orders.raed\n\t@negated not oauth_scope public\n\t@expressed expression !oauth_scope('public')\n"+
				"\t@placeholder vars {http.auth.user.id} \"\"\n\tprotect {\n\t\t"+rule+"\n\t}"))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
	for name, rule := range map[string]string{
		"two kinds":        `{"scopes":["public"],"expression":"true"}`,
		"none":             `{}`,
		"acr with a quote": `{"acr":["a\"b"]}`,
		"negative age":     `{"max_age":-1000000000}`,
		"half a second":    `{"max_age":500000000}`,
	} {
		config := strings.Replace(adapted(t, wrapped("", "\tprotect {\n\trequire scope public\n\t}")), `{"scopes":["public"]}`, rule, 1)
		if err := validateJSON(t, []byte(config)); err == nil {
			t.Errorf("%s is accepted", name)
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

// TestG42RolesOfAnotherIssuer checks tokens of another issuer, which may name several roles and describe the user's sign-in. A token
// without a user's sign-in passes no rule about it.
func TestG42RolesOfAnotherIssuer(t *testing.T) {
	setClock(t)
	p := startProvider(t)
	globals, _, _ := strings.Cut(trustSite, "\nhttp://ADDR {")
	g := startTrustGate(t, p, globals+"\nhttp://ADDR {\n"+gated("", "issuer corp", "require /role/* role admin", "require /acr/* acr phr", "require /fresh/* max_age 1m",
		`require /claim/* expression "oauth_claim('role', 'admin') && oauth_claim('groups', '/staff')"`)+"}\n")
	f := g.forger()
	of := func(claims map[string]any) string {
		for name, value := range map[string]any{"client_id": "app", "sub": "u-1"} {
			if _, set := claims[name]; !set {
				claims[name] = value
			}
		}
		return g.watched(f.claiming(claims))
	}
	for name, test := range map[string]struct {
		target string
		claims map[string]any
		status int
		reason string
	}{
		"one role":                {"/role/x", map[string]any{"role": "admin"}, 200, ""},
		"several roles":           {"/role/x", map[string]any{"role": []string{"member", "admin"}}, 200, ""},
		"other roles":             {"/role/x", map[string]any{"role": []string{"member", "Admin"}}, 403, "role_missing"},
		"no role":                 {"/role/x", map[string]any{"role": []string{}}, 403, "role_missing"},
		"a role for a program":    {"/role/x", map[string]any{"sub": "app", "role": []string{"admin"}}, 200, ""},
		"both lists":              {"/claim/x", map[string]any{"role": []string{"member", "admin"}, "groups": []string{"/staff", "/all"}}, 200, ""},
		"one list":                {"/claim/x", map[string]any{"role": []string{"member", "admin"}, "groups": []string{"/all"}}, 403, "expression_false"},
		"acr":                     {"/acr/x", map[string]any{"acr": "phr"}, 200, ""},
		"no acr":                  {"/acr/x", map[string]any{}, 401, "acr_insufficient"},
		"acr of a program":        {"/acr/x", map[string]any{"sub": "app", "acr": "phr"}, 401, "acr_insufficient"},
		"fresh":                   {"/fresh/x", map[string]any{"auth_time": node.Clock().Unix()}, 200, ""},
		"within the wider leeway": {"/fresh/x", map[string]any{"auth_time": node.Clock().Add(-70 * time.Second).Unix()}, 200, ""},
		"too old":                 {"/fresh/x", map[string]any{"auth_time": node.Clock().Add(-100 * time.Second).Unix()}, 401, "sign_in_too_old"},
		"never":                   {"/fresh/x", map[string]any{}, 401, "sign_in_too_old"},
	} {
		t.Run(name, func(t *testing.T) {
			request := g.request("GET", test.target, bearer(of(test.claims)))
			if test.status == http.StatusOK {
				g.passed(t, request)
				return
			}
			g.because(t, request, test.status, test.reason)
		})
	}
}

// TestS40UserOfAnAccessTokenOfOurs: `require user` with an id → only that user by that exact id, never a client of that name;
// `email_domain` → 403, our access tokens carry no address.
func TestS40UserOfAnAccessTokenOfOurs(t *testing.T) {
	g := startGate(t, siteWith("", gated("/one/*", "require user u-ada bob@example.com")+gated("/domain/*", "require email_domain example.com")+
		gated("/reading/*", "require /reading/a/* user u-ada")))
	f := g.forger()
	ada, id := g.user("u-ada", "acme", "member", "public"), g.user("bob@example.com", "acme", "member", "public")
	for name, test := range map[string]struct {
		target, token, reason string // empty reason: the request passes
	}{
		"id":                          {"/one/x", ada, ""},
		"an id that is an address":    {"/one/x", id, ""},
		"another":                     {"/one/x", g.user("u-eve", "acme", "admin", "public"), "user_not_listed"},
		"another case":                {"/one/x", g.user("U-Ada", "acme", "admin", "public"), "user_not_listed"},
		"a client of that id":         {"/one/x", g.watched(f.claiming(map[string]any{"sub": "u-ada", "client_id": "u-ada"})), "user_not_listed"},
		"no address in it":            {"/domain/x", ada, "email_domain_missing"},
		"an id is no address":         {"/domain/x", id, "email_domain_missing"},
		"a rule of another path":      {"/reading/b", g.user("u-eve", "acme", "admin", "public"), ""},
		"an encoded slash":            {"/reading/a%2fb", g.user("u-eve", "acme", "admin", "public"), "user_not_listed"},
		"matched, and the right user": {"/reading/a/b", ada, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := g.request("GET", test.target, bearer(test.token))
			if test.reason == "" {
				g.passed(t, request)
				return
			}
			if _, body := g.because(t, request, http.StatusForbidden, test.reason); !strings.Contains(body, `"access_denied"`) || strings.Contains(body, "bob") || strings.Contains(body, "example.com") {
				t.Errorf("the refusal says %s", body)
			}
		})
	}
	g.audited()
	g.raw(g.request("GET", "/one/x", bearer(g.user("u-eve", "acme", "admin", "public"))))
	if lines := g.audited(); len(lines) != 1 || lines[0]["missing"] != "user" {
		t.Errorf("the audit log names users: %v", lines)
	}
}

// TestS41UserOfAnotherIssuer: `require user` by address with another issuer's token → passes only where `email_verified` is true and the
// address is equal; look-alike and sub-domains → 403.
func TestS41UserOfAnotherIssuer(t *testing.T) {
	setClock(t)
	p := startProvider(t)
	globals, _, _ := strings.Cut(trustSite, "\nhttp://ADDR {")
	g := startTrustGate(t, p, globals+"\nhttp://ADDR {\n"+gated("", "issuer corp", "require /user/* user 7f3 Ada@Example.com", "require /domain/* email_domain Example.com example.org")+"}\n")
	f := g.forger()
	type claims = map[string]any
	for name, test := range map[string]struct {
		target string
		claims claims
		reason string // empty: the request passes
	}{
		"sub":                     {"/user/x", claims{"sub": "7f3"}, ""},
		"verified address":        {"/user/x", claims{"email": "ada@example.com", "email_verified": true}, ""},
		"in another case":         {"/user/x", claims{"email": "ADA@EXAMPLE.com", "email_verified": true}, ""},
		"not verified":            {"/user/x", claims{"email": "ada@example.com", "email_verified": false}, "email_unverified"},
		"nothing said of it":      {"/user/x", claims{"email": "ada@example.com"}, "email_unverified"},
		"verified is 1":           {"/user/x", claims{"email": "ada@example.com", "email_verified": 1}, "email_unverified"},
		"two addresses":           {"/user/x", claims{"email": []string{"eve@example.net", "ada@example.com"}, "email_verified": true}, "user_not_listed"},
		"an address as sub":       {"/user/x", claims{"sub": "ada@example.com"}, "user_not_listed"},
		"an address as user name": {"/user/x", claims{"preferred_username": "ada@example.com", "upn": "ada@example.com", "email_verified": true}, "user_not_listed"},
		"a Kelvin sign for k":     {"/domain/x", claims{"email": "a\u212a@example.com", "email_verified": true}, "email_domain_missing"},
		"a client of that id":     {"/user/x", claims{"sub": "7f3", "client_id": "7f3"}, "user_not_listed"},
		"domain":                  {"/domain/x", claims{"email": "eve@example.org", "email_verified": true}, ""},
		"a domain below":          {"/domain/x", claims{"email": "eve@sub.example.com", "email_verified": true}, "email_domain_missing"},
		"a domain that ends so":   {"/domain/x", claims{"email": "eve@badexample.com", "email_verified": true}, "email_domain_missing"},
		"two @":                   {"/domain/x", claims{"email": "eve@evil.net@example.com", "email_verified": true}, "email_domain_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			for claim, value := range (claims{"client_id": "app", "sub": "u-1"}) {
				if _, set := test.claims[claim]; !set {
					test.claims[claim] = value
				}
			}
			request := g.request("GET", test.target, bearer(g.watched(f.claiming(test.claims))))
			if test.reason == "" {
				g.passed(t, request)
				return
			}
			g.because(t, request, http.StatusForbidden, test.reason)
		})
	}
}
