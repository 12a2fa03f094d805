package configuration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/federation"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// Provider is somebody else at whom people sign in.
type Provider struct {
	// Name is a part of the redirect URI at the provider, and keeps its people apart from others': whoever changes it makes everybody
	// a stranger. Letters, digits, - and _.
	Name string `json:"name"`
	// Kind is "openid" for one of OpenID Connect, "github", or "ldap" for a directory. Default: openid.
	Kind string `json:"kind,omitempty"`
	// URL is the issuer identifier of a provider of OpenID Connect: what iss must be in its ID tokens, byte for byte. For GitHub it is
	// that of a server of one's own. Default there: https://github.com. For a directory it is ldaps://host or ldap://host.
	URL string `json:"url,omitempty"`
	// ClientID is what we are called there.
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is our secret there. Give it as a placeholder, so that it is not in the configuration.
	ClientSecret string `json:"client_secret,omitempty"`
	// Scopes are what we ask for; openid always. Default: openid, profile and email.
	Scopes []string `json:"scopes,omitempty"`
	// AllowEmailDomains lets in only whoever has a verified address in one of these. Default: everybody.
	AllowEmailDomains []string `json:"allow_email_domains,omitempty"`
	// AllowGroups lets in only whoever is in one of these groups there. Default: everybody.
	AllowGroups []string `json:"allow_groups,omitempty"`
	// AllowUnverifiedEmail makes a user of an account whose address the provider has not verified, too. Such an address counts for
	// nothing else. Default: off.
	AllowUnverifiedEmail bool `json:"allow_unverified_email,omitempty"`
	// GroupsClaim is the claim that has a person's groups, or a path to it: `realm_access.roles`. They replace the user's groups at
	// each sign-in. Default: the provider says nothing of groups.
	GroupsClaim string `json:"groups_claim,omitempty"`
	// GitHubGroups is "organisations" when a person's groups are the organisations at GitHub, as "acme", or "teams" when they are
	// the teams there too, as "acme/ops". Default: GitHub says nothing of groups.
	GitHubGroups string `json:"github_groups,omitempty"`
	// GitHubOrganisations are those whose groups count, beside those that AllowGroups names. Anybody can make another.
	GitHubOrganisations []string `json:"github_organisations,omitempty"`
	// GroupPrefix stands before the name of each group that the provider gives, so that another provider cannot give the same group. AllowGroups
	// go by the names without it. Default: none.
	GroupPrefix string `json:"group_prefix,omitempty"`
	// LDAP is what a directory has of its own.
	LDAP *LDAP `json:"ldap,omitempty"`
	// Link is "verified_email" when an account belongs to the user who has its verified address, or "never". Default: never.
	Link string `json:"link,omitempty"`
	// Create makes a user of an account that belongs to nobody. Default: users must exist.
	Create *Creation `json:"create,omitempty"`
	// Title is what the sign-in page calls the provider. Default: its name.
	Title string `json:"title,omitempty"`
	// Domains are those whose people sign in here, when an application says by login_hint who is expected.
	Domains []string `json:"domains,omitempty"`
	// Formerly are URLs at which the provider was before, where it called the same people by the same identifiers. Accounts that were linked
	// there lead to the same users. Of a directory they are written as the error says that asks for them.
	Formerly []string `json:"formerly,omitempty"`
	// Default sends people to the provider at once, without a page that asks. Only one can be.
	Default bool `json:"default,omitempty"`
	// AllowPrivateNetwork lets the provider be at a loopback, private or link-local address, and on loopback without TLS.
	AllowPrivateNetwork bool `json:"allow_private_network,omitempty"`
}

// Creation is what users become whom a provider creates.
type Creation struct {
	// Organisation is the id of one that exists. Default: none.
	Organisation string `json:"organisation,omitempty"`
	// Role is one that is known. Default: that of other users.
	Role string `json:"role,omitempty"`
}

// check refuses an unknown role. Start looks for the organisation, which may be in the store.
func (c *Creation) check(roles store.RoleCatalogue) error {
	if c == nil || c.Role == "" {
		return nil
	}
	return roles.Check(store.Role(c.Role))
}

