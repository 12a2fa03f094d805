package endpoint

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// SignInMethods are the ways in which people sign in with a browser.
type SignInMethods struct {
	// WithoutPasswords turns off sign-in with a password, whether it is kept here or in a directory.
	WithoutPasswords bool
	// Providers are those to choose from, in the order in which the page has them.
	Providers []*Provider
	// Directories are what people call the directories whose passwords the page takes, by their names.
	Directories map[string]string
	// Accounts knows which user an account at a provider belongs to. It is needed where there are providers.
	Accounts signin.Accounts
}

// Provider is an identity provider to which browsers are sent.
type Provider struct {
	upstream.Provider
	// Name is its name in the configuration, Title what people call it.
	Name, Title string
	// Origin is that of its URL.
	Origin string
	// Domains are those of the addresses whose people sign in there.
	Domains []string
	// Default: browsers are sent there without a page that asks.
	Default bool
	Rules   signin.Rules
}

// provider returns the provider of a name; nil: there is none.
func (m *SignInMethods) provider(name string) *Provider {
	i := slices.IndexFunc(m.Providers, func(p *Provider) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return m.Providers[i]
}

// forHint returns the provider whose people have the address of a login_hint, else the default one; nil: people choose.
func (m *SignInMethods) forHint(hint string) *Provider {
	var domain string
	if email, err := store.CanonicalEmail(hint); err == nil {
		_, domain, _ = strings.Cut(email, "@")
	}
	var found *Provider
	for _, p := range m.Providers {
		switch {
		case domain != "" && slices.Contains(p.Domains, domain):
			return p
		case p.Default:
			found = p
		}
	}
	return found
}

// isOnly reports whether people sign in at that provider and in no other way.
func (m *SignInMethods) isOnly(p *Provider) bool {
	return m.WithoutPasswords && len(m.Providers) == 1 && m.Providers[0] == p
}

// buttons returns the providers for the page.
func (m *SignInMethods) buttons() []pages.Provider {
	var list []pages.Provider
	for _, p := range m.Providers {
		list = append(list, pages.Provider{Name: p.Name, Title: p.Title})
	}
	return list
}

// origins returns the origins to which the buttons lead. An authorization endpoint may be at another one of the same scheme.
func (m *SignInMethods) origins() []string {
	var list []string
	for _, p := range m.Providers {
		list = append(list, p.Origin)
	}
	return list
}

// Parameters of the sign-in page.
const (
	// switchAccount means that the user wants to sign in with another account, or in another way.
	switchAccount = "switch"
	// failedAt and atProvider name what went wrong at which provider.
	failedAt   = "failed"
	atProvider = "provider"
)

// pageParameter returns a parameter of the sign-in page; "" in an authorization request, which has others.
func (s *site) pageParameter(r *http.Request, name string) string {
	if r.URL.EscapedPath() != s.prefix+loginPath || r.Method == http.MethodPost {
		return ""
	}
	p, err := readParameters(r.URL.RawQuery)
	if err != nil {
		return ""
	}
	return p.get(name)
}

// providerFor returns the provider to which a browser is sent at once; nil: the page asks. It asks a user who is signed in, wants to
// choose, or has come back from a provider without signing in, so that the browser is not sent in circles.
func (h *signInPages) providerFor(r *http.Request, k walk) *Provider {
	if k.visit.session != nil || !requests.IsVisit(r) || h.browser.pageParameter(r, switchAccount) != "" || h.browser.pageParameter(r, failedAt) != "" {
		return nil
	}
	if k.request == nil {
		return h.methods.forHint("")
	}
	if p := h.methods.provider(k.request.Provider); p != nil {
		return p
	}
	return h.methods.forHint(k.request.LoginHint)
}

// asksOfProvider returns the prompt and the greatest age of a sign-in for a provider. Choose: it is to ask with which account.
func (k walk) asksOfProvider(choose bool) (asked upstream.Request) {
	switch {
	case k.request != nil:
		asked.Prompt, asked.MaxAge = k.request.AsksOfProvider()
		asked.LoginHint = k.request.LoginHint
	case k.fresh:
		asked.Prompt = "login"
	}
	if choose {
		asked.LoginHint = ""
		if asked.Prompt == "" {
			asked.Prompt = "select_account"
		}
	}
	return asked
}
