package grants_test

import (
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestA20RegistrationRefusesWhatMayNotWorkOrIsUnsafe: registration refuses what a configuration may contain with a warning.
func TestA20RegistrationRefusesWhatMayNotWorkOrIsUnsafe(t *testing.T) {
	f := newFlow(t)
	for name, c := range map[string]store.Client{
		"public without a URI":    {Type: store.PublicClient},
		"native without a URI":    {Type: store.NativeClient, Grants: []oauth.GrantType{oauth.RefreshTokenGrant, oauth.AuthorizationCode}},
		"plain http":              {RedirectURIs: []string{"https://client.example/cb", "http://client.example/cb"}},
		"plain http, upper":       {RedirectURIs: []string{"HTTP://client.example/cb"}},
		"plain http, private":     {RedirectURIs: []string{"http://10.0.0.1/cb"}},
		"plain http, localhost":   {RedirectURIs: []string{"http://localhost.client.example/cb"}},
		"plain http, unspecified": {RedirectURIs: []string{"http://0.0.0.0/cb"}},
	} {
		if _, _, err := f.registry.Clients.AddClient(t.Context(), c); !store.IsInvalidInput(err) {
			t.Errorf("%s: %v", name, err)
		}
		c.ID = "a"
		c.SetDefaults()
		c.Secrets = []store.ClientSecret{{Digest: oauth.NewSecret("x").Digest()}}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: a configuration is refused: %v", name, err)
		}
	}
	for _, c := range []store.Client{
		{Type: store.PublicClient, Grants: []oauth.GrantType{oauth.PasswordGrant}}, {Type: store.ConfidentialClient}, {Type: store.NativeClient, RedirectURIs: []string{"http://localhost/cb", "http://127.0.0.2:1/cb", "http://[::1]/cb", "com.example.app:/cb"}},
	} {
		c.SetDefaults()
		if err := c.CheckRedirects(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
