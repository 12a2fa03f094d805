// Package guides drives applications of docs/guides with the code of their own makers: a whole program, the part of it that speaks OpenID
// Connect, or the library with which it signs in. It is a module of its own, so that nobody who builds Gatehouse resolves what they need. Run
// it with `make guides`.
package guides

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

const (
	caddy    = "../caddy"
	email    = "ada@example.com"
	password = "the enchantress of numbers"
)

// gatehouse is a running ./caddy with an issuer, one person and the certificate authority of its own.
type gatehouse struct {
	t         *testing.T
	url       string
	admin     string
	authority string // file with the certificate of the authority
	subject   string // of the person
}

const caddyfile = `{
	admin ADMIN
	https_port PORT
	auto_https disable_redirects
	skip_install_trust
	storage file_system DIR/storage
	oauth {
		issuer https://localhost:PORT
		openid
		store sqlite DIR/gatehouse.db
	}
}

https://localhost:PORT {
	bind 127.0.0.1
	tls internal
	oauth_server
}
`

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// freeAddr returns an address of this machine at which nothing listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// start starts a program, and ends it with the test, or before that by stop. It waits until the program listens at an address.
func start(t *testing.T, command *exec.Cmd, addr string) (stop func()) {
	t.Helper()
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	check(t, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	stop = func() {
		_ = command.Process.Kill()
		<-ended
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", command, &said)
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("%s ended: %s", command, &said)
		default:
		}
		if connection, err := net.Dial("tcp", addr); err == nil {
			_ = connection.Close()
			return stop
		}
	}
	t.Fatalf("%s does not listen at %s", command, addr)
	return nil
}

func startGatehouse(t *testing.T) *gatehouse {
	t.Helper()
	if _, err := os.Stat(caddy); err != nil {
		t.Fatalf("build ./caddy first, with make build: %v", err)
	}
	addr, dir := freeAddr(t), t.TempDir()
	_, port, _ := net.SplitHostPort(addr)
	g := &gatehouse{t: t, url: "https://localhost:" + port, admin: freeAddr(t), authority: filepath.Join(dir, "storage/pki/authorities/local/root.crt")}
	config := filepath.Join(dir, "Caddyfile")
	check(t, os.WriteFile(config, []byte(strings.NewReplacer("ADMIN", g.admin, "PORT", port, "DIR", dir).Replace(caddyfile)), 0o600))
	command := exec.Command(caddy, "run", "--config", config)
	command.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	start(t, command, addr)
	pem, err := os.ReadFile(g.authority)
	check(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	ordinary := http.DefaultTransport.(*http.Transport)
	trusting := ordinary.Clone()
	trusting.TLSClientConfig = &tls.Config{RootCAs: roots}
	http.DefaultTransport = trusting
	t.Cleanup(func() { http.DefaultTransport = ordinary })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(g.url + "/.well-known/openid-configuration")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the issuer does not serve: %v", err)
		}
	}
	g.subject = printed(t, g.oauth(password+"\n", "user", "add", "--email", email, "--name", "Ada Lovelace", "--preferred-username", "ada", "--group", "engineering",
		"--email-verified", "--password-stdin"), "user")
	return g
}

// oauth runs `caddy oauth …`.
func (g *gatehouse) oauth(input string, args ...string) string {
	g.t.Helper()
	command := exec.Command(caddy, append([]string{"oauth", "--address", g.admin}, args...)...)
	command.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", command, err, &said)
	}
	return string(out)
}

// printed returns what stands after a word at the beginning of a line.
func printed(t *testing.T, out, word string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == word {
			return fields[1]
		}
	}
	t.Fatalf("there is no %s in\n%s", word, out)
	return ""
}

// guide is a page of docs/guides, with the addresses of the test in place of those that it prints.
type guide struct {
	g      *gatehouse
	text   string
	secret string // of the client that the page registers
}

// open reads a page and registers its first application. The addresses replace those of the page.
func (g *gatehouse) open(name string, addresses ...string) *guide {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs/guides", name+".md"))
	check(g.t, err)
	p := &guide{g: g, text: strings.NewReplacer(append(addresses, "https://auth.example.com", g.url)...).Replace(string(text))}
	out := p.register(p.block("console"))
	if strings.Contains(out, "client_secret ") {
		p.secret = printed(g.t, out, "client_secret")
		p.text = strings.ReplaceAll(p.text, "THE_SECRET", p.secret)
	}
	return p
}

// register registers an application with the first command of a block, and returns what the command prints.
func (p *guide) register(block string) string {
	p.g.t.Helper()
	command, found := strings.CutPrefix(block, "$ caddy oauth ")
	if !found {
		p.g.t.Fatalf("this registers no client: %s", block)
	}
	command, _, _ = strings.Cut(command, "\n$ ")
	var args []string
	for _, word := range regexp.MustCompile(`"[^"]*"|[^\s\\]+`).FindAllString(command, -1) {
		args = append(args, strings.Trim(word, `"`))
	}
	return p.g.oauth("", append(args, "--first-party")...)
}

