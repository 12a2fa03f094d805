package configuration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// Provider is an identity provider or a directory at which people sign in.
type Provider struct {
	// Name is a part of the redirect URI and of the stored accounts: when it changes, all accounts of the provider become unknown.
	// Letters, digits, - and _.
	Name string `json:"name"`
	// Kind is "openid" for one of OpenID Connect, "github", or "ldap" for a directory. Default: openid.
	Kind string `json:"kind,omitempty"`
	// URL is the issuer identifier of an OpenID provider: the iss of its ID tokens must be the same bytes. For GitHub it is the URL of a
	// GitHub Enterprise server, default https://github.com. For a directory it is ldaps://host or ldap://host.
	URL string `json:"url,omitempty"`
	// ClientID is our client id at the provider.
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is our client secret at the provider. Give it as a placeholder to keep it out of the configuration.
	ClientSecret string `json:"client_secret,omitempty"`
	// Scopes are the requested scopes, in addition to openid. Default: openid, profile and email.
	Scopes []string `json:"scopes,omitempty"`
	// AllowEmailDomains admits only people with a verified address in one of these domains. Default: all people.
	AllowEmailDomains []string `json:"allow_email_domains,omitempty"`
	// AllowGroups admits only members of one of these groups of the provider. Default: all people.
	AllowGroups []string `json:"allow_groups,omitempty"`
	// AllowUnverifiedEmail also creates users for accounts whose address the provider has not verified. Such an address is never used for
	// linking. Default: off.
	AllowUnverifiedEmail bool `json:"allow_unverified_email,omitempty"`
	// GroupsClaim is the claim with a person's groups, or a path to it: `realm_access.roles`. They replace the user's groups at each
	// sign-in. Default: groups of the provider are ignored.
	GroupsClaim string `json:"groups_claim,omitempty"`
	// GitHubGroups is "organisations" if a person's groups are the organisations at GitHub, as "acme", or "teams" if they also are the
	// teams, as "acme/ops". Default: groups of GitHub are ignored.
	GitHubGroups string `json:"github_groups,omitempty"`
	// GitHubOrganisations are the organisations that count, in addition to those of AllowGroups. Others can be created by any user of
	// GitHub.
	GitHubOrganisations []string `json:"github_organisations,omitempty"`
	// GroupPrefix is added to the name of each group of the provider, so that another provider cannot assign the same group. AllowGroups are
	// names without it. Default: none.
	GroupPrefix string `json:"group_prefix,omitempty"`
	// LDAP are the settings of a directory.
	LDAP *LDAP `json:"ldap,omitempty"`
	// Link is "verified_email" if an account is linked to the user with the same verified address, or "never". Default: never.
	Link string `json:"link,omitempty"`
	// Create creates a user for an unknown account. Default: users must exist.
	Create *Creation `json:"create,omitempty"`
	// TrustFactors accepts the provider's word for second factors: `second_factor required` does not hold for people who sign in there, and a
	// sign-in whose amr has mfa is one of two factors (RFC 8176 §2). A directory cannot have it. Default: off.
	TrustFactors bool `json:"trust_factors,omitempty"`
	// Recheck is how often the provider is asked what has become of the people who are signed in from there. A directory is searched; an OpenID
	// provider must give a refresh token, so put offline_access among Scopes. GitHub cannot be asked. From 1m to 7d. Default: never.
	Recheck caddy.Duration `json:"recheck,omitempty"`
	// Title is the provider's name on the sign-in page. Default: its name.
	Title string `json:"title,omitempty"`
	// Domains are the e-mail domains for which a login_hint of an application leads to this provider.
	Domains []string `json:"domains,omitempty"`
	// Formerly are earlier URLs of the provider, where its accounts had the same identifiers. Accounts that were linked there lead to the
	// same users. The form for a directory is that of the error that asks for it.
	Formerly []string `json:"formerly,omitempty"`
	// Default sends people to the provider without showing the sign-in page. Only one provider can be the default.
	Default bool `json:"default,omitempty"`
	// AllowPrivateNetwork allows loopback, private and link-local addresses of the provider, and plain http on loopback.
	AllowPrivateNetwork bool `json:"allow_private_network,omitempty"`
}

// Creation are the organisation and role of users that a provider creates, or who register.
type Creation struct {
	// Organisation is the id of an existing organisation. Default: none.
	Organisation string `json:"organisation,omitempty"`
	// Role is one of the declared roles. Default: that of other users.
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

// providerKind is the grammar of one kind of providers.
type providerKind struct {
	kind string
	// usage is the form of the first line.
	usage string
	// needsURL reports whether the first line must have a URL.
	needsURL bool
	// own are the options of this kind alone.
	own func(c *Provider) options
}

// providerKinds are the kinds by the word for them in a Caddyfile.
var providerKinds = map[string]providerKind{
	"provider": {kindOpenID, "provider <name> <issuer> [default] { … }", true, func(c *Provider) options {
		return options{"client": c.parseClient, "scopes": c.parseScopes, "groups": c.parseGroupsClaim, "trust_factors": flag(&c.TrustFactors)}
	}},
	"github": {kindGitHub, "github <name> [<url>] [default] { … }", false, func(c *Provider) options {
		return options{"client": c.parseClient, "groups": c.parseGitHubGroups, "trust_factors": flag(&c.TrustFactors)}
	}},
	"ldap": {kindLDAP, "ldap <name> <url> { … }", true, func(c *Provider) options { return orNew(&c.LDAP).options(c) }},
}

// parseProvider reads a provider of a kind. It checks all that does not depend on placeholders, so that errors name the line.
//
//	provider <name> <issuer> [default] | github <name> [<url>] [default] {
//		client  <id> <secret>
//		scopes  <scope>...                      # not of github
//		groups  claim <path>                    # of github: organisations | teams <organisation>...
//		group_prefix <text>
//		allow   email_domain <domain>... | group <group>... | unverified_email
//		link    verified_email | never
//		create  [organisation <id>] [role <role>]
//		trust_factors                           # not of ldap
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
		"recheck": func(d *caddyfile.Dispenser) error { return parseOnce(d, &c.Recheck) },
		"link": checkedText(&c.Link, func(word string) error {
			_, err := signin.ParseLinking(word)
			return err
		}),
		"domains": checkedList(&c.Domains, checkDomain), "formerly": checkedList(&c.Formerly, checkFormerly),
		"allow_private_network": flag(&c.AllowPrivateNetwork),
	})
	if err := known.parse(d, word+" has no option %q"); err != nil {
		return err
	}
	if _, err := c.read(standIn); err != nil { // concerns the provider as a whole: the error names its first line
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

// checkDomain refuses invalid e-mail domains, and all spellings but the canonical one.
func checkDomain(domain string) error {
	canonical, err := signin.CanonicalDomain(domain)
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

// checkGroup refuses a name that is not valid for a user's group.
func checkGroup(name string) error { return store.ValidateGroups([]string{name}) }

// checkProviderName refuses names that are not one segment of a path.
func checkProviderName(name string) error {
	isPlain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(c rune) bool { return !isPlain(c) }) {
		return fmt.Errorf("%.80q is no name for a provider: use up to 64 letters, digits, - and _", name)
	}
	return nil
}

// parseClientThere reads our client id and secret at another server. Owner names that server in errors.
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
	return checkReference(d, owner, "secret", *secret, 2)
}
