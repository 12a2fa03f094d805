package caddymodule

import "net/http"

// serveRoutes tells the operator what protects what. It needs no store, and no issuer.
func serveRoutes(w http.ResponseWriter, _ *http.Request) {
	t := newestTarget()
	if t == nil {
		writeAdminError(w, http.StatusServiceUnavailable, errNoApp)
		return
	}
	writeAdmin(w, http.StatusOK, t.Routes())
}
