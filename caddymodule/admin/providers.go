package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// testTimeout bounds all steps of a test together. Each request to the provider has a shorter timeout.
const testTimeout = 30 * time.Second

// providerOperations are about the identity providers at which people sign in. They need no store.
var providerOperations = map[Route]operation{
	ListProviders: shows[[]Provider]("Lists the identity providers", bare(listProviders)),
	TestProvider:  shows[[]signin.Step]("Tests an identity provider step by step", withBody(testProvider)),
}

// Provider is an identity provider at which people sign in, as an operator sees it.
type Provider struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"` // openid or github
	Title string `json:"title"`
	URL   string `json:"url"`
	// RedirectURIs have to be registered at the provider; none: it is a directory.
	RedirectURIs []string `json:"redirect_uris,omitempty"`
	Default      bool     `json:"default"`
	// Trouble is the last error while the provider fails; empty: none is known.
	Trouble string `json:"trouble,omitempty"`
	// DownSince is when it began to fail. LastSuccess and LastFailure are those of this process.
	DownSince   time.Time `json:"down_since,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
}

// IdentityProvider is a provider of a Target.
type IdentityProvider struct {
	Name, Kind, Title, URL string
	RedirectURIs           []string
	Default                bool
	// State returns the results of the last requests to the provider.
	State func() signin.State
	// Test tests the provider now. With a login it also searches a directory for that person.
	Test func(ctx context.Context, login string) []signin.Step
}

// trouble returns the last error while the provider fails; empty: none is known.
func (p *IdentityProvider) trouble() string {
	if s := p.State(); !s.DownSince.IsZero() {
		return s.LastError
	}
	return ""
}

func viewOfProvider(p IdentityProvider) Provider {
	state := p.State()
	return Provider{
		Name: p.Name, Kind: p.Kind, Title: p.Title, URL: p.URL, RedirectURIs: p.RedirectURIs, Default: p.Default, Trouble: p.trouble(),
		DownSince: state.DownSince, LastSuccess: state.LastSuccess, LastFailure: state.LastFailure,
	}
}

func listProviders(t *Target, _ *http.Request) (int, any, error) {
	return listed(t.Providers, nil, viewOfProvider)
}

// ProviderTest is the request to test a provider.
type ProviderTest struct {
	// Login is a person to search for in a directory; empty: none.
	Login string `json:"login,omitzero"`
}

// testProvider tests a provider step by step. It changes nothing.
func testProvider(t *Target, r *http.Request, request ProviderTest) (int, any, error) {
	name := r.PathValue("name")
	i := slices.IndexFunc(t.Providers, func(p IdentityProvider) bool { return p.Name == name })
	if i < 0 {
		return 0, nil, store.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(r.Context(), testTimeout)
	defer cancel()
	steps := t.Providers[i].Test(ctx, request.Login)
	t.record(r.Context(), "provider tested", zap.String("provider", name))
	return http.StatusOK, steps, nil
}
