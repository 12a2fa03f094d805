package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// overridingHeaders are those from which some upstream takes another method or path than the one that was checked. Hardly a
// proxy takes them from its own clients, so that they say nothing even when they come from a trusted one. In canonical form.
var overridingHeaders = append(slices.Clip(methodHeaders),
	"X-Original-Url", "X-Original-Uri", "X-Original-Path", "X-Rewrite-Url", "X-Rewrite-Uri", "X-Override-Url",
	"X-Forwarded-Uri", "X-Forwarded-Url", "X-Forwarded-Path", "X-Script-Name", "Script-Name", "Path-Info",
)

// methodHeaders are those of them that choose a method.
var methodHeaders = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Method", "X-Forwarded-Method"}

var overridingNames = newHeaderNames(overridingHeaders...)

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
		if !slices.Contains(overridingHeaders, name) {
			return fmt.Errorf("trust_headers %s: use headers by which a client would choose method or path: %s", name, strings.Join(overridingHeaders, ", "))
		}
		p.trustedHeaders = append(p.trustedHeaders, name)
	}
	return nil
}
