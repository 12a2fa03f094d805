package rule

import (
	"strings"
	"testing"
)

// openings checks which targets of GET requests, or of those with another method before the target, need no token.
func openings(t *testing.T, r *route, open, closed string) {
	t.Helper()
	for want, list := range map[bool]string{true: open, false: closed} {
		for _, target := range strings.Split(list, " ") {
			method, path, found := strings.Cut(target, ":/")
			if !found {
				method, path = "GET", strings.TrimPrefix(target, "/")
			}
			if r.opens(t, method+" /"+path) != want {
				t.Errorf("%s: anonymous %t, want %t", target, !want, want)
			}
		}
	}
}

// TestG62OtherSpellingsOfThePath: `/%61pi`, `/API`, `/api%2fx` → never anonymous.
func TestG62OtherSpellingsOfThePath(t *testing.T) {
	t.Parallel()
	openings(t, opening(t, `{"path":["/public/*"]}`),
		"/public/x /public/ /public/a.b/c-d_e~f /public/x?/api /public/x?../api /public/a%20b /public/%C3%BC /public/x+y /public/a:b@c,d HEAD:/public/x POST:/public/x",
		"/%70ublic/x /PUBLIC/x /Public/x /public%2fx /public%2Fx /public/x%2fy /public /publicx /public%2f /public/%70 /public/x%3fy /public/x%23y /publi%63/x "+
			"/pub%20lic/x /x?/public/x /?/public/ /%2fpublic/x /public/x;y /public//x /public/../public/x")
}

// TestG64G69SegmentBoundary: `/api`, `/apix` or `/healthz/x` where `/api/*` and `/healthz` are anonymous → segments are respected, none of
// them is anonymous.
func TestG64G69SegmentBoundary(t *testing.T) {
	t.Parallel()
	openings(t, opening(t, `{"not":[{"not":[{"path":["/pub/*"]}]}]}`), "/pub/x /pub/X", "/PUB/x /x /%50UB/x")
	openings(t, opening(t, `{"path":["/api/*"]}`, `{"path":["/exact"]}`, `{"path":["/enc%2foded/*"]}`, `{"path":["/healthz"]}`),
		"/api/ /api/x /exact /exact?x=/y /healthz",
		"/api /apix /apix/x /api.x /ap /API/x /exact/ /exactx /exact/x /Exact /enc%2foded/x /enc/oded/x "+
			"/ /healthz/x /healthz/ /healthzx /x/healthz /x?/healthz /HEALTHZ /healthz%2fx /healthz%2f")
}

// TestG64G65InEveryReading checks that a request is anonymous only if it is in every way in which an upstream may read it. A malformed query
// does not match in Caddy. Many upstreams ignore a slash at the end of a path, and answer HEAD as GET.
func TestG64G65InEveryReading(t *testing.T) {
	t.Parallel()
	openings(t, opening(t, `{"path":["/pub/*"],"not":[{"query":{"admin":["1"]}}]}`), "/pub/x?a=1", "/pub/x?admin=1 /pub/x?admin=1&%zz")
	openings(t, opening(t, `{"not":[{"path":["/admin/*","/exact"]}]}`), "/ /orders/ /administrator HEAD:/orders",
		"/admin/ /admin/x /admin HEAD:/admin /Admin /%6frders /x%2fy /exact /exact/")
	openings(t, opening(t, `{"path":["/health","/pub/*"],"not":[{"method":["GET"]},{"header":{"X-Key":["*"]}}]}`),
		"POST:/health POST:/pub/x POST:/pub/", "/pub/x HEAD:/pub/x POST:/other")
	openings(t, opening(t, `{"method":["GET","HEAD"],"path":["/public/*"]}`), "/public/x HEAD:/public/x", "POST:/public/x")
}

// TestV10AnonymousMethods: a query that names another method than an anonymous request may have → not anonymous. WordPress obeys it for a
// GET too.
func TestV10AnonymousMethods(t *testing.T) {
	t.Parallel()
	openings(t, opening(t, `{"method":["GET","HEAD"]}`, `{"path":["/kept/*"],"not":[{"method":["DELETE"]}]}`),
		"/x /x?_method=GET /x?method=DELETE /x?a=b HEAD:/x POST:/kept/x?_method=PUT",
		"/x?_method=DELETE HEAD:/x?a=b;%5fmeth%6Fd=%44ELETE /x?X-HTTP-Method-Override=DELETE POST:/kept/x?_method=DELETE POST:/x")
	openings(t, opening(t, `{"path":["/open"],"vars":{"{http.request.method}":["GET"]}}`, `{"path":["/unget"],"not":[{"vars":{"{http.request.method}":["GET"]}}]}`),
		"/open POST:/unget", "/unget HEAD:/unget /open?_method=DELETE /open?_method=GET /open?%5fmethod=delete /open?X-HTTP-Method-Override=PUT POST:/unget?_method=GET POST:/unget?_method=DELETE")
}

// TestG78RulesThatCannotWork: an `anonymous` that opens everything or asks who is calling, a rule of no or of two kinds → refused.
func TestG78RulesThatCannotWork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"anonymous":[{}]}`: "would protect nothing", `{"anonymous":[{"path":["*"]}]}`: "would protect nothing",
		`{"anonymous":[{"path":["/*"]}]}`: "would protect nothing", `{"anonymous":[{"path":["/a","/*"]}]}`: "would protect nothing",
		`{"anonymous":[{"not":[{"oauth_scope":["public"]}]}]}`:    "nobody has looked at a token yet",
		`{"anonymous":[{"expression":"!oauth_scope('public')"}]}`: "nobody has looked at a token yet",
		`{"anonymous":[{"vars":{"{http.auth.user.id}":[""]}}]}`:   "nobody has looked at a token yet",
		`{"require":[{"scopes":["public"],"expression":"true"}]}`: "needs one of",
		`{"require":[{}]}`:                                                     "needs one of",
		`{"require":[{"claim":"org"}]}`:                                        "needs a value",
		`{"require":[{"acr":["a\"b"]}]}`:                                       "visible ASCII",
		`{"require":[{"max_age":-1000000000}]}`:                                "whole seconds",
		`{"require":[{"max_age":500000000}]}`:                                  "whole seconds",
		`{"require":[{"users":["@a"]}]}`:                                       "looks like a matcher",
		`{"require":[{"email_domains":["/a"]}]}`:                               "looks like a matcher",
		`{"require":[{"expression":"{http.request.uri.path} =="}]}`:            "require expression",
		`{"require":[{"expression":"'a'"}]}`:                                   "return type of bool",
		`{"require":[{"expression":"nonsense('a')"}]}`:                         "undeclared reference to 'nonsense'",
		`{"require":[{"expression":"oauth_scope()"}]}`:                         "requires at least one argument",
		`{"require":[{"expression":"oauth_claim('role')"}]}`:                   "oauth_claim role needs a value",
		`{"require":[{"expression":"oauth_claim_request_list(req, [])"}]}`:     "oauth_claim needs an argument",
		`{"anonymous":[{"path":["/open"]}],"require":[{"scopes":["public"]}]}`: "",
	} {
		if _, err := newRoute(t, text); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
