package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
)

// parseTrustHeaders reads the overriding headers that pass when a trusted proxy sends them.
func (p *Protect) parseTrustHeaders(h httpcaddyfile.Helper) error {
	names := h.RemainingArgs()
	if len(names) == 0 {
		return h.ArgErr()
	}
	p.TrustHeaders = append(p.TrustHeaders, names...)
	if err := p.readTrustHeaders(); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

// readTrustHeaders refuses headers that pass without it, and those that are nobody's to send.
func (p *Protect) readTrustHeaders() error {
	p.trustedHeaders = nil
	for _, name := range p.TrustHeaders {
		name = http.CanonicalHeaderKey(name)
		if !slices.Contains(identity.Overriding, name) {
			return fmt.Errorf("trust_headers %s: use headers by which a client would choose method or path: %s", name, strings.Join(identity.Overriding, ", "))
		}
		p.trustedHeaders = append(p.trustedHeaders, name)
	}
	return nil
}
