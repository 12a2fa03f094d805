package rule

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
)

// TestG41ScopeOfARoute: scope public, a prefix, another case or none where `trusted` is needed → refused.
func TestG41ScopeOfARoute(t *testing.T) {
	t.Parallel()
	trusted, either := requiring(t, `{"scopes":["trusted"]}`), requiring(t, `{"any_scope":["trusted","orders.read"]}`)
	for _, scope := range []any{"public", "trustedX public", "TRUSTED", []string{"trusted"}, nil, "", "public,trusted", "trus", claims{"trusted": true}} {
		trusted.holds(t, "GET /", having(t, claims{"scope": scope}), "scope_missing")
		either.holds(t, "GET /", having(t, claims{"scope": scope}), "scope_missing")
	}
	trusted.holds(t, "GET /", scoped(t, "public trusted"), "")
	either.holds(t, "GET /", scoped(t, "public orders.read"), "")
}

// TestG41ExpressionOfARoute: an expression that is false, or that cannot be evaluated → refused.
func TestG41ExpressionOfARoute(t *testing.T) {
	t.Parallel()
	r := requiring(t, `{"match":[{"path":["/by-role/*"]}],"expression":"{http.auth.user.role} == 'admin' && {http.auth.user.organisation} == 'acme'"}`,
		`{"match":[{"path":["/tenants/*"]}],"expression":"{http.auth.user.org} == {http.request.header.X-Tenant}"}`,
		`{"match":[{"method":["POST","PUT"]}],"expression":"oauth_scope('trusted', 'orders.read')"}`,
		`{"match":[{"path":["/either/*"]}],"expression":"oauth_claim('role', 'admin', 'member') || oauth_scope('orders.read')"}`,
		`{"match":[{"path":["/broken/*"]}],"expression":"int({http.auth.user.role}) > 3"}`,
		`{"match":[{"path":["/query/*"]}],"expression":"!query({'debug': '1'})"}`)
	admin := having(t, claims{"org": "acme", "role": "admin", "scope": "trusted"})
	member := having(t, claims{"org": "acme", "role": "member", "scope": "orders.read"})
	other := having(t, claims{"org": "rival", "role": "admin", "scope": "trusted orders.read"})
	server := having(t, claims{"sub": "app"})
	r.holds(t, "GET /by-role/1", admin, "")
	r.holds(t, "GET /by-role/1", member, "expression_false")
	r.holds(t, "GET /by-role/1", server, "expression_false")
	r.holds(t, "GET /1", server, "")
	r.holds(t, "GET /tenants/1\nX-Tenant: acme", admin, "")
	r.holds(t, "GET /tenants/1\nX-Tenant: acme", other, "expression_false")
	r.holds(t, "POST /1", other, "")
	r.holds(t, "PUT /1", admin, "expression_false")
	r.holds(t, "GET /either/1", member, "")
	r.holds(t, "GET /either/1", server, "expression_false")
	r.holds(t, "GET /broken/1", admin, "expression_failed")
	r.holds(t, "GET /broken/1", having(t, claims{"role": "4"}), "")
	r.holds(t, "GET /query/1?debug=1", admin, "expression_false")
	r.holds(t, "GET /query/1?debug=1&%zz", admin, "expression_failed")
}

// TestG55ClaimsAreTextToExpressions checks that a claim is never evaluated as CEL or a placeholder and never ends a literal.
func TestG55ClaimsAreTextToExpressions(t *testing.T) {
	t.Setenv("RULE_TEST_SECRET", "admin")
	r := requiring(t, `{"match":[{"path":["/ph"]}],"expression":"{http.auth.user.role} == 'admin'"}`,
		`{"match":[{"path":["/fn"]}],"expression":"oauth_claim('role', 'admin')"}`,
		`{"match":[{"path":["/own"]}],"expression":"{http.auth.user.role} == {http.request.header.X-Role}"}`)
	for _, role := range []string{
		"{env.RULE_TEST_SECRET}", "{http.request.header.X-Secret}", "admin' || 'a' == 'a", "' || true || '", `admin" || "a" == "a`, "true",
		"ph(req, 'env.RULE_TEST_SECRET')", `\'admin\'`, "admin\x01", "admin admin",
	} {
		tok := having(t, claims{"role": role})
		r.holds(t, "GET /ph\nX-Secret: admin", tok, "expression_false")
		r.holds(t, "GET /fn\nX-Secret: admin", tok, "expression_false")
		if role != "admin\x01" {
			r.holds(t, "GET /own\nX-Role: "+role, tok, "")
		}
	}
}

