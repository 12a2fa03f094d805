package upstream

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

const google = "https://accounts.google.com"

// entraHosts are the hosts of Microsoft Entra ID, worldwide and in the national clouds.
var entraHosts = []string{"login.microsoftonline.com", "login.microsoftonline.us", "login.partner.microsoftonline.cn"}

// checkTenant refuses the URLs of Entra that stand for several tenants. Their metadata has a template as issuer, so any tenant would be
// accepted.
func checkTenant(u *url.URL) error {
	tenant, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if !isEntra(u) || !slices.Contains([]string{"common", "organizations", "consumers"}, strings.ToLower(tenant)) && tenant != "" {
		return nil
	}
	return fmt.Errorf("%s stands for many tenants: write the URL of yours, https://%s/<tenant id>/v2.0", u, u.Host)
}

func isEntra(u *url.URL) bool { return slices.Contains(entraHosts, strings.ToLower(u.Hostname())) }

// emailVerified reports whether the provider vouches for the address. For most providers, email_verified says so.
func (s *Settings) emailVerified(c *claimSet) bool {
	issuer, err := url.Parse(s.Issuer)
	if err != nil || c.text("email") == "" {
		return false
	}
	switch {
	case isEntra(issuer):
		// Entra has no email_verified, and an administrator of the tenant can set email to any value. The optional claim xms_edov says
		// whether the owner of the domain is verified.
		edov := c.members["xms_edov"]
		return isTrue(edov) || edov == "1" || edov == strictjson.Number("1")
	case s.Issuer == google:
		// Google verifies an address once. The address is certainly still the person's if Google itself provides it: in a Workspace (hd),
		// or at gmail.com. An address of another domain may have a new owner.
		return isTrue(c.members["email_verified"]) && (c.text("hd") != "" || strings.HasSuffix(strings.ToLower(c.text("email")), "@gmail.com"))
	}
	return isTrue(c.members["email_verified"])
}

// accessType asks Google for a refresh token, for which it has a parameter of its own in place of offline_access.
func (s *Settings) accessType() string {
	if s.Issuer == google && s.KeepsRefreshToken {
		return "offline"
	}
	return ""
}

const (
	promptLogin         = "login"
	promptSelectAccount = "select_account"
)

// prompt returns the prompt to send to a provider. Several providers, such as node oidc-provider, refuse select_account, and not all list
// their prompts; login has the same effect. Google and Entra support select_account without listing it, and Google does not support login.
func (s *Settings) prompt(m *metadata, wanted string) string {
	issuer, err := url.Parse(s.Issuer)
	if wanted != promptSelectAccount || slices.Contains(m.Prompts, wanted) || s.Issuer == google || err == nil && isEntra(issuer) {
		return wanted
	}
	return promptLogin
}