// The kinds of providers.
const (
	kindOpenID = "openid"
	kindGitHub = "github"
	kindLDAP   = "ldap"
)

// providerKind is what the providers of a kind have of their own.
type providerKind struct {
	kind string
	// usage is how the first line is written.
	usage string
	// needsURL reports whether the first line must say where the provider is.
	needsURL bool
	// own are the options that not all kinds have.
	own func(c *Provider) options
}

// providerKinds are the kinds by the word for them in a Caddyfile.
var providerKinds = map[string]providerKind{
	"provider": {kindOpenID, "provider <name> <issuer> [default] { … }", true, func(c *Provider) options {
		return options{"client": c.parseClient, "scopes": c.parseScopes, "groups": c.parseGroupsClaim}
	}},
	"github": {kindGitHub, "github <name> [<url>] [default] { … }", false, func(c *Provider) options {
		return options{"client": c.parseClient, "groups": c.parseGitHubGroups}
	}},
	"ldap": {kindLDAP, "ldap <name> <url> { … }", true, func(c *Provider) options { return orNew(&c.LDAP).options(c) }},
}

// parseProvider reads a provider of a kind. What can be said of it without starting the server is said here, with its line.
//
//	provider <name> <issuer> [default] | github <name> [<url>] [default] {
//		client  <id> <secret>
//		scopes  <scope>...                      # not of github
//		groups  claim <path>                    # of github: organisations | teams <organisation>...
//		group_prefix <text>
//		allow   email_domain <domain>... | group <group>... | unverified_email
//		link    verified_email | never
//		create  [organisation <id>] [role <role>]
//		title   <words>
//		domains <domain>...
//		formerly <url>...
//		default
//		allow_private_network
//	}
//	ldap <name> <url> { … }                     # see LDAP; and allow, link, create, title
func (s *SignIn) parseProvider(d *caddyfile.Dispenser, of providerKind, at *Sources) error {
	word := d.Val()
	c, words := Provider{Kind: of.kind}, d.RemainingArgs()
	c.Default = len(words) > 0 && words[len(words)-1] == "default"
	if c.Default {
		words = words[:len(words)-1]
	}
	if len(words) == 0 || len(words) > 2 || len(words) < 2 && of.needsURL {
		return d.Errf("write it as `%s`", of.usage)
	}
	c.Name = words[0]
	if len(words) == 2 {
		if c.URL = words[1]; c.URL == "" {
			return d.Errf("provider %s: the URL is empty; is a variable unset?", c.Name)
		}
	}
	if slices.ContainsFunc(s.Providers, func(other Provider) bool { return other.Name == c.Name }) {
		return d.Errf("provider %s is there twice", c.Name)
	}
	if err := setting.RefuseRequest(d, c.URL); err != nil {
		return err
	}
	at.note(d, "provider", c.Name)
	first := *d
	known := of.own(&c)
	maps.Copy(known, options{
		"allow": c.parseAllow, "create": c.parseCreate, "title": checkedText(&c.Title, nil), "group_prefix": checkedText(&c.GroupPrefix, nil), "default": flag(&c.Default),
		"link": checkedText(&c.Link, func(word string) error {
			_, err := federation.ParseLinking(word)
			return err
		}),
		"domains": checkedList(&c.Domains, checkDomain), "formerly": checkedList(&c.Formerly, checkFormerly),
		"allow_private_network": flag(&c.AllowPrivateNetwork),
	})
	if err := known.parse(d, word+" has no option %q"); err != nil {
		return err
	}
	if _, err := c.read(standIn); err != nil { // of the provider as a whole: the line is its first
		return first.Errf("provider %s: %v", c.Name, err)
	}
	s.Providers = append(s.Providers, c)
	return nil
}

// parseClient reads `client <id> <secret>`.
func (c *Provider) parseClient(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "client", c.ClientID != ""); err != nil {
		return err
	}
	return parseClientThere(d, "provider "+c.Name, &c.ClientID, &c.ClientSecret)
}

// parseScopes reads `scopes <scope>...`. Several lines add up.
func (c *Provider) parseScopes(d *caddyfile.Dispenser) error {
	return checkedList(&c.Scopes, func(name string) error { return oauth.CheckScopeNames(oauth.Scopes{name}) })(d)
}