// TestG56RulesOfAllKindsAreAskedAboutEveryReading checks that a rule applies to every way in which an upstream may read a request.
func TestG56RulesOfAllKindsAreAskedAboutEveryReading(t *testing.T) {
	t.Parallel()
	r := requiring(t, `{"match":[{"method":["GET"]}],"acr":["gold"]}`, `{"match":[{"path":["/export"]}],"max_age":3600000000000}`,
		`{"match":[{"path":["/slash/a/*"]}],"claim":"tenant","values":["acme"]}`, `{"expression":"!path('/hidden') && !path('/deep/a/*')"}`)
	plain, gold := having(t, nil), having(t, claims{"acr": "gold"})
	r.holds(t, "HEAD /x", plain, "acr_insufficient")
	r.holds(t, "POST /x", plain, "")
	for reason, paths := range map[string]string{
		"sign_in_too_old": "/export /export/ /EXPORT /%65xport", "claim_missing": "/slash/a/b /slash/a%2fb /slash%2fa%2fb /slash/A/",
		"expression_false": "/hidden /hidden/ /Hidden /deep/a/b /deep%2fa/b /deep/a%2fb", "": "/hidden/b /exports /slash/ab",
	} {
		for path := range strings.FieldsSeq(paths) {
			r.holds(t, "GET "+path, gold, reason)
		}
	}
}

// TestG56AnAmbiguousPathFallsUnderEveryRule checks paths that a route with `paths lenient` lets through.
func TestG56AnAmbiguousPathFallsUnderEveryRule(t *testing.T) {
	t.Parallel()
	for rule, reason := range map[string]string{
		`"acr":["gold"]`: "acr_insufficient", `"max_age":3600000000000`: "sign_in_too_old", `"claim":"tenant","values":["acme"]`: "claim_missing",
		`"expression":"false"`: "expression_false", `"expression":"!path('/x/*')"`: "expression_failed", `"expression":"{path} != '/y'"`: "expression_failed",
		`"scopes":["trusted"]`: "scope_missing", `"roles":["admin"]`: "role_missing", `"groups":["staff"]`: "group_missing",
	} {
		r := requiring(t, `{"match":[{"path":["/never/*"]}],`+strings.ReplaceAll(rule, "{path}", "{http.request.uri.path}")+"}")
		r.holds(t, "GET /a;b", having(t, nil), reason)
		r.holds(t, "GET /b", having(t, nil), "")
	}
}

// TestG62RulesOfBothReadings checks that a rule applies if it matches either path that an upstream may read.
func TestG62RulesOfBothReadings(t *testing.T) {
	t.Parallel()
	r := requiring(t, `{"match":[{"path":["/api/*"]}],"scopes":["trusted"]}`, `{"match":[{"path":["/*/meta"]}],"scopes":["orders.read"]}`)
	const refused = "scope_missing"
	for path, wants := range map[string][3]string{ // public, trusted, reader
		"/api/x": {refused, "", refused}, "/api%2fx": {refused, "", refused}, "/x%2fapi/y": {},
		"/a/meta": {refused, refused, ""}, "/a/b/meta": {}, "/a%2fb/meta": {refused, refused, ""}, "/api%2Fb/meta": {refused, refused, refused},
	} {
		for i, scope := range []string{"public", "trusted", "orders.read"} {
			r.holds(t, "GET "+path, scoped(t, scope), wants[i])
		}
	}
	for _, path := range []string{
		"/api", "/%61pi/x", "/ap%69/x", "/API/x", "/%41PI/x", "/api%2Fx", "/API%2fx", "/api/x%2fy", "/api/", "/api/x?/public/", "/api%2f", "/api/~x", "/api/%7ex", "/api/a%20b", "/api/%C3%BC",
	} {
		r.holds(t, "GET "+path, scoped(t, "public"), refused)
		r.holds(t, "GET "+path, scoped(t, "trusted"), "")
	}
}

