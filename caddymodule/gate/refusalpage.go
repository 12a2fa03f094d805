package gate

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// refusalPage returns the page by which a person learns of a refusal; nil: the answer is the one for programs.
func (p *Protect) refusalPage(r *http.Request, d *decision, status int) caddyhttp.HandlerFunc {
	switch {
	case !p.UsesHostSessions():
		return nil
	case p.interrupts(r, d, status):
		return func(w http.ResponseWriter, r *http.Request) error {
			p.shared.hosts.ServeInterrupted(w, r, status)
			return nil
		}
	case status != http.StatusForbidden || !d.verified || d.host.Authority == "" || !isNavigation(r):
		return nil
	}
	address, err := originalAddress(r)
	if err != nil {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		p.shared.hosts.ServeDenied(w, r, d.token, address.RequestURI())
		return nil
	}
}
