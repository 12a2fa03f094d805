package configuration

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/federation"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ProviderSettings are a provider, as it was read.
type ProviderSettings struct {
	Name, Kind string
	// Title is what people know the provider by.
	Title string
	// Domains are those of e-mail addresses whose people are expected at the provider.
	Domains []string
	// Default: people go there without being asked.
	Default bool
	Rules   federation.Rules

	URL                 string
	ClientID            string
	ClientSecret        oauth.Secret
	Scopes              []string
	GroupsClaim         string
	AllowPrivateNetwork bool
}

// IsGitHub reports whether the provider speaks the protocol of GitHub and not OpenID Connect.
func (p *ProviderSettings) IsGitHub() bool { return p.Kind == kindGitHub }

// read returns the provider, with what placeholders give.
func (c *Provider) read(lookup lookup) (p ProviderSettings, err error) {
	p = ProviderSettings{
		Name: c.Name, Kind: c.Kind, Title: c.Title, Domains: c.Domains, Default: c.Default,
		Scopes: c.Scopes, GroupsClaim: c.GroupsClaim, AllowPrivateNetwork: c.AllowPrivateNetwork,
		Rules: federation.Rules{AllowEmailDomains: c.AllowEmailDomains, AllowGroups: c.AllowGroups},
	}
	if p.Kind == "" {
		p.Kind = kindOpenID
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
	p.Rules.Link = federation.LinkNever
	if c.Link != "" {
		if p.Rules.Link, err = federation.ParseLinking(c.Link); err != nil {
			return p, err
		}
	}
	if c.Create != nil {
		p.Rules.Create = &federation.Creation{Organisation: c.Create.Organisation, Role: c.Create.role()}
	}
	switch p.Kind {
	case kindOpenID:
		err = c.readOpenID(&p, lookup)
	case kindGitHub:
		err = c.readGitHub(&p, lookup)
	default:
		err = fmt.Errorf("unknown kind %q: use %s or %s", c.Kind, kindOpenID, kindGitHub)
	}
	return p, err
}

// readOpenID reads what only a provider of OpenID Connect has.
func (c *Provider) readOpenID(p *ProviderSettings, lookup lookup) (err error) {
	if p.URL, err = lookup("issuer", c.URL); err == nil {
		err = checkTrustedURL("issuer", p.URL, c.AllowPrivateNetwork)
	}
	switch {
	case err != nil:
		return err
	case len(c.AllowGroups) > 0 && c.GroupsClaim == "":
		return errors.New("allow group needs to know people's groups: add `groups claim <claim>`")
	}
	return c.readClient(p, lookup)
}

// readGitHub reads where GitHub is.
func (c *Provider) readGitHub(p *ProviderSettings, lookup lookup) (err error) {
	if c.GroupsClaim != "" {
		return errors.New("github has no claims: a person's groups are the organisations and teams there")
	}
	if p.URL = gitHub; c.URL != "" {
		if p.URL, err = lookup("url", c.URL); err == nil {
			err = checkTrustedURL("url", p.URL, c.AllowPrivateNetwork)
		}
	}
	if err != nil {
		return err
	}
	return c.readClient(p, lookup)
}

// gitHub is where GitHub is, unless somebody has a server of their own.
const gitHub = "https://github.com"

// readClient reads what we are called at the provider.
func (c *Provider) readClient(p *ProviderSettings, lookup lookup) (err error) {
	if c.ClientID == "" {
		return errors.New("client is missing: say what we are called there, as in `client <id> <secret>`")
	}
	if p.ClientID, err = lookup("client", c.ClientID); err != nil {
		return err
	}
	secret, err := lookup("client secret", c.ClientSecret)
	p.ClientSecret = oauth.NewSecret(secret)
	return err
}

// publicHosts are where anybody in the world can have an account.
var publicHosts = []string{"accounts.google.com", "appleid.apple.com", "github.com", "gitlab.com", "www.facebook.com", "www.linkedin.com"}

// isPublic reports whether anybody in the world can have an account at the provider.
func (p *ProviderSettings) isPublic() bool {
	u, err := url.Parse(p.URL)
	return err == nil && slices.Contains(publicHosts, u.Hostname())
}

// warning says what is probably not meant; empty: nothing.
func (p *ProviderSettings) warning() string {
	switch {
	case p.Rules.Create == nil && p.Rules.Link == federation.LinkNever:
		return "lets nobody in who has not signed in there before: add `create`, or `link verified_email` for users who exist"
	case p.Rules.Create != nil && p.isPublic() && len(p.Rules.AllowEmailDomains)+len(p.Rules.AllowGroups) == 0:
		return "makes a user of whoever has an account there, which anybody can have: add `allow email_domain` or `allow group`"
	}
	return ""
}