// TestG64G65RulesInEveryReading checks that a rule applies to a path with and without a slash at its end, and with a query that Caddy's
// matchers cannot read.
func TestG64G65RulesInEveryReading(t *testing.T) {
	t.Parallel()
	query := requiring(t, `{"match":[{"query":{"admin":["1"]}}],"scopes":["trusted"]}`)
	slash := requiring(t, `{"match":[{"path":["/","/orders/export","/orders/admin/*"]}],"scopes":["trusted"]}`)
	for target, reason := range map[string]string{"/x?a=1": "", "/x?admin=1": "scope_missing", "/x?admin=1&%zz": "scope_missing", "/x?admin=1;": "scope_missing", "/x?%zz": "scope_missing"} {
		query.holds(t, "GET "+target, scoped(t, "public"), reason)
	}
	for _, path := range []string{
		"/", "/orders/export", "/orders/export/", "/orders/admin", "/orders/admin/", "/orders/admin/x", "/orders%2fexport/", "/orders/ad%6Din", "/orders/export%3fx",
	} {
		slash.holds(t, "GET "+path, scoped(t, "public"), "scope_missing")
	}
	for _, path := range []string{"/orders", "/orders/exports", "/orders/administration", "/x?/orders/export"} {
		slash.holds(t, "GET "+path, scoped(t, "public"), "")
	}
}

// TestG62ExcludedPathsKeepTheirCase: a path in another case than that which a rule's `not` excludes, at any depth and beside other matchers → the
// rule holds; a path in the configured case in any reading, and the patterns of other matchers → as ever.
func TestG62ExcludedPathsKeepTheirCase(t *testing.T) {
	t.Parallel()
	const guest = "/share/guest/x /share/guest/a%20b /share/guest/a%2fb /share/guest/X /share/%67uest/x /share/guest/x?a=/GUEST"
	const others = " /share/GUEST/secret /SHARE/guest/x /share/Guest/x /share/%47uest/x /share/GUEST/a%2fb /share/guesT/x?a=/share/guest/x"
	for matchers, wants := range map[string]struct{ spared, guarded string }{
		`{"not":[{"path":["/share/guest/*"]}]}`:                                     {guest + " POST:/share/guest/x", "/ /share/x /share/guest /share/guest/ /share/GUEST%2fx POST:/share/GUEST/x" + others},
		`{"not":[{"path":["/open/*"]},{"path":["/share/guest/*"]}]}`:                {guest + " /open/x", "/OPEN/x" + others},
		`{"not":[{"path":["*/open/x*","/share/guest/*"]}]}`:                         {guest + " /a/open/x", "/a/OPEN/x" + others},
		`{"not":[{"path":["/share/guest/*"],"method":["GET"]}]}`:                    {guest, "POST:/share/guest/x POST:/share/GUEST/x" + others},
		`{"not":[{"path":["/share/guest/*"]},{"method":["OPTIONS"]}]}`:              {guest + " OPTIONS:/share/GUEST/x", others},
		`{"path":["/share/*"],"not":[{"path":["/share/guest/*"]}]}`:                 {guest + " /x", others},
		`{"path":["/other/*"]},{"not":[{"path":["/share/guest/*"]}]}`:               {guest, "/OTHER/x" + others},
		`{"not":[{"not":[{"not":[{"path":["/share/guest/*"]}]}]}]}`:                 {guest, "/x" + others},
		`{"not":[{"path":["/caf%C3%A9/*","/{http.request.method}/*","/plain/*"]}]}`: {"/plain/x", "/caf%C3%A9/x /GET/x /get/x"},
		`{"not":[{"not":[{"path":["/share/guest/*"]}]}]}`:                           {"/x", guest + others},
		`{"path":["/share/guest/*"]}`:                                               {"/x", guest + others},
		`{"not":[{"path_regexp":{"pattern":"^/share/guest"}}]}`:                     {guest, others},
		`{"not":[{"path_regexp":{"pattern":"(?i)^/share/guest"}}]}`:                 {guest + others, "/x"},
		`{"not":[{"method":["GET"]}]}`:                                              {guest + others, "POST:/x"},
	} {
		r := requiring(t, `{"match":[`+matchers+`],"scopes":["trusted"]}`)
		for reason, targets := range map[string]string{"": wants.spared, "scope_missing": wants.guarded} {
			for target := range strings.FieldsSeq(targets) {
				method, path, found := strings.Cut(target, ":/")
				if !found {
					method, path = "GET", strings.TrimPrefix(target, "/")
				}
				r.holds(t, method+" /"+path, scoped(t, "public"), reason)
				r.holds(t, method+" /"+path, scoped(t, "trusted"), "")
			}
		}
	}
}