// block returns the first code block of a language.
func (p *guide) block(language string) string {
	p.g.t.Helper()
	return p.nth(language, 0)
}

// nth returns a code block of a language, of which the page has several.
func (p *guide) nth(language string, n int) string {
	p.g.t.Helper()
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(p.text, -1)
	if len(found) <= n {
		p.g.t.Fatalf("there are %d blocks of %s", len(found), language)
	}
	return found[n][1]
}

// browser is a person's browser.
type browser struct {
	t               *testing.T
	client          *http.Client
	email, password string // of the person
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check(t, err)
	return &browser{t, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, email, password}
}

// visit opens an address, signs in at Gatehouse on the way, and returns the page of the first address that until accepts.
func (b *browser) visit(address string, until func(*url.URL) bool) (at *url.URL, page string) {
	b.t.Helper()
	return b.walk(address, until, true)
}

// sentTo is visit for an application of which only a part runs: it returns the address to which the browser is sent, without opening it.
func (b *browser) sentTo(address string, until func(*url.URL) bool) *url.URL {
	b.t.Helper()
	at, _ := b.walk(address, until, false)
	return at
}

func (b *browser) walk(address string, until func(*url.URL) bool, open bool) (at *url.URL, page string) {
	b.t.Helper()
	method, body := http.MethodGet, url.Values(nil)
	origin := ""
	for range 30 {
		at, err := url.Parse(address)
		check(b.t, err)
		request, err := http.NewRequest(method, address, strings.NewReader(body.Encode()))
		check(b.t, err)
		request.Header.Set("Accept", "text/html")
		if method == http.MethodPost {
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			request.Header.Set("Origin", origin)
		} else if !open && until(at) {
			return at, ""
		}
		answer, err := b.client.Do(request)
		check(b.t, err)
		content, err := io.ReadAll(answer.Body)
		check(b.t, err)
		check(b.t, answer.Body.Close())
		next, err := answer.Location()
		switch {
		case err == nil:
			address, method, body = next.String(), http.MethodGet, nil
			continue
		case answer.Header.Get("Refresh") != "" && method == http.MethodGet:
			seconds, err := strconv.Atoi(answer.Header.Get("Refresh"))
			check(b.t, err)
			time.Sleep(time.Duration(seconds) * time.Second)
			continue
		case answer.StatusCode == http.StatusServiceUnavailable && method == http.MethodPost && answer.Header.Get("Retry-After") != "":
			time.Sleep(time.Second) // and the person presses the button again
		case answer.StatusCode != http.StatusOK:
			b.t.Fatalf("%s %s: %s\n%s", method, address, answer.Status, content)
		case until(at):
			return at, string(content)
		}
		action, fields := b.form(content)
		target, err := at.Parse(action)
		check(b.t, err)
		address, method, body, origin = target.String(), http.MethodPost, fields, at.Scheme+"://"+at.Host
	}
	b.t.Fatalf("the browser goes round in circles, last to %s", address)
	return nil, ""
}

// form returns the action of the first form of a page, and its fields as the person fills them in and presses the first button.
func (b *browser) form(page []byte) (action string, fields url.Values) {
	b.t.Helper()
	tree, err := html.Parse(bytes.NewReader(page))
	check(b.t, err)
	attributes := func(node *html.Node) map[string]string {
		list := make(map[string]string)
		for _, a := range node.Attr {
			list[a.Key] = a.Val
		}
		return list
	}
	for node := range tree.Descendants() {
		if node.Type != html.ElementNode || node.Data != "form" {
			continue
		}
		fields = url.Values{}
		pressed := false
		for field := range node.Descendants() {
			a := attributes(field)
			_, checked := a["checked"]
			_, disabled := a["disabled"]
			switch kind := field.Data + " " + a["type"]; {
			case a["name"] == "" || disabled || field.Data != "input" && field.Data != "button":
			case kind == "input hidden":
				fields.Set(a["name"], a["value"])
			case kind == "input email", kind == "input text":
				fields.Set(a["name"], b.email)
			case kind == "input password":
				fields.Set(a["name"], b.password)
			case kind == "input checkbox" && checked:
				fields.Set(a["name"], "on")
			case !pressed && (field.Data == "button" || kind == "input submit"):
				fields.Set(a["name"], a["value"])
				pressed = true
			}
		}
		return attributes(node)["action"], fields
	}
	b.t.Fatalf("there is no form in %s", page)
	return "", nil
}

// to accepts the addresses that begin with a text.
func to(prefix string) func(*url.URL) bool {
	return func(at *url.URL) bool { return strings.HasPrefix(at.String(), prefix) }
}
