package caddymodule

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
)

var errNotStarted = errors.New("the routes are not known yet")

// isMetadata reports whether a request is for metadata of resources, except those of the issuer itself. All paths below the well-known
// path are ours, so that nothing else can be taken for metadata.
func (s *Server) isMetadata(r *http.Request) bool {
	if !endpoint.IsResourceMetadata(r) {
		return false
	}
	return s.documents.Load().Has(r) || !s.service.issues() || !s.service.handler.Owns(r)
}

// Publish replaces the metadata that the server answers with.
func (s *Server) Publish(resources []endpoint.ResourceMetadata) {
	s.documents.Store(s.service.metadata(resources))
}

// Where returns the position of the directive in a Caddyfile, as file:line; empty: there is none.
func (s *Server) Where() string { return s.Source }

func (s *Server) serveMetadata(w http.ResponseWriter, r *http.Request) error {
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	documents := s.documents.Load()
	if documents == nil { // apps start in no order
		return caddyhttp.Error(http.StatusServiceUnavailable, errNotStarted)
	}
	documents.ServeHTTP(w, r)
	return nil
}
