package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

// isReady reports, for a balancer, whether this node can serve. It returns false as soon as Caddy is told to stop, while
// requests are still served: see Caddy's shutdown_delay.
func (a *App) isReady(r *http.Request) bool {
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		if leaving, _ := replacer.Get("http.shutting_down"); leaving == true {
			return false
		}
	}
	return len(a.unreadiness()) == 0
}

// unreadiness lists, for the operator, why this node cannot serve. It returns nothing when it can.
func (a *App) unreadiness() []string {
	var reasons []string
	if caddy.Exiting() || a.node != nil && a.node.IsClosing() {
		reasons = append(reasons, "shutting down")
	}
	if !a.keepsState() { // one issuer that is away concerns the routes that take its tokens, and no others
		return reasons
	}
	if !a.life.hasStarted() {
		reasons = append(reasons, "the issuer has not started yet")
	}
	return append(reasons, a.node.Unreadiness()...)
}
