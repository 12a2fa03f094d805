package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestSecretsDoNotPrint tries every way that a value gets into a text. A verb that fmt handles itself, or a field that
// fmt may not call methods on, must not get past it.
func TestSecretsDoNotPrint(t *testing.T) {
	const hidden = "hunter2-hunter2"
	leaks := func(text string) bool {
		for _, form := range []string{"hunter", hex.EncodeToString([]byte("hunter")), "aHVudGVy", "104 117 110"} { // text, hex, base64, bytes
			if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
				return true
			}
		}
		return false
	}
	secret := oauth.NewSecret(hidden)
	type exported struct{ S oauth.Secret }
	type unexported struct {
		name string
		s    oauth.Secret
	}
	values := []any{
		secret, &secret, exported{secret}, &exported{secret}, unexported{"x", secret}, &unexported{"x", secret},
		[]oauth.Secret{secret}, map[string]oauth.Secret{"a": secret}, [1]unexported{{"x", secret}}, []any{secret}, tokenissuer.ClientCredential{ID: "a", Secret: secret},
		withSecret("a", hidden), tokenissuer.TokenRequest{Client: withSecret("a", hidden)}, tokenissuer.Tokens{AccessToken: secret, RefreshToken: secret},
	}
	for _, v := range values {
		for _, verb := range "bcdeEfFgGoOpqstTUvwxX" {
			for _, flags := range []string{"", "+", "#", " ", "0", "-", "20", ".3", "+#20.5"} {
				format := "%" + flags + string(verb)
				if got := fmt.Sprintf(format, v); leaks(got) {
					t.Errorf("%T under %s: %s", v, format, got)
				}
			}
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		v1, err1 := json.Marshal(v)
		v2, err2 := jsonv2.Marshal(v)
		for name, got := range map[string]string{
			"Sprint": fmt.Sprint(v), "Sprintln": fmt.Sprintln(v), "Errorf": fmt.Errorf("%v", v).Error(), "slog": log.String(),
			"encoding/json": fmt.Sprint(string(v1), err1), "json v2": fmt.Sprint(string(v2), err2),
		} {
			if leaks(got) {
				t.Errorf("%T through %s: %s", v, name, got)
			}
		}
	}
	for _, verb := range []string{"%v", "%s", "%q", "%x", "%d", "%+v", "%#v"} {
		if got := fmt.Sprintf(verb, secret); got != "[secret]" {
			t.Errorf("%s gives %s", verb, got)
		}
	}
	if text, err := json.Marshal(secret); err != nil || string(text) != `"[secret]"` {
		t.Errorf("%s, %v", text, err)
	}
	if secret.Reveal() != hidden || secret.IsEmpty() || !oauth.NewSecret("").IsEmpty() || !(oauth.Secret{}).IsEmpty() || (oauth.Secret{}).Reveal() != "" || oauth.NewSecret("").Digest() != (oauth.Secret{}).Digest() {
		t.Error("a secret does not hold what it was given")
	}
}

func TestClientsThatCannotBeRegistered(t *testing.T) {
	good := func() *Client {
		return &Client{ID: "a", Type: ConfidentialClient, Secrets: digestsOf("x"), Grants: []oauth.GrantType{oauth.ClientCredentials}, RedirectURIs: []string{"https://client.example/cb?x=1"}}
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

// TestA20RegistrationRefusesWhatMayNotWorkOrIsUnsafe: a configuration that has had it goes on loading.
func TestA20RegistrationRefusesWhatMayNotWorkOrIsUnsafe(t *testing.T) {
	f := newAuthority(t)
	r := &tokenissuer.Registry{Issuer: f.Issuer}
	for name, c := range map[string]Client{
		"public without a URI":    {Type: PublicClient},
		"native without a URI":    {Type: NativeClient, Grants: []oauth.GrantType{oauth.RefreshTokenGrant, oauth.AuthorizationCode}},
		"plain http":              {RedirectURIs: []string{"https://client.example/cb", "http://client.example/cb"}},
		"plain http, upper":       {RedirectURIs: []string{"HTTP://client.example/cb"}},
		"plain http, private":     {RedirectURIs: []string{"http://10.0.0.1/cb"}},
		"plain http, localhost":   {RedirectURIs: []string{"http://localhost.client.example/cb"}},
		"plain http, unspecified": {RedirectURIs: []string{"http://0.0.0.0/cb"}},
	} {
		if _, _, err := r.AddClient(t.Context(), c); !tokenissuer.IsInvalidInput(err) {
			t.Errorf("%s: %v", name, err)
		}
		c.ID = "a"
		c.SetDefaults()
		c.Secrets = digestsOf("x")
		if err := c.Validate(); err != nil {
			t.Errorf("%s: a configuration of before is refused: %v", name, err)
		}
	}
	for _, c := range []Client{
		{Type: PublicClient, Grants: []oauth.GrantType{oauth.PasswordGrant}}, {Type: ConfidentialClient}, {Type: NativeClient, RedirectURIs: []string{"http://localhost/cb", "http://127.0.0.2:1/cb", "http://[::1]/cb", "com.example.app:/cb"}},
	} {
		c.SetDefaults()
		if err := c.CheckRedirects(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestDirectories(t *testing.T) {
	declared := &Client{ID: "a", Type: PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode}}
	static, err := NewStaticDirectory(Declarations{Clients: []*Client{declared}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewStaticDirectory(Declarations{Clients: []*Client{declared, declared}}); err == nil {
		t.Error("one client was declared twice")
	}
	if _, err := NewStaticDirectory(Declarations{Clients: []*Client{{ID: "b"}}}); err == nil {
		t.Error("a client that cannot be was declared")
	}
	store := newFakeDirectory(&Client{ID: "a", Type: ConfidentialClient}, &Client{ID: "b", Type: ConfidentialClient})
	overlay := OverlayDirectory{Declared: static, Stored: store}
	for id, want := range map[string]ClientType{"a": PublicClient, "b": ConfidentialClient} {
		c, err := overlay.Client(context.Background(), id)
		if err != nil || c.Type != want || c.Declared != (id == "a") {
			t.Errorf("%s: %+v, %v", id, c, err)
		}
		if n := store.questions(); n != 1 {
			t.Errorf("%s: the store was asked %d times", id, n)
		}
	}
	for _, id := range []string{"", "A", "a ", "c"} {
		if c, err := overlay.Client(context.Background(), id); !errors.Is(err, ErrNotFound) || c != nil {
			t.Errorf("%q: %v, %v", id, c, err)
		}
	}
	store.fault = errors.New("down")
	if c, err := overlay.Client(context.Background(), "a"); err != nil || c.ID != "a" {
		t.Errorf("a store that is down hides a declared client: %v", err)
	}
	if _, err := overlay.Client(context.Background(), "b"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a store that is down says %v", err)
	}
	if declared.Declared {
		t.Error("the caller's client was changed")
	}
}
