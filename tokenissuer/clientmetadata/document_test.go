package clientmetadata

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const testID = "https://app.example/client.json"

// TestQ41Documents: a metadata document with another client_id, a secret, unsafe or no redirect URIs, a member twice, trailing text →
// refused with the reason.
func TestQ41Documents(t *testing.T) {
	for _, test := range []struct{ name, members, want string }{
		{"least", `"redirect_uris":["https://app.example/cb"]`, ""},
		{"all", `"redirect_uris":["https://app.example/cb"],"client_name":"App","client_uri":"https://app.example","logo_uri":"https://app.example/logo","grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","scope":"a b","contacts":["x"]`, ""},
		{"loopback", `"redirect_uris":["http://127.0.0.1/cb","http://localhost:1234/cb","http://[::1]/cb"]`, ""},
		{"scheme of its own", `"redirect_uris":["com.example.app:/cb","cursor://anysphere.cursor-mcp/oauth/callback"]`, ""},
		{"no redirect URI", `"redirect_uris":[]`, "redirect_uris are missing"},
		{"javascript", `"redirect_uris":["javascript:alert(1)"]`, "not allowed"},
		{"a browser's scheme", `"redirect_uris":["microsoft-edge:https://evil.example"]`, "domain name in reverse"},
		{"a scheme of one word", `"redirect_uris":["https://app.example/cb","myapp:/cb"]`, "domain name in reverse"},
		{"data", `"redirect_uris":["https://app.example/cb","data:text/html,x"]`, "not allowed"},
		{"plain http", `"redirect_uris":["http://app.example/cb"]`, "plain http"},
		{"fragment", `"redirect_uris":["https://app.example/cb#x"]`, "fragments"},
		{"wildcard", `"redirect_uris":["https://*.app.example/cb"]`, "stands for nothing"},
		{"credentials", `"redirect_uris":["https://me@app.example/cb"]`, "credentials"},
		{"too long", `"redirect_uris":["https://app.example/` + strings.Repeat("a", 3000) + `"]`, "too long"},
		{"as many as are allowed", `"redirect_uris":["https://app.example/cb"` + strings.Repeat(`,"https://app.example/cb"`, 49) + `]`, ""},
		{"too many", `"redirect_uris":["https://app.example/cb"` + strings.Repeat(`,"https://app.example/cb"`, 50) + `]`, "too many"},
		{"secret", `"redirect_uris":["https://app.example/cb"],"client_secret":"s"`, "client_secret"},
		{"secret that ends", `"redirect_uris":["https://app.example/cb"],"client_secret_expires_at":0`, "client_secret"},
		{"basic", `"redirect_uris":["https://app.example/cb"],"token_endpoint_auth_method":"client_secret_basic"`, "token_endpoint_auth_method"},
		{"other grant", `"redirect_uris":["https://app.example/cb"],"grant_types":["client_credentials"]`, "grant_types"},
		{"other response", `"redirect_uris":["https://app.example/cb"],"response_types":["token"]`, "response_types"},
		{"member twice", `"redirect_uris":["https://app.example/cb"],"redirect_uris":["https://evil.example/cb"]`, "no JSON object"},
		{"client_id twice", `"redirect_uris":["https://app.example/cb"],"client_id":"https://evil.example/x"`, "no JSON object"},
		{"uris as text", `"redirect_uris":"https://app.example/cb"`, "no JSON object"},
	} {
		c, err := parse(testID, []byte(`{"client_id":"`+testID+`",`+test.members+`}`), true)
		switch {
		case (err == nil) != (test.want == ""), err != nil && !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		case err == nil && (!c.IsPublic() || c.FirstParty || c.Origin != store.FromMetadata || len(c.Secrets) != 0 || len(c.Scopes) != 0):
			t.Errorf("%s: %+v", test.name, c)
		}
	}
	for _, whole := range []string{
		``, `null`, `[]`, `"x"`, `{}`, `{"redirect_uris":["https://app.example/cb"]}`, `{"client_id":"https://APP.example/client.json","redirect_uris":["https://app.example/cb"]}`,
		`{"client_id":"https://app.example/client.json/","redirect_uris":["https://app.example/cb"]}`, `{"client_id":"` + testID + `","redirect_uris":["https://app.example/cb"]} {}`,
		`{"CLIENT_ID":"` + testID + `","redirect_uris":["https://app.example/cb"]}`,
	} {
		if c, err := parse(testID, []byte(whole), true); err == nil {
			t.Errorf("%s is taken: %+v", whole, c)
		}
	}
}

