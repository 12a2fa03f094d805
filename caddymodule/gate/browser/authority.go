package browser

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// authority is where browsers sign in and out: our issuer or, without one, the identity providers themselves.
type authority struct {
	issuer    *clients.Policy
	direct    bool // there is no issuer
	providers []Provider
}

// provider returns the provider of that name; empty: the default one, or the only one. Nil: there is none.
func (a *authority) provider(name string) *Provider {
	if name == "" && len(a.providers) == 1 {
		return &a.providers[0]
	}
	i := slices.IndexFunc(a.providers, func(p Provider) bool { return p.Name == name || name == "" && p.Default })
	if i < 0 {
		return nil
	}
	return &a.providers[i]
}

// providerOf returns the provider whose callback a path is; nil: it is not one of ours.
func (a *authority) providerOf(path string) *Provider {
	if name, below := strings.CutPrefix(path, callbackPath+"/"); below && a.direct && name != "" {
		return a.provider(name)
	}
	return nil
}

// realm names the authority in a challenge.
func (a *authority) realm() string {
	if a.direct {
		return a.providers[0].Name
	}
	return a.issuer.URL
}

// maxState returns the maximum length of a state in bytes. It travels in URLs, which with the other headers of a browser have to
// fit into the 16 KiB that Caddy reads. Other servers take URLs of 8 KiB: the issuer puts the state into the one that it sends to
// a provider.
func (a *authority) maxState() int {
	switch {
	case len(a.providers) == 0:
		return maxLink
	case a.direct:
		return 7 << 10
	}
	return 5632 // which the issuer and the provider bring to 7 KiB
}

// signOutURL returns where to send a browser whose session has ended: to sign out of the provider where its user signed in, if
// the provider offers that, and else to the host's page. A provider knows only the callback of our issuer, so the way leads
// through the issuer if there is one.
func (a *authority) signOutURL(host oauth.Host, ended *signin.Session) string {
	done := host.Origin() + signOutPath
	if ended == nil || ended.Family.SignIn.Provider == "" {
		return done
	}
	p := a.provider(ended.Family.SignIn.Provider)
	switch {
	case p == nil: // a directory, or no longer declared
		return done
	case !a.direct:
		return a.issuer.URL + "/oauth/logout?" + url.Values{"host": {host.Origin()}}.Encode()
	}
	return cmp.Or(p.SignOutURL(upstream.SignOut{RedirectURI: callbackAt(host, p.Name), Hint: ended.User.Email}), done)
}

// formTargets returns the origins to which the form of the sign-out page may lead, also when it comes back to a page that needs a
// sign-in.
func (a *authority) formTargets() (origins []string) {
	for _, p := range a.providers {
		origins = append(origins, p.Origin)
	}
	if issuer, err := url.Parse(a.issuer.URL); err == nil && !a.direct {
		origins = append(origins, oauth.OriginOf(issuer))
	}
	return origins
}

// signInAgainURL returns where a person who has signed out signs in again. A provider that still knows them asks which account.
func (a *authority) signInAgainURL() string {
	if len(a.providers) == 0 {
		return signInPath
	}
	return signInPath + "?prompt=select_account"
}
