package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

// isReady reports to a balancer whether this node can serve. It returns false from the beginning of Caddy's shutdown_delay, while requests
// are still served.
func (s *service) isReady(r *http.Request) bool {
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		if leaving, _ := replacer.Get("http.shutting_down"); leaving == true {
			return false
		}
	}
	return len(s.unreadiness()) == 0
}

// unreadiness lists the reasons why this node cannot serve, for operators. It returns none if it can.
func (s *service) unreadiness() []string {
	var reasons []string
	if caddy.Exiting() || s.node != nil && s.node.Life.IsClosing() {
		reasons = append(reasons, "shutting down")
	}
	if !s.settings.KeepsState() { // an unreachable issuer concerns only the routes that take its tokens
		return reasons
	}
	if !s.life.hasStarted() {
		reasons = append(reasons, "the issuer has not started yet")
	}
	return append(reasons, s.node.Unreadiness()...)
}
