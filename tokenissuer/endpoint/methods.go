package endpoint

import (
	"net/http"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/webauthn"
)

// SignInMethods are the ways to sign in with a browser.
type SignInMethods struct {
	// WithoutPasswords disables sign-in with a password, whether it is stored here or in a directory.
	WithoutPasswords bool
	// Providers are those to choose from, in the page's order.
	Providers []*Provider
	// Directories maps the names of the directories whose passwords the page accepts to their titles.
	Directories map[string]string
	// Accounts finds the users of accounts at providers. It is required if there are providers.
	Accounts signin.Accounts
	// Passkeys asks for passkeys. It is nil where browsers offer none.
	Passkeys *webauthn.RelyingParty
}

// Provider is an identity provider to which browsers are sent.
type Provider struct {
	upstream.Provider
	// Name is the provider's name in the configuration. Title is the name shown.
	Name, Title string
	// Origin is the origin of the provider's URL.
	Origin string
	// Domains are the domains of e-mail addresses whose owners sign in at this provider.
	Domains []string
	// Default sends browsers to this provider without offering a choice.
	Default bool
	Rules   signin.Rules
}

// provider returns the provider of a name, or nil if there is none.
func (m *SignInMethods) provider(name string) *Provider {
	i := slices.IndexFunc(m.Providers, func(p *Provider) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return m.Providers[i]
}

// forHint returns the provider for the address in a login_hint, or else the default one. It returns nil if the user must choose.
func (m *SignInMethods) forHint(hint string) *Provider {
	var domain string
	if email, err := store.CanonicalEmail(hint); err == nil {
		domain = signin.DomainOf(email)
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

// isOnly reports whether that provider is the only way to sign in.
func (m *SignInMethods) isOnly(p *Provider) bool {
	return m.WithoutPasswords && len(m.Providers) == 1 && m.Providers[0] == p
}

// buttons returns the providers for the sign-in page.
func (m *SignInMethods) buttons() []pages.Provider {
	var list []pages.Provider
	for _, p := range m.Providers {
		list = append(list, pages.Provider{Name: p.Name, Title: p.Title})
	}
	return list
}

// origins returns the origins to which the buttons lead. An authorization endpoint may be at another origin with the same scheme.
func (m *SignInMethods) origins() []string {
	var list []string
	for _, p := range m.Providers {
		list = append(list, p.Origin)
	}
	return list
}

// Parameters of the sign-in page.
const (
	// switchAccount means that the user wants to use another account or another way to sign in.
	switchAccount = "switch"
	// failedAt is the failure at a provider, and atProvider the provider's name.
	failedAt   = "failed"
	atProvider = "provider"
)

// pageParameter returns a parameter of the sign-in page. It returns "" for an authorization request, whose parameters differ.
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

// providerFor returns the provider to which a browser is redirected at once, or nil if the page offers a choice. The page is shown to a
// user who is signed in, wants to choose, or came back from a provider without signing in, so that the browser does not loop.
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

// asksOfProvider returns the prompt and the maximum age of a sign-in at a provider. choose requests a choice of the account.
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