// parseAllow reads `allow email_domain <domain>...`, `allow group <group>...` or `allow unverified_email`. Several lines add up.
func (c *Provider) parseAllow(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	switch d.Val() {
	case "email_domain":
		return checkedList(&c.AllowEmailDomains, checkDomain)(d)
	case "group":
		return checkedList(&c.AllowGroups, checkGroup)(d)
	case "unverified_email":
		return flag(&c.AllowUnverifiedEmail)(d)
	}
	return d.Errf("allow %q: write it as `allow email_domain example.com`, `allow group staff` or `allow unverified_email`", d.Val())
}

// parseGroupsClaim reads `groups claim <path>`.
func (c *Provider) parseGroupsClaim(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "groups", c.GroupsClaim != ""); err != nil {
		return err
	}
	var word string
	if !d.AllArgs(&word, &c.GroupsClaim) || word != "claim" || c.GroupsClaim == "" {
		return d.Errf("write it as `groups claim <claim>`")
	}
	return setting.RefusePlaceholders(d, []string{c.GroupsClaim})
}

// parseGitHubGroups reads `groups organisations <organisation>...` or `groups teams <organisation>...`.
func (c *Provider) parseGitHubGroups(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "groups", c.GitHubGroups != ""); err != nil {
		return err
	}
	if !d.NextArg() {
		return d.ArgErr()
	}
	if _, err := upstream.ParseGitHubGroups(d.Val()); err != nil {
		return d.Errf("%v", err)
	}
	c.GitHubGroups, c.GitHubOrganisations = d.Val(), d.RemainingArgs()
	return setting.RefusePlaceholders(d, c.GitHubOrganisations)
}

// parseCreate reads `create [organisation <id>] [role <role>]`.
func (c *Provider) parseCreate(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "create", c.Create != nil); err != nil {
		return err
	}
	c.Create = new(Creation)
	for d.NextArg() {
		what, value := d.Val(), map[string]*string{"organisation": &c.Create.Organisation, "role": &c.Create.Role}[d.Val()]
		if value == nil || *value != "" || !d.NextArg() || d.Val() == "" {
			return d.Errf("create … %s: write it as `create organisation <id> role <role>`", what)
		}
		*value = d.Val()
	}
	return nil
}

// checkDomain refuses what is no domain of e-mail addresses, and other spellings than the one that is compared.
func checkDomain(domain string) error {
	canonical, err := federation.CanonicalDomain(domain)
	if err == nil && canonical != domain {
		err = fmt.Errorf("domain %q: write it as %q", domain, canonical)
	}
	return err
}

// checkFormerly refuses placeholders: the URL is compared with what is stored.
func checkFormerly(url string) error {
	if strings.ContainsAny(url, "{}") {
		return fmt.Errorf("formerly %q: write the URL out", url)
	}
	return nil
}

// checkGroup refuses what no group of a user is called.
func checkGroup(name string) error { return store.ValidateGroups([]string{name}) }

// checkProviderName refuses names that would be something else in a path.
func checkProviderName(name string) error {
	isPlain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(c rune) bool { return !isPlain(c) }) {
		return fmt.Errorf("%.80q is no name for a provider: use up to 64 letters, digits, - and _", name)
	}
	return nil
}

// parseClientThere reads what we are called at somebody else's server, and our secret there. Owner is who that is.
func parseClientThere(d *caddyfile.Dispenser, owner string, id, secret *string) error {
	if !d.AllArgs(id, secret) {
		return d.ArgErr()
	}
	if *id == "" {
		return d.Errf("the client's id is empty; is a variable unset?")
	}
	if err := setting.RefuseRequest(d, *id); err != nil {
		return err
	}
	reference, err := setting.Reference(d, owner, "secret", *secret)
	if err == nil && !reference {
		warnSubstituted(d, "secret of "+owner, *secret, 2)
		caddy.Log().Named("oauth").Warn("the secret of "+owner+" stands in the configuration, which Caddy keeps in the clear "+
			"and shows at its admin endpoint: give it as {env.NAME} or {file./path}", zap.String("file", d.File()), zap.Int("line", d.Line()))
	}
	return err
}
