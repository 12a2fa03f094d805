package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// querySite has rules, open paths and CORS settings that depend on the method.
var querySite = siteWith("", `	@deletes method DELETE
	@reads method GET HEAD
	@keeps {
		path /kept/*
		not method DELETE
	}
	handle /shared/* {
		protect {
			cors https://spa.example {
				preflight upstream
			}
		}
		reverse_proxy UPSTREAM
	}
	handle /cookie/* {
		protect {
			token_from cookie app_token
		}
		reverse_proxy UPSTREAM
	}
	handle /expression/* {
		protect {
			require expression {method} != "DELETE"
		}
		reverse_proxy UPSTREAM
	}
	handle /named/* {
		@cel expression {http.request.method} == "PATCH"
		@vars vars {http.request.method} PUT
		@mapped vars {http.vars.verb} DELETE
		@gets vars {http.request.method} GET
		@ungets not vars {http.request.method} GET
		@get_export {
			path /named/export
			vars {http.request.method} GET
		}
		vars verb {http.request.method}
		handle /named/open {
			protect {
				anonymous @gets
			}
			reverse_proxy UPSTREAM
		}
		handle /named/unget {
			protect {
				anonymous @ungets
			}
			reverse_proxy UPSTREAM
		}
		handle /named/head {
			protect {
				require expression {http.request.method} != "GET"
			}
			reverse_proxy UPSTREAM
		}
		handle {
			protect {
				require @cel scope trusted
				require @vars scope trusted
				require @mapped scope trusted
				require @get_export scope trusted
			}
			reverse_proxy UPSTREAM
		}
	}
	handle {
		protect {
			anonymous @reads
			anonymous @keeps
			require @deletes scope trusted
		}
		reverse_proxy UPSTREAM
	}`)

// TestV10MethodInTheQuery: `_method=DELETE` in query or header → the rules of every reading hold.
func TestV10MethodInTheQuery(t *testing.T) {
	g := startGate(t, querySite)
	public, trusted := g.server("public"), g.user("u-1", "", "", "trusted", "public")
	const empty = "Content-Length: 0"
	for _, query := range []string{
		"_method=DELETE", "a=b;%5fmeth%6Fd=%44ELETE", "X-HTTP-Method-Override=DELETE",
	} {
		for _, method := range []string{"POST", "PUT"} {
			g.refused(t, g.request(method, "/x?"+query, bearer(public), empty), http.StatusForbidden)
			if seen := g.passed(t, g.request(method, "/x?"+query, bearer(trusted), empty)); seen.Target != "/x?"+query {
				t.Errorf("forwarded as %s", seen.Target)
			}
		}
		g.refused(t, g.request("GET", "/x?"+query), http.StatusUnauthorized) // WordPress obeys it for a GET too
		g.refused(t, g.request("HEAD", "/x?"+query), http.StatusUnauthorized)
		g.refused(t, g.request("POST", "/kept/x?"+query, empty), http.StatusUnauthorized)
		g.refused(t, g.request("OPTIONS", "/shared/x?"+query, "Origin: https://spa.example", "Access-Control-Request-Method: POST"), http.StatusUnauthorized)
		g.refused(t, g.request("GET", "/cookie/x?"+query, "Cookie: app_token="+public, "Sec-Fetch-Site: cross-site"), http.StatusForbidden)
		g.refused(t, g.request("POST", "/expression/x?"+query, bearer(trusted), empty), http.StatusForbidden)
	}
	for _, query := range []string{"_method=DELETE&_method=PUT", "_method=PUT&X-HTTP-Method-Override=DELETE"} {
		g.because(t, g.request("POST", "/x?"+query, bearer(trusted), empty), http.StatusBadRequest, "method_twice")
		g.because(t, g.request("GET", "/x?"+query), http.StatusBadRequest, "method_twice")
	}
	for _, query := range []string{"_method=PUT", "_method=GET", "method=DELETE", "payment_method=DELETE", "_method=", "a=_method%3dDELETE"} {
		g.passed(t, g.request("POST", "/x?"+query, bearer(public), empty))
	}
	for _, query := range []string{"_method=GET", "method=DELETE", "a=b"} {
		g.passed(t, g.request("GET", "/x?"+query))
	}
	g.passed(t, g.request("GET", "/cookie/x?_method=HEAD", "Cookie: app_token="+public, "Sec-Fetch-Site: cross-site"))
	g.passed(t, g.request("GET", "/cookie/x?_method=DELETE", "Cookie: app_token="+public, "Sec-Fetch-Site: same-origin"))
	g.passed(t, g.request("POST", "/expression/x", bearer(trusted), empty))
	g.refused(t, g.request("DELETE", "/x", bearer(public)), http.StatusForbidden)
	g.passed(t, g.request("POST", "/kept/x?_method=PUT", empty))
	g.reload(strings.Replace(querySite, "anonymous @reads\n", "paths lenient\n", 1))
	g.refused(t, g.request("POST", "/x?_method=DELETE", bearer(public), empty), http.StatusForbidden)
}

// TestV10MethodInAPlaceholder checks a matcher that reads the method through a placeholder, which has the method of the request line. Its
// rule also applies to a request whose query names that method, and to a HEAD that is answered as a GET. Paths that the matcher opens are
// not open for these.
func TestV10MethodInAPlaceholder(t *testing.T) {
	g := startGate(t, querySite)
	public, trusted := g.server("public"), g.user("u-1", "", "", "trusted", "public")
	const empty = "Content-Length: 0"
	for _, method := range []string{"PATCH", "PUT", "DELETE"} {
		for _, request := range [][2]string{{method, "/named/1"}, {"POST", "/named/1?_method=" + method}, {"POST", "/named/1?X-HTTP-Method-Override=" + method}} {
			g.refused(t, g.request(request[0], request[1], bearer(public), empty), http.StatusForbidden)
			g.passed(t, g.request(request[0], request[1], bearer(trusted), empty))
		}
	}
	g.passed(t, g.request("POST", "/named/1?method=PATCH", bearer(public), empty))
	for _, method := range []string{"GET", "HEAD"} {
		g.refused(t, g.request(method, "/named/export", bearer(public)), http.StatusForbidden)
		g.refused(t, g.request(method, "/named/unget"), http.StatusUnauthorized)
		g.refused(t, g.request(method, "/named/head", bearer(trusted)), http.StatusForbidden)
	}
	g.passed(t, g.request("GET", "/named/open"))
	g.passed(t, g.request("POST", "/named/unget", empty))
	g.passed(t, g.request("POST", "/named/head", bearer(public), empty))
	for _, query := range []string{"_method=DELETE", "_method=GET", "%5fmethod=delete", "X-HTTP-Method-Override=PUT"} {
		g.refused(t, g.request("GET", "/named/open?"+query), http.StatusUnauthorized)
		g.refused(t, g.request("POST", "/named/unget?"+query, empty), http.StatusUnauthorized)
	}
}