// TestV10MethodInTheQuery: `_method=DELETE` in the query → the rules of every reading hold, also those that read the method through a
// placeholder, which has the method of the request line.
func TestV10MethodInTheQuery(t *testing.T) {
	t.Parallel()
	const deletes = `{"match":[{"method":["DELETE"]}],"scopes":["trusted"]}`
	public, trusted := scoped(t, "public"), scoped(t, "trusted")
	for _, r := range []*route{
		requiring(t, deletes), requiring(t, `{"match":[{"expression":"{http.request.method} == 'DELETE'"}],"scopes":["trusted"]}`),
		requiring(t, `{"match":[{"vars":{"{http.request.method}":["DELETE"]}}],"scopes":["trusted"]}`),
		requiring(t, `{"match":[{"vars":{"{http.vars.verb}":["DELETE"]}}],"scopes":["trusted"]}`),
	} {
		for _, query := range []string{"_method=DELETE", "a=b;%5fmeth%6Fd=%44ELETE", "X-HTTP-Method-Override=DELETE"} {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
				r.holds(t, method+" /x?"+query, public, "scope_missing")
				r.holds(t, method+" /x?"+query, trusted, "")
			}
		}
		r.holds(t, "DELETE /x", public, "scope_missing")
		for _, query := range []string{"", "?method=DELETE", "?payment_method=DELETE", "?_method=", "?a=_method%3dDELETE"} {
			r.holds(t, "POST /x"+query, public, "")
		}
	}
	requiring(t, deletes).holds(t, "POST /x?_method=PUT", public, "")
	named := requiring(t, `{"expression":"{http.request.method} != 'DELETE'"}`)
	named.holds(t, "POST /x?_method=DELETE", trusted, "expression_failed")
	named.holds(t, "POST /x", trusted, "")
	get := requiring(t, `{"match":[{"path":["/export"],"vars":{"{http.request.method}":["GET"]}}],"scopes":["trusted"]}`, `{"match":[{"path":["/head"]}],"expression":"{http.request.method} != 'GET'"}`)
	for _, method := range []string{"GET", "HEAD"} { // an upstream answers both from the same resource
		get.holds(t, method+" /export", public, "scope_missing")
		get.holds(t, method+" /head", trusted, "expression_false")
	}
	get.holds(t, "POST /head", public, "")
}

// TestG67HeadIsJudgedAsGet: HEAD → the rules of GET.
func TestG67HeadIsJudgedAsGet(t *testing.T) {
	t.Parallel()
	r := requiring(t, `{"match":[{"method":["GET"]}],"scopes":["orders.read"]}`)
	for _, path := range []string{"/x", "/x%2fy"} {
		for _, method := range []string{"GET", "HEAD"} {
			r.holds(t, method+" "+path, scoped(t, "public"), "scope_missing")
			r.holds(t, method+" "+path, scoped(t, "orders.read"), "")
		}
		r.holds(t, "POST "+path, scoped(t, "public"), "")
	}
}

