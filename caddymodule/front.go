package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// unhandledVar is true where a request has come to the end of all routes, which answer nothing.
const unhandledVar = "unhandled"

// serveFront answers at the issuer's own address with a page that says what one can do here, unless a route of the site answers.
func (s *Server) serveFront(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if err := next.ServeHTTP(w, r); err != nil {
		return err
	}
	if unhandled, _ := caddyhttp.GetVar(r.Context(), unhandledVar).(bool); unhandled {
		s.service.handler.ServeFront(w, r)
	}
	return nil
}
