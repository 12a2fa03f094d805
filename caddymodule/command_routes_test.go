package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
)

// routesSite is a gate for other issuers' tokens, without a store. Its upstream is not needed.
const routesSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		trust corp https://login.example {
			audience https://api.example
			introspection https://login.example/introspect {
				client gateway introspection-s3cret
			}
		}
	}
}

http://ADDR {
	oauth_server
	@key header X-Api-Key matcher-s3cret
	handle /orders/* {
		protect read {
			issuer corp
			require /orders/refunds/* any_scope refunds admin
			require @key claim department sales
			anonymous /orders/Public/*
			cors https://app.example
		}
		reverse_proxy orders:8080 orders:8081
	}
	handle @key {
		protect {
			issuer corp
			optional
		}
		reverse_proxy keyed:8080
	}
	handle /php/* {
		protect /php/admin/* {
			issuer corp
		}
		php_fastcgi unix//run/php.sock
	}
	handle {
		respond 404
	}
}
`

// TestG99CommandRoutes: the routes of a gate without an issuer or a store → a table of what protects each and where it is configured, and
// JSON, without a secret of the configuration or its matchers; the endpoint is read-only; no route, or no oauth app → the command says so.
func TestG99CommandRoutes(t *testing.T) {
	g := startGatehouse(t, routesSite)
	out := g.ok("routes")
	var rows []string
	for line := range strings.Lines(out) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"SITE PATH UPSTREAM VERDICT NEEDS WHERE",
		"http://ADDR /orders/* reverse_proxy orders:8080 orders:8081 protected a token of corp Caddyfile:21",
		"scope read",
		"any_scope refunds admin for path /orders/refunds/*",
		"claim department sales for header X-Api-Key",
		"nothing for path /orders/Public/*",
		"nothing for preflights from https://app.example",
		"http://ADDR *, header X-Api-Key reverse_proxy keyed:8080 conditional a token of corp, or none Caddyfile:31",
		"http://ADDR /php/* php_fastcgi unix//run/php.sock conditional a token of corp, only for path /php/admin/* Caddyfile:38",
	} {
		if !slices.Contains(rows, strings.ReplaceAll(want, "ADDR", g.addr)) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	routes := decoded[[]coverage.Route](t, g.ok("routes", "--json"))
	if len(routes) != 3 || routes[0].Gates[0].Resource != g.url+wellKnown+"/orders" || routes[0].Gates[0].Audience[0] != "https://api.example" {
		t.Errorf("%+v", routes)
	}
	status, header, body := g.adminRequest(http.MethodGet, "/oauth/routes")
	if status != http.StatusOK || header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" || strings.Contains(out+body, "s3cret") {
		t.Errorf("%d %q %s", status, header, body)
	}
	if status, _, body := g.adminRequest(http.MethodPost, "/oauth/routes"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", status, body)
	}
	g.reload(routesSite[:strings.Index(routesSite, "\thandle /orders")] + "\trespond 404\n}\n")
	if out, list := g.ok("routes"), g.ok("routes", "--json"); out != "no route to an upstream\n" || strings.TrimSpace(list) != "[]" {
		t.Errorf("without any: %q %q", out, list)
	}
	g.reload("{\nadmin ADMIN\nlog {\noutput file LOG\n}\n}\nhttp://ADDR {\nrespond 204\n}\n")
	if status, _, body := g.adminRequest(http.MethodGet, "/oauth/routes"); status != http.StatusServiceUnavailable || !strings.Contains(body, "no oauth app") {
		t.Errorf("without the app: %d %s", status, body)
	}
	if _, err := g.run("", "status"); err == nil || !strings.Contains(err.Error(), "no oauth app") || !strings.Contains(g.reasons(), "no oauth app") {
		t.Errorf("without the app: status %v, readiness %s", err, g.reasons())
	}
}

// adminRequest sends a request without a body to the admin endpoint.
func (g *gatehouse) adminRequest(method, path string) (int, http.Header, string) {
	g.t.Helper()
	admin := *g
	admin.url = "http://" + g.admin
	return admin.do(method, path, "", "Content-Type", "application/json")
}