// TestG84StepUp: a sign-in that is too old or of another acr → refused with all that the route asks of a sign-in (RFC 9470 §3).
func TestG84StepUp(t *testing.T) {
	t.Parallel()
	r := requiring(t, `{"match":[{"path":["/gold"]}],"acr":["gold","urn:example:platinum"]}`, `{"match":[{"path":["/fresh"]}],"max_age":300000000000}`,
		`{"match":[{"path":["/both","/both/*"]}],"acr":["gold"]}`, `{"match":[{"path":["/both","/both/*"]}],"max_age":3600000000000}`, `{"match":[{"path":["/both/very"]}],"max_age":60000000000}`)
	ago := func(age time.Duration, acr any) claims {
		return claims{"acr": acr, "auth_time": tokentest.Start.Add(-age).Unix()}
	}
	const both = "gold urn:example:platinum"
	for name, test := range map[string]struct {
		path   string
		claims claims
		own    bool
		acr    string
		maxAge time.Duration // of the refusal; neither: it passes
	}{
		"acr":                     {"/gold", ago(0, "gold"), true, "", 0},
		"wrong acr":               {"/gold", ago(0, "silver"), true, both, 0},
		"no acr":                  {"/gold", nil, false, both, 0},
		"acr is an object":        {"/gold", ago(0, claims{"gold": true}), true, both, 0},
		"acr of a server":         {"/gold", claims{"sub": "app", "acr": "gold"}, true, both, 0},
		"fresh":                   {"/fresh", ago(time.Minute, nil), true, "", 0},
		"within the leeway":       {"/fresh", ago(5*time.Minute+2*time.Second, nil), true, "", 0},
		"too old":                 {"/fresh", ago(5*time.Minute+10*time.Second, nil), true, "", 5 * time.Minute},
		"within the wider leeway": {"/fresh", ago(5*time.Minute+10*time.Second, nil), false, "", 0},
		"too old for others":      {"/fresh", ago(5*time.Minute+40*time.Second, nil), false, "", 5 * time.Minute},
		"no auth_time":            {"/fresh", nil, true, "", 5 * time.Minute},
		"auth_time of a server":   {"/fresh", claims{"sub": "app", "auth_time": tokentest.Start.Unix()}, true, "", 5 * time.Minute},
		"auth_time to come":       {"/fresh", ago(-2*time.Minute, nil), true, "", 5 * time.Minute},
		"all that is asked":       {"/both", ago(2*time.Hour, nil), true, "gold", time.Hour},
		"all, and the youngest":   {"/both/very", ago(0, nil), true, "gold", time.Minute},
		"all that is asked is in": {"/both/very", ago(0, "gold"), true, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, _ := r.refuses(t, "GET "+test.path, having(t, test.claims), test.own)
			if passes := test.acr == "" && test.maxAge == 0; passes || refusal == nil {
				if !passes || refusal != nil {
					t.Errorf("%v", refusal)
				}
				return
			}
			if refusal.Code != "insufficient_user_authentication" || strings.Join(refusal.ACRValues, " ") != test.acr || refusal.MaxAge != test.maxAge {
				t.Errorf("%s, acr_values %q, max_age %s; want %q, %s", refusal.Code, refusal.ACRValues, refusal.MaxAge, test.acr, test.maxAge)
			}
		})
	}
}

// TestG42RolesAndGroups: `require role`, `group` or `claim` → one value of a list is enough, compared byte for byte; a server's token of our
// own has no role.
func TestG42RolesAndGroups(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule   string
		claims claims
		own    bool
		reason string
	}{
		"role":                 {`"roles":["admin","boss"]`, claims{"role": "boss"}, true, ""},
		"another role":         {`"roles":["admin"]`, claims{"role": "member"}, true, "role_missing"},
		"another case":         {`"roles":["admin"]`, claims{"role": "Admin"}, true, "role_missing"},
		"a space behind":       {`"roles":["admin"]`, claims{"role": "admin "}, true, "role_missing"},
		"two in one":           {`"roles":["admin","boss"]`, claims{"role": "admin boss"}, true, "role_missing"},
		"a server's":           {`"roles":["admin"]`, claims{"sub": "app", "role": "admin"}, true, "role_missing"},
		"several roles":        {`"roles":["admin"]`, claims{"role": []string{"member", "admin"}}, false, ""},
		"other roles":          {`"roles":["admin"]`, claims{"role": []string{"member", "Admin"}}, false, "role_missing"},
		"no role":              {`"roles":["admin"]`, claims{"role": []string{}}, false, "role_missing"},
		"a role for a program": {`"roles":["admin"]`, claims{"sub": "app", "role": []string{"admin"}}, false, ""},
		"both lists": {`"expression":"oauth_claim('role', 'admin') && oauth_claim('groups', '/staff')"`,
			claims{"role": []string{"member", "admin"}, "groups": []string{"/staff", "/all"}}, false, ""},
		"one list": {`"expression":"oauth_claim('role', 'admin') && oauth_claim('groups', '/staff')"`,
			claims{"role": []string{"member", "admin"}, "groups": []string{"/all"}}, false, "expression_false"},
		"organisation":         {`"claim":"org","values":["acme"]`, claims{"org": "acme"}, true, ""},
		"another organisation": {`"claim":"org","values":["acme"]`, claims{"org": "acme2"}, true, "claim_missing"},
		"no organisation":      {`"claim":"org","values":["acme"]`, nil, true, "claim_missing"},
		"group":                {`"groups":["staff"]`, claims{"groups": []string{"all", "staff"}}, false, ""},
		"no such group":        {`"groups":["staff"]`, claims{"groups": []string{"Staff"}}, false, "group_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			requiring(t, "{"+test.rule+"}").judges(t, "GET /", having(t, test.claims), test.own, test.reason)
		})
	}
}

