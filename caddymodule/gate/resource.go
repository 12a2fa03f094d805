package gate

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// parseResource reads the resource identifier.
func (p *Protect) parseResource(h httpcaddyfile.Helper) error {
	if err := setting.TextOrPlaceholder(h.Dispenser, &p.Resource); err != nil {
		return err
	}
	if setting.IsPlaceholder(p.Resource) {
		return nil
	}
	if err := CheckResource(p.Resource); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

// readResource resolves and checks the resource identifier.
func (p *Protect) readResource() (err error) {
	if p.Resource == "" {
		return nil
	}
	if p.resource, err = setting.Resolve("resource", p.Resource); err != nil {
		return err
	}
	return CheckResource(p.resource)
}

// CheckResource validates a resource identifier (RFC 9728 §1.2): an https URL without a fragment. A query is refused too:
// it would only be another spelling.
func CheckResource(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.User != nil, strings.ContainsAny(text, "?#"), u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/":
		return fmt.Errorf("resource %q is no URL of a resource: write it as https://api.example.com/orders", text)
	case u.Scheme == "https", u.Scheme == "http" && oauth.IsLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("resource %q must be https, or on a loopback host", text)
}

// challenge returns the challenge for requests that this route refuses.
func (p *Protect) challenge() *endpoint.PreparedChallenge {
	if found := p.withMetadata.Load(); found != nil {
		return found
	}
	return p.refusal
}
