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

// TestA20A27RegistrationRefusesWhatNoAnswerShouldGoTo: registration of a redirect URI with `*`, plain http off loopback, `javascript:` or
// `code` in its query → refused with the reason.
func TestA20A27RegistrationRefusesWhatNoAnswerShouldGoTo(t *testing.T) {
	f := newFlow(t)
	register := func(uri string) error {
		_, _, err := f.registry.Clients.AddClient(t.Context(), store.Client{Type: store.PublicClient, RedirectURIs: []string{uri}})
		return err
	}
	for _, uri := range []string{
		"https://c.example/cb?code=1", "https://c.example/cb?state=fixed", "https://c.example/cb?x=1&error=e", "https://c.example/cb?iss=x",
		"https://c.example/cb?response=x", "https://c.example/cb?%63ode=1", "https://c.example/cb?;&code=1", "https://c.example/cb?x=1;code=2",
		"javascript:alert(1)", "JAVASCRIPT:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://c.example/1", "about:blank",
		"urn:ietf:wg:oauth:2.0:oob", "https://c.example/cb#f", "https://c.example/cb#", "https://u@c.example/cb", "/cb", "//c.example/cb", "cb", "https:///cb",
		"https://c.example/ cb", "https://c.example/\tcb", "https://c.example\\cb", "", "https://", "http:cb",
		"https://*.c.example/cb", "https://c.example/*", "http://c.example/cb", "http://10.0.0.7:8080/cb", "view-source:https://c.example/cb", "mailto:a@c.example",
	} {
		if err := register(uri); !store.IsInvalidInput(err) {
			t.Errorf("%q: %v", uri, err)
		}
	}
	for _, uri := range []string{"https://c.example/cb", "https://c.example/cb?codes=1", "http://127.0.0.1/cb", "http://localhost:3000/cb", "com.example.app:/cb"} {
		if err := register(uri); err != nil {
			t.Errorf("%q: %v", uri, err)
		}
	}
}
