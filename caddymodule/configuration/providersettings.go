package configuration

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// ProviderSettings are the values of a Provider.
type ProviderSettings struct {
	Name string
	// Title is the provider's name on the sign-in page.
	Title string
	// Domains are the e-mail domains of people who sign in at the provider.
	Domains []string
	// Default sends people to the provider without showing the sign-in page.
	Default bool
	Rules   signin.Rules
	// Recheck is how often the provider is asked what has become of its people; zero: never.
	Recheck time.Duration
	// Exactly one of these is set.
	OpenID *upstream.Settings
	GitHub *upstream.GitHubSettings
	LDAP   *ldap.Settings
}

// The bounds of Recheck.
const (
	minRecheck = time.Minute
	maxRecheck = 7 * store.Day
)

// Kind returns the kind of the provider, as in JSON.
func (p *ProviderSettings) Kind() string {
	switch {
	case p.GitHub != nil:
		return kindGitHub
	case p.LDAP != nil:
		return kindLDAP
	}
	return kindOpenID
}

// URL returns the URL of the provider.
func (p *ProviderSettings) URL() string {
	switch {
	case p.LDAP != nil:
		return p.LDAP.URL
	case p.GitHub == nil:
		return p.OpenID.Issuer
	case p.GitHub.URL == "":
		return "https://github.com"
	}
	return strings.TrimSuffix(p.GitHub.URL, "/")
}

// source identifies the provider's server. It is stored with each account.
func (p *ProviderSettings) source() string {
	where := p.URL()
	if p.LDAP != nil {
		where = p.LDAP.Place()
	}
	return p.Kind() + " " + where
}

// read returns the provider, with placeholders resolved.
func (c *Provider) read(lookup lookup) (p ProviderSettings, err error) {
	p = ProviderSettings{
		Name: c.Name, Title: c.Title, Domains: c.Domains, Default: c.Default, Recheck: time.Duration(c.Recheck),
		Rules: signin.Rules{AllowEmailDomains: c.AllowEmailDomains, AllowGroups: c.AllowGroups, GroupPrefix: c.GroupPrefix, AllowUnverifiedEmail: c.AllowUnverifiedEmail, Link: signin.LinkNever},
	}
	if p.Title == "" {
		p.Title = c.Name
	}
	if err := checkProviderName(c.Name); err != nil {
		return p, err
	}
	for _, domain := range slices.Concat(c.Domains, c.AllowEmailDomains) {
		if err := checkDomain(domain); err != nil {
			return p, err
		}
	}
	for _, group := range c.AllowGroups {
		if err := checkGroup(group); err != nil {
			return p, err
		}
	}
	if c.GroupPrefix != "" {
		if err := checkGroup(c.GroupPrefix + "x"); err != nil {
			return p, fmt.Errorf("group_prefix: %w", err)
		}
	}
	if c.Link != "" {
		if p.Rules.Link, err = signin.ParseLinking(c.Link); err != nil {
			return p, err
		}
	}
	if c.Create != nil {
		p.Rules.Create = &signin.Creation{Organisation: c.Create.Organisation, Role: store.Role(c.Create.Role)}
	}
	switch {
	case c.Recheck != 0 && c.Kind == kindGitHub:
		return p, errors.New("recheck: GitHub gives no refresh token to ask with: leave the line out")
	case c.Recheck != 0 && (p.Recheck < minRecheck || p.Recheck > maxRecheck):
		return p, fmt.Errorf("recheck %s: use 1m to 7d", p.Recheck)
	}
	switch c.Kind {
	case kindOpenID, "":
		if p.OpenID, err = c.readOpenID(lookup); err == nil {
			p.OpenID.KeepsRefreshToken = c.Recheck != 0
		}
	case kindGitHub:
		p.GitHub, err = c.readGitHub(lookup)
	case kindLDAP:
		p.LDAP, err = c.readLDAP(lookup)
	default:
		err = fmt.Errorf("unknown kind %q: use %s, %s or %s", c.Kind, kindOpenID, kindGitHub, kindLDAP)
	}
	if err != nil {
		return p, err
	}
	p.Rules.Source = p.source()
	for _, url := range c.Formerly {
		p.Rules.Formerly = append(p.Rules.Formerly, p.Kind()+" "+url)
	}
	return p, nil
}

