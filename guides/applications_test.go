package guides

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// freeSite returns an address of this machine at which nothing listens, and the address that a browser opens for it.
func freeSite(t *testing.T) (addr, site string) {
	t.Helper()
	addr = freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	return addr, "http://localhost:" + port
}

// run starts a program of node/ or python/, which signs in with the library of an application. It listens at the port that it is told.
func (g *gatehouse) run(addr string, command []string, environment ...string) {
	g.t.Helper()
	_, port, _ := net.SplitHostPort(addr)
	program := exec.Command(command[0], command[1:]...)
	trust := []string{"NODE_EXTRA_CA_CERTS=" + g.authority, "REQUESTS_CA_BUNDLE=" + g.authority, "SSL_CERT_FILE=" + g.authority}
	program.Env = append(append(append(os.Environ(), "PORT="+port), trust...), environment...)
	start(g.t, program, addr)
}

// lines returns the lines of the page's first block of a language.
func (p *guide) lines(language string) []string {
	p.g.t.Helper()
	return strings.Split(strings.TrimSpace(p.block(language)), "\n")
}

// settings returns the page's table of settings. A row with several names has a value for each.
func (p *guide) settings() map[string]string {
	p.g.t.Helper()
	_, table, found := strings.Cut(p.text, "\n| setting | value |\n|---|---|\n")
	if !found {
		p.g.t.Fatal("there is no table of settings")
	}
	settings := map[string]string{}
	for row := range strings.Lines(table) {
		names, values, found := strings.Cut(strings.Trim(row, "| \n"), " | ")
		if !found {
			break
		}
		each := strings.Split(names, ", ")
		for i, value := range strings.SplitN(values, ", ", len(each)) {
			settings[each[i]] = strings.Trim(strings.ReplaceAll(value, "the secret", p.secret), "`")
		}
	}
	return settings
}

// asJSON returns a value for a program's environment.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	check(t, err)
	return string(text)
}

// ran fails a test whose page does not say through which version of a library it signs in.
func (p *guide) ran(library, version string) {
	p.g.t.Helper()
	if !strings.Contains(p.text, library+" "+version) {
		p.g.t.Errorf("the page does not say that %s %s was run", library, version)
	}
}

// inNode returns the version of a package of node/.
func inNode(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("node/node_modules", name, "package.json"))
	check(t, err)
	var described struct{ Version string }
	check(t, json.Unmarshal(text, &described))
	return described.Version
}

// inGo returns the version of a module in the module file of a folder.
func inGo(t *testing.T, folder, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	check(t, err)
	return printed(t, string(text), path)
}

// knows fails a test for what the page of an application does not say.
func knows(t *testing.T, page string, facts ...string) {
	t.Helper()
	for _, fact := range facts {
		if !strings.Contains(page, fact) {
			t.Errorf("the application does not know %s: %s", fact, page)
		}
	}
}

// TestImmich signs in by the library with which Immich's server signs in, at each of the redirect URIs: the page for the sign-in, the page
// that links an account, and the mobile application.
func TestImmich(t *testing.T) {
	g := startGatehouse(t)
	p := g.open("immich")
	p.ran("openid-client", inNode(t, "openid-client"))
	addr, site := freeSite(t)
	g.run(addr, []string{"node", "node/immich.mjs"}, "SETTINGS="+asJSON(t, p.settings()))
	for _, redirect := range []string{"https://photos.example.com/auth/login", "https://photos.example.com/user-settings", "app.immich:///oauth-callback"} {
		t.Run(redirect, func(t *testing.T) {
			b := newBrowser(t)
			at := b.sentTo(site+"/authorize?redirect_uri="+url.QueryEscape(redirect), to(redirect+"?"))
			_, page := b.visit(site+"/callback?url="+url.QueryEscape(at.String()), to(site))
			knows(t, page, `"sub":"`+g.subject+`"`, `"name":"Ada Lovelace"`, `"email":"`+email+`"`)
		})
	}
}

// TestN8n signs in by the library with which n8n signs in.
func TestN8n(t *testing.T) {
	g := startGatehouse(t)
	addr, site := freeSite(t)
	p := g.open("n8n", "https://n8n.example.com", site)
	p.ran("openid-client", inNode(t, "openid-client"))
	g.run(addr, []string{"node", "node/n8n.mjs"}, "SITE="+site, "SETTINGS="+asJSON(t, p.settings()))
	_, page := newBrowser(t).visit(site+"/rest/sso/oidc/login", to(site+"/rest/sso/oidc/callback?"))
	knows(t, page, `"sub":"`+g.subject+`"`, `"email":"`+email+`"`)
}

