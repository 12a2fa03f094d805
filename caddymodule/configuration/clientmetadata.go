package configuration

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clientmetadata"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ClientMetadata admits clients that describe themselves in a document at the URL that is their id (OAuth Client ID Metadata
// Document). Without it such clients are admitted if a route has `mcp`.
type ClientMetadata struct {
	// Off admits no such clients, even if a route has `mcp`.
	Off bool `json:"off,omitempty"`
	// Allow are the hosts whose documents are read, as names or patterns: *.example.com. Default: every host.
	Allow []string `json:"allow,omitempty"`
	// Deny are hosts whose documents are not read, even if Allow matches them.
	Deny []string `json:"deny,omitempty"`
	// Scopes are the scopes that such clients can be granted in addition to public. Default: those of the routes with `mcp`.
	Scopes []string `json:"scopes,omitempty"`
	// AllowPrivateNetwork allows documents at loopback, private and link-local addresses, and at plain http on loopback. Default: those
	// of the internet.
	AllowPrivateNetwork bool `json:"allow_private_network,omitempty"`
}

// OpenClients are the settings for clients that describe or register themselves.
type OpenClients struct {
	// DocumentsOn and DocumentsOff admit and refuse clients with a document. If neither is set, they are admitted if a route has `mcp`.
	DocumentsOn, DocumentsOff bool
	// DocumentScopes are the scopes that they can be granted; none: those of the routes with `mcp`.
	DocumentScopes oauth.Scopes
	Documents      clientmetadata.Settings
	// Registration are the rules of registration; nil: it is off. RegistrationScopes are like DocumentScopes.
	Registration       *clients.RegistrationRules
	RegistrationScopes oauth.Scopes
}

// parseClientMetadata reads `client_metadata off`, or:
//
//	client_metadata {
//		allow  <host or *.domain>...
//		deny   <host or *.domain>...
//		scopes <scope>...
//		allow_private_network
//	}
func parseClientMetadata(d *caddyfile.Dispenser, metadata **ClientMetadata, at *Sources) error {
	if err := setting.Once(d, "client_metadata", *metadata != nil); err != nil {
		return err
	}
	at.note(d, "client_metadata")
	c := orNew(metadata)
	if d.NextArg() {
		if c.Off = d.Val() == "off"; !c.Off || d.NextArg() {
			return d.Err("write `client_metadata off`, or a block")
		}
		return nil
	}
	return options{
		"allow": checkedList(&c.Allow, checkHostPattern), "deny": checkedList(&c.Deny, checkHostPattern),
		"scopes": at.scopes(&c.Scopes, "client_metadata", "scope"), "allow_private_network": flag(&c.AllowPrivateNetwork),
	}.parse(d, "client_metadata has no option %q")
}

// checkHostPattern refuses a pattern that matches no host of a URL.
func checkHostPattern(pattern string) error {
	name := strings.TrimPrefix(pattern, "*.")
	if name == "" || name != strings.ToLower(name) || strings.Trim(name, ".") != name ||
		strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' }) {
		return fmt.Errorf("%q is no host: write its name in lower case, without scheme, port and path, or *.example.com for all below it", pattern)
	}
	return nil
}

func (c *ClientMetadata) read(s *Settings, at *Sources) error {
	if c == nil {
		s.Open.DocumentsOff = s.SignIn.Only
		return nil
	}
	for _, pattern := range append(append([]string(nil), c.Allow...), c.Deny...) {
		if err := checkHostPattern(pattern); err != nil {
			return at.At(fmt.Errorf("client_metadata: %w", err), "client_metadata")
		}
	}
	if err := at.checkScopes(s.Issuer.Scopes, c.Scopes, "client_metadata", "scope"); err != nil {
		return err
	}
	s.Open.DocumentsOn, s.Open.DocumentsOff, s.Open.DocumentScopes = !c.Off, c.Off, c.Scopes
	s.Open.Documents = clientmetadata.Settings{Allow: c.Allow, Deny: c.Deny, AllowPrivateNetwork: c.AllowPrivateNetwork}
	return nil
}