// TestQ220HostsOfDocumentsInPlainLetters: nor can the host that the answer goes to.
func TestQ220HostsOfDocumentsInPlainLetters(t *testing.T) {
	for _, host := range []string{
		"\u0441laude.ai", "%D1%81laude.ai", "claude.ai\u202e.evil.example", "claude.ai%E2%80%AE.evil.example", "claude.ai\u2044.evil.example", "claude.ai;.evil.example",
		"claude.ai,evil.example", "claude.ai(.evil.example", "claude.ai.",
	} {
		if c, err := parse(testID, []byte(`{"client_id":"`+testID+`","redirect_uris":["https://app.example/cb","https://`+host+`/cb"]}`), true); err == nil || !strings.Contains(err.Error(), "xn--") {
			t.Errorf("%q: %+v, %v", host, c, err)
		}
	}
	if _, err := parse(testID, []byte(`{"client_id":"`+testID+`","redirect_uris":["https://xn--laude-2of.ai/cb","https://App.example:443/cb","https://[2001:db8::1]:8443/cb","http://[::1]:1/cb"]}`), true); err != nil {
		t.Error(err)
	}
}

// TestQ226MarksDoNotPileUp: a client name with forty combining marks over a letter → three of them.
func TestQ226MarksDoNotPileUp(t *testing.T) {
	for name, want := range map[string]string{
		"Cl" + strings.Repeat("\u030d", 40) + "aude": "Cl\u030d\u030d\u030daude", strings.Repeat("\u20dd", 9) + "x": "\u20dd\u20dd\u20ddx",
		"Tie\u0302\u0301ng Vie\u0302\u0323t": "Tie\u0302\u0301ng Vie\u0302\u0323t",
	} {
		c, err := parse(testID, []byte(`{"client_id":"`+testID+`","client_name":"`+name+`","redirect_uris":["https://app.example/cb"]}`), true)
		if err != nil || c.Name != want {
			t.Errorf("%+q: %+v, %v", name, c, err)
		}
	}
}

// FuzzQ41Document: whatever a document says, the client that comes of it keeps our rules.
func FuzzQ41Document(f *testing.F) {
	f.Add([]byte(`{"client_id":"` + testID + `","client_name":"App","redirect_uris":["https://app.example/cb","http://127.0.0.1/cb","app:/cb"],"grant_types":["authorization_code"]}`))
	f.Add([]byte(`{"client_id":"` + testID + `","client_name":"\u202eApp\u201d","redirect_uris":["HTTPS://app.example/cb"]}`))
	f.Add([]byte(`{"client_id":"` + testID + `","redirect_uris":["http://localhost.evil.example/"]}`))
	f.Add([]byte(`{"client_id":"` + testID + `","redirect_uris":["https://app.example/cb"],"token_endpoint_auth_method":"private_key_jwt","jwks":{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}}`))
	f.Add([]byte(`{"client_id":"` + testID + `","redirect_uris":["https://app.example/cb"],"token_endpoint_auth_method":"private_key_jwt","jwks_uri":"https://app.example/keys"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := parse(testID, body, true)
		if err != nil {
			return
		}
		if c.ID != testID || c.IsPublic() == c.SignsAssertions() || !c.IsPublic() && c.PKCE != oauth.PKCERequired || c.FirstParty || len(c.Secrets) > 0 || len(c.RedirectURIs) == 0 || c.Validate() != nil || c.CheckRedirects() != nil {
			t.Fatalf("%+v", c)
		}
		if c.Name == "" || len([]rune(c.Name)) > 64 || strings.ContainsAny(c.Name, "\"\u201c\u201d\u201e\u202e\n") {
			t.Fatalf("the name is %q", c.Name)
		}
		for _, grant := range c.Grants {
			if !slices.Contains([]oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}, grant) {
				t.Fatalf("grant %s", grant)
			}
		}
	})
}