// TestS40UserOfAnAccessTokenOfOurs: `require user` with an id → only that user by that exact id, never a client of that name;
// `email_domain` → 403, our access tokens carry no address.
func TestS40UserOfAnAccessTokenOfOurs(t *testing.T) {
	t.Parallel()
	user, domain := requiring(t, `{"users":["u-ada","bob@example.com"]}`), requiring(t, `{"email_domains":["example.com"]}`)
	for sub, reason := range map[string]string{"u-ada": "", "bob@example.com": "", "u-eve": "user_not_listed", "U-Ada": "user_not_listed"} {
		user.holds(t, "GET /", having(t, claims{"sub": sub}), reason)
		domain.holds(t, "GET /", having(t, claims{"sub": sub}), "email_domain_missing")
	}
	user.holds(t, "GET /", having(t, claims{"sub": "u-ada", "client_id": "u-ada"}), "user_not_listed")
	if _, missing := user.refuses(t, "GET /", having(t, nil), true); missing != "user" {
		t.Errorf("the audit log says %q", missing) // not which users
	}
}

// TestS41UserOfAnotherIssuer: `require user` by address with another issuer's token → passes only where `email_verified` is true and the
// address is equal; look-alike and sub-domains → 403.
func TestS41UserOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	user, domain := requiring(t, `{"users":["7f3","Ada@Example.com"]}`), requiring(t, `{"email_domains":["Example.com","example.org"]}`)
	for name, test := range map[string]struct {
		rule   *route
		claims claims
		reason string
	}{
		"sub":                     {user, claims{"sub": "7f3"}, ""},
		"verified address":        {user, claims{"email": "ada@example.com", "email_verified": true}, ""},
		"in another case":         {user, claims{"email": "ADA@EXAMPLE.com", "email_verified": true}, ""},
		"not verified":            {user, claims{"email": "ada@example.com", "email_verified": false}, "email_unverified"},
		"nothing said of it":      {user, claims{"email": "ada@example.com"}, "email_unverified"},
		"verified is 1":           {user, claims{"email": "ada@example.com", "email_verified": 1}, "email_unverified"},
		"two addresses":           {user, claims{"email": []string{"eve@example.net", "ada@example.com"}, "email_verified": true}, "user_not_listed"},
		"an address as sub":       {user, claims{"sub": "Ada@Example.com"}, "user_not_listed"},
		"an address as user name": {user, claims{"preferred_username": "ada@example.com", "upn": "ada@example.com", "email_verified": true}, "user_not_listed"},
		"a client of that id":     {user, claims{"sub": "7f3", "client_id": "7f3"}, "user_not_listed"},
		"domain":                  {domain, claims{"email": "eve@example.org", "email_verified": true}, ""},
		"a Kelvin sign for k":     {domain, claims{"email": "a\u212a@example.com", "email_verified": true}, "email_domain_missing"},
		"a domain below":          {domain, claims{"email": "eve@sub.example.com", "email_verified": true}, "email_domain_missing"},
		"a domain that ends so":   {domain, claims{"email": "eve@badexample.com", "email_verified": true}, "email_domain_missing"},
		"two @":                   {domain, claims{"email": "eve@evil.net@example.com", "email_verified": true}, "email_domain_missing"},
	} {
		t.Run(name, func(t *testing.T) { test.rule.judges(t, "GET /", having(t, test.claims), false, test.reason) })
	}
}