// readOpenID reads an OpenID provider.
func (c *Provider) readOpenID(lookup lookup) (*upstream.Settings, error) {
	issuer, err := lookup("issuer", c.URL)
	if err == nil {
		err = checkTrustedURL("issuer", issuer, c.AllowPrivateNetwork)
	}
	if err != nil {
		return nil, err
	}
	if len(c.AllowGroups) > 0 && c.GroupsClaim == "" {
		return nil, errors.New("allow group needs to know people's groups: add `groups claim <claim>`")
	}
	client, err := c.readClient(lookup)
	return &upstream.Settings{
		Name: c.Name, Issuer: issuer, Client: client, Scopes: c.Scopes, GroupsClaim: c.GroupsClaim, AllowPrivateNetwork: c.AllowPrivateNetwork,
	}, err
}

// readGitHub reads GitHub, or a GitHub Enterprise server.
func (c *Provider) readGitHub(lookup lookup) (g *upstream.GitHubSettings, err error) {
	g = &upstream.GitHubSettings{Name: c.Name, AllowPrivateNetwork: c.AllowPrivateNetwork}
	if c.URL != "" {
		if g.URL, err = lookup("url", c.URL); err == nil {
			err = checkTrustedURL("url", g.URL, c.AllowPrivateNetwork)
		}
	}
	if err == nil && c.GitHubGroups != "" {
		g.Groups, err = upstream.ParseGitHubGroups(c.GitHubGroups)
	}
	g.Organisations = c.organisations()
	switch {
	case err != nil:
		return nil, err
	case c.GroupsClaim != "" || len(c.Scopes) > 0:
		return nil, errors.New("github has neither claims nor scopes to choose from: write `groups organisations` or `groups teams`")
	case len(c.AllowGroups) > 0 && c.GitHubGroups == "":
		return nil, errors.New("allow group needs to know people's groups: add `groups organisations` or `groups teams`")
	case c.GitHubGroups != "" && len(g.Organisations) == 0:
		return nil, fmt.Errorf("anybody can make an organisation at GitHub and call it as your groups are called: name those that count, as in `groups %s acme`", c.GitHubGroups)
	}
	g.Client, err = c.readClient(lookup)
	return g, err
}

// organisations returns the GitHub organisations that count: GitHubOrganisations, and those of AllowGroups.
func (c *Provider) organisations() []string {
	list := slices.Clone(c.GitHubOrganisations)
	for _, group := range c.AllowGroups {
		organisation, _, _ := strings.Cut(group, "/")
		list = append(list, organisation)
	}
	return list
}

// readClient reads our client id and secret at the provider.
func (c *Provider) readClient(lookup lookup) (client upstream.Client, err error) {
	if c.ClientID == "" {
		return client, errors.New("client is missing: say what we are called there, as in `client <id> <secret>`")
	}
	if client.ID, err = lookup("client", c.ClientID); err != nil {
		return client, err
	}
	secret, err := lookup("client secret", c.ClientSecret)
	client.Secret = oauth.NewSecret(secret)
	return client, err
}

// publicHosts are providers at which anyone can have an account.
var publicHosts = []string{"accounts.google.com", "appleid.apple.com", "gitlab.com", "www.facebook.com", "www.linkedin.com"}

// isPublic reports whether anyone can have an account at the provider.
func (p *ProviderSettings) isPublic() bool {
	switch {
	case p.LDAP != nil:
		return false
	case p.GitHub != nil:
		return p.GitHub.URL == ""
	}
	u, err := url.Parse(p.OpenID.Issuer)
	return err == nil && slices.Contains(publicHosts, u.Hostname())
}

// warning describes what is probably a mistake; empty: nothing.
func (p *ProviderSettings) warning() string {
	switch {
	case p.LDAP != nil && p.LDAP.Insecure:
		return "sends passwords in the clear: use ldaps:// or start_tls"
	case p.Rules.Create == nil && p.Rules.Link == signin.LinkNever:
		return "lets nobody in who has not signed in there before: add `create`, or `link verified_email` for users who exist"
	case p.Rules.Create != nil && p.isPublic() && len(p.Rules.AllowEmailDomains)+len(p.Rules.AllowGroups) == 0:
		return "makes a user of whoever has an account there, which anybody can have: add `allow email_domain` or `allow group`"
	}
	return ""
}
