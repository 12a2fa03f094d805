package coverage

import (
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
)

// TestG83WhatGoesOn: behind routes that have error routes of their own, which only JSON can have, come requests that failed
// before they reached a gate inside; and Caddy goes on behind early hints.
func TestG83WhatGoesOn(t *testing.T) {
	route := func(handlers ...caddyhttp.MiddlewareHandler) caddyhttp.Route {
		return caddyhttp.Route{Handlers: handlers}
	}
	gated := func(errors *caddyhttp.HTTPErrorConfig) caddyhttp.Route {
		return route(&caddyhttp.Subroute{Routes: caddyhttp.RouteList{route(new(gate.Protect))}, Errors: errors})
	}
	answer := func(status caddyhttp.WeakString) caddyhttp.Route {
		return route(&caddyhttp.StaticResponse{StatusCode: status})
	}
	for name, test := range map[string]struct {
		before caddyhttp.Route
		want   string
	}{
		"no error routes":         {gated(nil), Protected},
		"error routes go on":      {gated(new(caddyhttp.HTTPErrorConfig)), Open},
		"error routes all answer": {gated(&caddyhttp.HTTPErrorConfig{Routes: caddyhttp.RouteList{answer("502")}}), Protected},
		"an answer":               {answer(""), Unreached},
		"early hints":             {answer("103"), Open},
		"perhaps early hints":     {answer("{http.vars.status}"), Open},
	} {
		sites := walkServer(new(caddyhttp.App), &caddyhttp.Server{Routes: caddyhttp.RouteList{test.before, route(new(reverseproxy.Handler))}})
		b := &sites[len(sites)-1].backends[0]
		if got, _ := b.verdict(b.passages()); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