// TestOutline signs in by the library with which Outline signs in, under its framework.
func TestOutline(t *testing.T) {
	g := startGatehouse(t)
	addr, site := freeSite(t)
	p := g.open("outline", "https://outline.example.com", site)
	p.ran("passport-oauth2", inNode(t, "passport-oauth2"))
	p.ran("Koa", inNode(t, "koa"))
	g.run(addr, []string{"node", "node/outline.mjs"}, p.lines("ini")...)
	b := newBrowser(t)
	_, page := b.visit(site+"/auth/oidc", to(site+"/auth/oidc.callback?"))
	knows(t, page, `"sub":"`+g.subject+`"`, `"name":"Ada Lovelace"`, `"email":"`+email+`"`, `"username":"ada"`, `"refreshToken":true`,
		`"scope":"openid profile email offline_access"`)
	logout := printed(t, strings.ReplaceAll(p.text, "=", " "), "OIDC_LOGOUT_URI")
	_, page = b.visit(logout, to(logout))
	knows(t, page, "<form")
}

// TestPgAdmin signs in by the library with which pgAdmin signs in, under its framework. A pgAdmin that knows nothing of PKCE is refused, as
// the guide says.
func TestPgAdmin(t *testing.T) {
	g := startGatehouse(t)
	addr, site := freeSite(t)
	p := g.open("pgadmin", "https://pgadmin.example.com", site)
	written := p.block("python")
	pgAdmin := func(addr, config string) {
		file := filepath.Join(t.TempDir(), "config_local.py")
		check(t, os.WriteFile(file, []byte(config), 0o600))
		g.run(addr, []string{"/usr/bin/python3", "python/pgadmin.py", file})
	}
	pgAdmin(addr, written)
	_, page := newBrowser(t).visit(site+"/login?oauth2_button=gatehouse", to(site+"/oauth2/authorize?"))
	knows(t, page, `"username":"`+email+`"`, `"email":"`+email+`"`)

	older := strings.Replace(written, "    'OAUTH2_CHALLENGE_METHOD': 'S256',\n", "", 1)
	if older == written {
		t.Fatal("the guide sets no challenge method")
	}
	addr, old := freeSite(t)
	pgAdmin(addr, strings.ReplaceAll(older, site, old))
	g.oauth("", "client", "update", "pgadmin", "--redirect-uri", old+"/oauth2/authorize")
	at := newBrowser(t).sentTo(old+"/login?oauth2_button=gatehouse", to(old+"/oauth2/authorize?"))
	if refused := at.Query().Get("error"); refused != "invalid_request" {
		t.Errorf("without PKCE the error is %q", refused)
	}
}

// TestPortainer signs in by the library with which Portainer redeems the code, and reads the account's name from the userinfo endpoint as
// Portainer does.
func TestPortainer(t *testing.T) {
	g := startGatehouse(t)
	p := g.open("portainer")
	p.ran("golang.org/x/oauth2", inGo(t, ".", "golang.org/x/oauth2"))
	settings := p.settings()
	config := oauth2.Config{
		ClientID: settings["Client ID"], ClientSecret: settings["Client secret"], RedirectURL: settings["Redirect URL"],
		Endpoint: oauth2.Endpoint{AuthURL: settings["Authorization URL"], TokenURL: settings["Access token URL"]},
		Scopes:   []string{settings["Scopes"]},
	}
	b := newBrowser(t)
	at := b.sentTo(config.AuthCodeURL("state-of-portainer", oauth2.SetAuthURLParam("prompt", "login")), to("https://portainer.example.com"))
	token, err := config.Exchange(t.Context(), at.Query().Get("code"))
	check(t, err)
	answer, err := config.Client(t.Context(), token).Get(settings["Resource URL"])
	check(t, err)
	defer func() { _ = answer.Body.Close() }()
	var resource map[string]any
	check(t, json.NewDecoder(answer.Body).Decode(&resource))
	if name := resource[settings["User identifier"]]; name != email {
		t.Errorf("Portainer makes an account for %v of %v", name, resource)
	}
	_, page := b.visit(settings["Logout URL"], to(settings["Logout URL"]))
	knows(t, page, "<form")
}

// TestOpenWebUI signs in by the library with which Open WebUI signs in, under its framework.
func TestOpenWebUI(t *testing.T) {
	g := startGatehouse(t)
	addr, site := freeSite(t)
	p := g.open("open-webui", "https://chat.example.com", site)
	g.run(addr, []string{"/usr/bin/python3", "python/open_webui.py"}, p.lines("ini")...)
	_, page := newBrowser(t).visit(site+"/oauth/oidc/login", to(site+"/oauth/oidc/callback?"))
	knows(t, page, `"sub":"`+g.subject+`"`, `"name":"Ada Lovelace"`, `"email":"`+email+`"`, `"roles":["engineering"]`)
}
