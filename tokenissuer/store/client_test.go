package store

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func TestClientsThatCannotBeRegistered(t *testing.T) {
	good := func() *Client {
		return &Client{ID: "a", Type: ConfidentialClient, Secrets: []ClientSecret{{Digest: oauth.NewSecret("x").Digest()}}, Grants: []oauth.GrantType{oauth.ClientCredentials}, RedirectURIs: []string{"https://client.example/cb?x=1"}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Client){
		"no id": func(c *Client) { c.ID = "" }, "NUL in the id": func(c *Client) { c.ID = "a\x00" }, "newline in the id": func(c *Client) { c.ID = "a\n" }, "id not UTF-8": func(c *Client) { c.ID = "\xff" },
		"long id": func(c *Client) { c.ID = strings.Repeat("a", 256) }, "control in the name": func(c *Client) { c.Name = "a\x1b" }, "confidential without secret": func(c *Client) { c.Secrets = nil },
		"type": func(c *Client) { c.Type = "x" }, "no type": func(c *Client) { c.Type = "" },
		"no grants": func(c *Client) { c.Grants = nil }, "implicit": func(c *Client) { c.Grants = []oauth.GrantType{"implicit"} }, "lifetime": func(c *Client) { c.Lifetimes.Password = MaxLifetime + 1 },
		"negative lifetime": func(c *Client) { c.Lifetimes.ClientCredentials = -time.Hour },
	} {
		c := good()
		edit(c)
		if c.Validate() == nil {
			t.Errorf("%s: registered", name)
		}
	}
	for _, uri := range []string{
		"", "/cb", "cb", "//client.example/cb", "https:///cb", "http:/cb", "https:client.example/cb", "javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "vbscript:x", "file:///x", "blob:https://x",
		"https://client.example/cb#", "https://client.example/cb#x", "https://u@client.example/cb", "https://u:p@client.example/cb", `https://client.example\@evil.example/cb`,
		"https://client.example/cb?code=1", "https://client.example/cb?a=1&state=2", "https://client.example/cb?%63ode=1", "https://client.example/cb?iss=x", "https://client.example/cb?error=x",
		"https://client.example/cb\r\nSet-Cookie: x", "https://client.example/a b", "urn:ietf:wg:oauth:2.0:oob", "about:blank",
		"https://*.client.example/cb", "https://client.example/*", "https://client.example/cb?x=*", "https://*/cb", "*", "com.example.*:/cb",
		"view-source:https://client.example/cb", "mailto:a@client.example", "ws://client.example/cb", "filesystem:https://client.example/x",
	} {
		c := good()
		c.RedirectURIs = []string{uri}
		if c.Validate() == nil {
			t.Errorf("redirect URI %q: registered", uri)
		}
	}
	for _, uri := range []string{"http://127.0.0.1/cb", "http://[::1]/cb", "com.example.app:/cb", "https://client.example/cb?x=1"} {
		c := good()
		c.RedirectURIs = []string{uri}
		if err := c.Validate(); err != nil {
			t.Errorf("redirect URI %q: %v", uri, err)
		}
	}
}
