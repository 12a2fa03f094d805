package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// unhandledVar is true for a request that no route has answered.
const unhandledVar = "unhandled"

// serveFront answers at the issuer's URL with a page of links, unless a route of the site answers.
func (s *Server) serveFront(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if err := next.ServeHTTP(w, r); err != nil {
		return err
	}
	if unhandled, _ := caddyhttp.GetVar(r.Context(), unhandledVar).(bool); unhandled {
		s.service.handler.ServeFront(w, r)
	}
	return nil
}
