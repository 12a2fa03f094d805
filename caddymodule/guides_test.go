package caddymodule

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guidesSite is what the application guides expect: an issuer with OpenID Connect, and an API behind the gate. SPA is the single-page
// application.
const guidesSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		openid
		store memory
		limits {
			login off
		}
		user u-ada {
			email ada@acme.example
			name "Ada Admin"
			password {env.HASH}
		}
	}
}

http://ADDR {
	oauth_server
	handle /api/* {
		protect {
			cors SPA
		}
		respond "Hello {http.auth.user.id}"
	}
	handle {
		respond 404
	}
}

SPA {
	root * DIR/spa
	file_server
}
`

// guide is a page of docs/guides with an application, which the test runs as the page describes.
type guide struct {
	t    *testing.T
	name string
	text string // with the addresses of the test
	addr string // host:port of the application
	url  string
	dir  string
	env  []string
}

// newGuide reads a guide and registers its application with the guide's command. A non-empty lifetime applies to the application's access
// tokens.
func newGuide(g *gatehouse, name, addr, url, lifetime string) *guide {
	t := g.t
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs/guides", name+".md"))
	check(t, err)
	_, port, _ := net.SplitHostPort(addr)
	p := &guide{t: t, name: name, addr: addr, url: url, dir: filepath.Join(directory(t), name)}
	check(t, os.Mkdir(p.dir, 0o755))
	p.text = strings.NewReplacer("https://auth.example.com", g.url, "https://app.example.com", p.url, "3000", port).Replace(string(text))
	command, found := strings.CutPrefix(p.block("console"), "$ caddy oauth ")
	if !found {
		t.Fatalf("%s: the console block begins with something else", name)
	}
	args := wordsOf(command)
	if lifetime != "" {
		args = append(args, "--lifetime", "authorization_code="+lifetime)
	}
	out := g.ok(args...)
	p.env = append(os.Environ(), "SESSION_SECRET=a-session-secret-of-32-characters", "NODE_ENV=test")
	if strings.Contains(out, "client_secret") {
		p.env = append(p.env, "CLIENT_SECRET="+printed(t, out, "client_secret"))
	}
	return p
}

// wordsOf splits a command of a page as a shell would.
func wordsOf(command string) (words []string) {
	for _, word := range regexp.MustCompile(`"[^"]*"|[^\s\\]+`).FindAllString(command, -1) {
		words = append(words, strings.Trim(word, `"`))
	}
	return words
}

// TestDocumentedRegistrations checks that a running Caddy accepts each `client add` of the guides, without a warning.
func TestDocumentedRegistrations(t *testing.T) {
	g := startGatehouse(t, "{\n\tadmin ADMIN\n\tlog {\n\t\toutput file LOG\n\t}\n\toauth {\n\t\tissuer http://ADDR\n\t\topenid\n\t\tstore memory\n\t}\n}\n\nhttp://ADDR {\n\toauth_server\n}\n")
	pages, err := filepath.Glob("../docs/guides/*.md")
	check(t, err)
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check(t, err)
		for _, command := range regexp.MustCompile(`(?m)^ *\$ caddy oauth (client add (?:.*\\\n)*.*)$`).FindAllStringSubmatch(string(text), -1) {
			found++
			out, err := g.run("", append(wordsOf(command[1]), "--json")...)
			if err != nil || strings.Contains(out, `"warning"`) {
				t.Errorf("%s: %s: %v\n%s", filepath.Base(page), command[1], err, out)
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d registrations were found: is the pattern still right?", found)
	}
}

// block returns the first code block of a language.
func (p *guide) block(language string) string {
	p.t.Helper()
	found := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$").FindStringSubmatch(p.text)
	if found == nil {
		p.t.Fatalf("%s has no block of %s", p.name, language)
	}
	return found[1]
}

// write writes a file of the application and returns its path.
func (p *guide) write(name, content string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	check(p.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(p.t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// start runs the application until the test ends.
func (p *guide) start(program string, args ...string) {
	p.t.Helper()
	command := exec.Command(program, args...)
	command.Dir, command.Env = p.dir, p.env
	startServer(p.t, command, p.addr)
}

// startNode runs the guide's app.mjs with the packages of the tests.
func (p *guide) startNode() {
	p.t.Helper()
	packages, err := filepath.Abs(filepath.Join(npmPackages, "node_modules"))
	check(p.t, err)
	check(p.t, os.Symlink(packages, filepath.Join(p.dir, "node_modules")))
	p.start("node", p.write("app.mjs", p.block("js")))
}

// startGo builds the guide's main.go with the packages of this module.
func (p *guide) startGo() {
	p.t.Helper()
	program := filepath.Join(p.dir, "depot")
	if out, err := exec.Command("go", "build", "-o", program, p.write("main.go", p.block("go"))).CombinedOutput(); err != nil {
		p.t.Fatalf("building %s: %v\n%s", p.name, err, out)
	}
	p.start(program)
}

// serveFiles writes the single-page application to the directory that Caddy serves. It adds an import map, because there is no bundler.
func (p *guide) serveFiles(root string) {
	p.t.Helper()
	p.dir = root
	p.write("app.js", p.block("js"))
	p.write("index.html", `<!DOCTYPE html><html lang="en"><link rel="icon" href="data:,"><title>Board</title><body></body>
<script type="importmap">{"imports": {"oidc-client-ts": "/oidc-client-ts.js", "jwt-decode": "/jwt-decode.js"}}</script>
<script type="module" src="/app.js"></script></html>`)
	for name, path := range map[string]string{
		"oidc-client-ts.js": "oidc-client-ts/dist/esm/oidc-client-ts.js", "jwt-decode.js": "jwt-decode/build/esm/index.js",
	} {
		source, err := os.ReadFile(filepath.Join(npmPackages, "node_modules", path))
		check(p.t, err)
		p.write(name, string(source))
	}
}

// apacheConfig surrounds the guide's configuration. A page with server-side includes serves as the application.
const apacheConfig = `ServerRoot DIR
ServerName localhost
Listen ADDR
PidFile DIR/pid
DefaultRuntimeDir DIR
ErrorLog /dev/stderr
User www-data
Group www-data
LoadModule mpm_event_module MODULES/mod_mpm_event.so
LoadModule authn_core_module MODULES/mod_authn_core.so
LoadModule authz_core_module MODULES/mod_authz_core.so
LoadModule authz_user_module MODULES/mod_authz_user.so
LoadModule include_module MODULES/mod_include.so
LoadModule mime_module MODULES/mod_mime.so
LoadModule dir_module MODULES/mod_dir.so
LoadModule auth_openidc_module MODULES/mod_auth_openidc.so
TypesConfig /dev/null
DocumentRoot DIR/pages
DirectoryIndex index.shtml
AddType text/html .shtml
AddOutputFilter INCLUDES .shtml
<Directory DIR/pages>
	Options +Includes
</Directory>
`

// startApache runs Debian's Apache with the guide's configuration.
func (p *guide) startApache() {
	p.t.Helper()
	p.write("pages/index.shtml", `<p>Signed out. <a href="/private/">Sign in</a>`)
	p.write("pages/private/index.shtml", `<p>Signed in as <!--#echo var="OIDC_CLAIM_name" -->, <!--#echo var="OIDC_CLAIM_email" -->.
<a href="/oidc?logout=`+strings.NewReplacer(":", "%3A", "/", "%2F").Replace(p.url)+`%2F">Sign out</a>
<p id="user"><!--#echo var="REMOTE_USER" --></p><p id="token"><!--#echo var="OIDC_access_token" --></p>`)
	check(p.t, os.Chmod(filepath.Dir(p.dir), 0o755)) // Apache runs as another user
	config := strings.NewReplacer("DIR", p.dir, "ADDR", p.addr, "MODULES", "/usr/lib/apache2/modules").Replace(apacheConfig)
	p.start("/usr/sbin/apache2", "-X", "-f", p.write("apache2.conf", config+p.block("apache")))
}

// TestBrowserGuides runs the application of each guide with a user in Chromium.
func TestBrowserGuides(t *testing.T) {
	installPackages(t)
	spa, root := freeAddr(t), directory(t)
	site := strings.NewReplacer("SPA", "http://"+spa, "DIR/spa", root).Replace(guidesSite)
	g, given := startBrowser(t, site)
	applications := map[string]string{}
	begin := func(name, lifetime string) *guide {
		addr := freeAddr(t)
		p := newGuide(g, name, addr, strings.Replace("http://"+addr, "127.0.0.1", "localhost", 1), lifetime) // another site than the issuer's
		applications[name] = p.url
		return p
	}
	// Where an application refreshes tokens by itself, their lifetime is short. Authlib waits until they have expired.
	begin("go", "8s").startGo()
	begin("express", "30s").startNode()
	begin("passport", "").startNode()
	begin("authjs", "").startNode()
	python := begin("python", "5s")
	python.start("/usr/bin/python3", python.write("app.py", python.block("python")))
	begin("apache", "30s").startApache()
	newGuide(g, "spa", spa, "http://"+spa, "").serveFiles(root)
	applications["spa"] = "http://" + spa
	given["applications"] = applications
	runScript(t, "guides.mjs", given)
	for _, client := range []string{"depot", "shop", "lab", "wiki", "board"} {
		refreshed := regexp.MustCompile(`"token issued".*"client_id":"` + client + `".*"grant_type":"refresh_token"`)
		if !refreshed.MatchString(g.logs()) {
			t.Errorf("%s has refreshed no token", client)
		}
	}
	for _, client := range []string{"shop", "wiki"} {
		if !regexp.MustCompile(`"application told of the sign-out".*"client_id":"` + client + `"`).MatchString(g.logs()) {
			t.Errorf("%s has not been told of a sign-out", client)
		}
	}
}
