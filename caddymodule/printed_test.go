package caddymodule

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// sample is a Caddyfile, or a part of one, from the documentation.
type sample struct{ place, text string }

// printedCaddyfiles returns all samples: those of the pages, and the examples.
func printedCaddyfiles(t *testing.T) (all []sample) {
	t.Helper()
	pages := []string{"../README.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/guides/*.md", "../docs/decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		check(t, err)
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check(t, err)
		for i, block := range regexp.MustCompile("(?ms)^( *)```caddyfile\n(.*?)^ *```$").FindAllStringSubmatch(string(text), -1) {
			all = append(all, sample{fmt.Sprintf("%s, block %d", filepath.Base(page), i+1), strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n")[1:]})
		}
	}
	examples, err := filepath.Glob("../examples/*/Caddyfile")
	check(t, err)
	for _, example := range append(examples, exampleFile) {
		text, err := os.ReadFile(example)
		check(t, err)
		all = append(all, sample{example, string(text)})
	}
	return all
}

// withOAuth precedes a site that is printed alone.
const withOAuth = `{
	oauth {
		issuer https://auth.example.com
		store memory
		scope mcp:use "Use the tools"
		scope mcp:write "Write"
	}
}

`

// whole returns a Caddyfile with the sample in its place. It returns "" if the sample has no routes.
func (p sample) whole() string {
	text := p.text
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	switch first, _, _ := strings.Cut(text, "\n"); {
	case strings.HasPrefix(first, "{"):
		return p.text
	case strings.HasPrefix(first, "handle "):
		text = "app.example.com {\n" + text + "}\n"
	case strings.HasPrefix(first, "\t"):
		proxy := ""
		if !strings.Contains(text, "reverse_proxy ") {
			proxy = "\treverse_proxy 127.0.0.1:3000\n"
		}
		text = "app.example.com {\n" + text + proxy + "}\n"
	case !strings.HasSuffix(strings.Fields(first)[0], ".example.com"):
		return "" // a part of an oauth block, or of a directive
	}
	return withOAuth + text
}

// loopbackConfig returns a printed configuration in JSON that runs here: its servers listen on free ports without
// TLS, nothing is stored on disk, and every upstream is ours, as is every response to an accepted request. It also
// returns the addresses, and the paths that the matchers name.
func (g *gatehouse) loopbackConfig(t *testing.T, caddyfile string) (config []byte, addrs, paths []string) {
	t.Helper()
	adapted, err := adapt(caddyfile)
	check(t, err)
	whole := decoded[map[string]any](t, string(adapted))
	whole["admin"] = map[string]any{"listen": g.admin}
	delete(whole, "logging")
	apps, _ := whole["apps"].(map[string]any)
	if oauth, ok := apps["oauth"].(map[string]any); ok {
		if oauth["issuer"] != nil {
			oauth["store"] = map[string]any{"type": "memory"}
		}
		delete(oauth, "keys")
		delete(oauth, "pages") // its files are not here
	}
	delete(apps, "tls")
	app, _ := apps["http"].(map[string]any)
	if app == nil {
		return nil, nil, nil
	}
	servers, _ := app["servers"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		server, _ := servers[name].(map[string]any)
		addr := freeAddr(t)
		if routes := fmt.Sprint(server["routes"]); strings.Contains(routes, "oauth_") { // others stand for an upstream
			addrs = append(addrs, addr)
		}
		server["listen"], server["automatic_https"] = []string{addr}, map[string]any{"disable": true}
		delete(server, "tls_connection_policies")
	}
	found := map[string]bool{"/": true, "/x": true}
	var visit func(any) any
	visit = func(value any) any {
		switch v := value.(type) {
		case []any:
			for i := range v {
				v[i] = visit(v[i])
			}
		case map[string]any:
			if patterns, ok := v["path"].([]any); ok {
				for _, pattern := range patterns {
					base := strings.ReplaceAll(fmt.Sprint(pattern), "*", "")
					found[base], found[strings.TrimSuffix(base, "/")+"/x"] = true, true
				}
			}
			status, _ := v["status_code"].(float64)
			if v["handler"] == "static_response" && status < 400 {
				return map[string]any{"handler": "reverse_proxy", "upstreams": []any{map[string]any{"dial": g.upstream.addr}}}
			}
			for key := range v {
				if v[key] = visit(v[key]); key == "dial" {
					v[key] = g.upstream.addr
				}
			}
		}
		return value
	}
	config, err = json.Marshal(visit(whole))
	check(t, err)
	return config, addrs, slices.Sorted(maps.Keys(found))
}

// spellingsOf returns spellings of a path that some upstream may read as that path. open are paths that pass.
func spellingsOf(target string, open []string) []string {
	first, rest := target, ""
	if i := strings.IndexByte(target[1:], '/'); i >= 0 {
		first, rest = target[:i+1], target[i+1:]
	}
	letters := ""
	for _, c := range []byte(first[1:]) {
		letters += fmt.Sprintf("%%%02x", c)
	}
	spelled := []string{
		target, target + "?/x", target + "/", target + "%2f", target + "%00", target + "%3f", target + "%23", target + "%20", target + ".", target + ";", target + ";x=1",
		strings.ToUpper(target), "/" + letters + rest, "/" + strings.ReplaceAll(letters, "%", "%25") + rest,
		first + ";x=1" + rest, first + ";/" + strings.TrimPrefix(rest, "/"), first + "%3bx" + rest, first + "." + rest, first + "%2e" + rest, first + "%20" + rest, first + "%09" + rest,
		first + "%2f" + strings.TrimPrefix(rest, "/"), first + "%5c" + strings.TrimPrefix(rest, "/"), first + "/" + rest, first + "/." + rest, first + "/x/.." + rest, first + "/%2e" + rest,
		"/" + target, "//" + target, "/." + target, "/%2e" + target, "/;" + target, "/%2f" + target, "/%5c" + target, `/\` + target[1:], "/%252f" + target[1:],
	}
	for _, open := range open {
		open = strings.TrimSuffix(open, "/")
		for _, up := range []string{"/..", "/%2e%2e", "/..;", "/%252e%252e", "/%c0%ae%c0%ae"} {
			spelled = append(spelled, open+up+target)
		}
		for _, slash := range []string{"%2f", "%5c", `\`, "%ef%bc%8f"} {
			spelled = append(spelled, open+slash+".."+slash+target[1:])
		}
	}
	return spelled
}

// readingsOf returns the paths that upstreams might read a request target as.
func readingsOf(target string) []string {
	target, _, _ = strings.Cut(target, "?")
	found := make(map[string]bool)
	for range 4 { // decoded once, twice, and so on
		decoded, err := url.PathUnescape(target)
		if err != nil {
			break
		}
		target = decoded
		for _, cut := range []string{"", "\x00", "?", "#", ";"} {
			read := strings.ReplaceAll(target, `\`, "/")
			if cut == ";" {
				read = regexp.MustCompile(`;[^/]*`).ReplaceAllString(read, "")
			} else if cut != "" {
				read, _, _ = strings.Cut(read, cut)
			}
			for _, trimmed := range []string{read, regexp.MustCompile(`([^/. ])[. \t]+(/|$)`).ReplaceAllString(read, "$1$2")} {
				clean := path.Clean("/" + trimmed)
				if strings.HasSuffix(trimmed, "/") && clean != "/" {
					clean += "/"
				}
				found[clean], found[strings.ToLower(clean)] = true, true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// attack sends requests to one host of a configuration, with these header lines.
type attack struct {
	*gatehouse
	host  string
	lines []string
	plain map[string]string // the refusal of each path without tricks; empty: it was not refused
}

// reach sends a request and returns it as it reached the upstream; nil: it did not. refusal describes the gate's
// refusal.
func (a *attack) reach(method, target string, lines ...string) (seen *recorded, refusal string) {
	head := append([]string{method + " " + target + " HTTP/1.1", "Host: " + a.host, "Connection: close"}, slices.Concat(a.lines, lines)...)
	status, header, _ := a.raw(strings.Join(head, "\r\n") + "\r\n\r\n")
	if requests := a.upstream.seen(); len(requests) > 0 {
		return requests[0], ""
	}
	if len(header["Www-Authenticate"])+len(header["Location"]) > 0 {
		refusal = http.StatusText(status)
	}
	return nil, refusal
}

// refusal returns the gate's refusal of a plain request for a path; empty: it is not refused.
func (a *attack) refusal(read string) string {
	refusal, known := a.plain[read]
	if !known {
		_, refusal = a.reach(http.MethodGet, (&url.URL{Path: read}).EscapedPath())
		a.plain[read] = refusal
	}
	return refusal
}

// isServed reports whether the host serves one of the paths: the request is forwarded or refused by a gate.
func (a *attack) isServed(paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		seen, refusal := a.reach(http.MethodGet, path)
		return seen != nil || refusal != ""
	})
}

// run requests every path in every spelling.
func (a *attack) run(t *testing.T, paths []string) (sent, passed int) {
	t.Helper()
	a.plain = make(map[string]string)
	open := slices.Clone(paths)
	if open = slices.DeleteFunc(open, func(path string) bool { seen, _ := a.reach(http.MethodGet, path); return seen == nil }); len(open) == 0 {
		open = paths[:1]
	}
	for _, target := range paths {
		for _, spelled := range spellingsOf(target, open[:1]) {
			sent++
			seen, _ := a.reach(http.MethodGet, spelled)
			if seen == nil {
				continue
			}
			passed++
			for _, read := range readingsOf(seen.Target) {
				if refusal := a.refusal(read); refusal != "" {
					t.Errorf("%s: %s reached the upstream as %s, which may read %s: %s", a.host, spelled, seen.Target, read, refusal)
					break
				}
			}
		}
	}
	return sent, passed
}

// TestV4PrintedCaddyfiles: every Caddyfile in pages and examples, attacked with spellings of each path, forged
// identity headers and stray cookies → nothing reaches an upstream that might read it as a refused path. No upstream
// gets a client's identity header or a cookie of ours.
func TestV4PrintedCaddyfiles(t *testing.T) {
	for guide, c := range map[string]struct{ email, host, open string }{
		"protect-an-application": {"ada@example.com", "app", "/x"}, "several-applications": {"ada@example.com", "billing", "/x"},
	} {
		t.Run("signed in, "+guide, func(t *testing.T) {
			g := portalGuide(t, guide)
			v := g.visitor(t)
			v.sees(c.host, c.open, c.email, http.StatusOK, "")
			g.upstream.seen()
			a := &attack{gatehouse: g.gatehouse, host: strings.TrimPrefix(g.origin(c.host), "http://"), lines: []string{"Cookie: " + hostCookie + "=" + v.cookie(c.host, hostCookie)}}
			if sent, passed := a.run(t, []string{"/", "/x", "/admin", "/admin/", "/admin/users"}); passed == 0 {
				t.Errorf("none of %d requests reached the upstream", sent)
			}
			for _, target := range []string{"/admin", "/ADMIN", "/admin?x", "/%61dmin", "/admin%2e/users", "/admin/users"} {
				if seen, _ := a.reach(http.MethodGet, target); guide == "several-applications" && seen != nil {
					t.Errorf("%s reached the upstream, which is for somebody else", target)
				}
			}
			a.tellNothing(t, g.origin("auth"), nil, []string{"/", "/x", "/admin/users"})
		})
	}
	g := startGatehouse(t, site)
	for _, name := range []string{"BILLING", "PORTAL", "PARTNER", "SHOP", "ORDERS", "GOOGLE", "ENTRA", "KEYCLOAK", "GITHUB"} {
		t.Setenv(name+"_SECRET", confSecret)
	}
	t.Setenv("CORP_KEY", "0123456789abcdef")
	t.Setenv("ADA_HASH", peopleHash())
	t.Setenv("BEN_HASH", peopleHash())
	attacked := 0
	for _, p := range printedCaddyfiles(t) {
		caddyfile := p.whole()
		if !strings.Contains(caddyfile, "protect") {
			continue
		}
		t.Run(p.place, func(t *testing.T) {
			config, addrs, paths := g.loopbackConfig(t, caddyfile)
			check(t, caddy.Load(config, true))
			issuer := ""
			if app := g.app(); app.issues() {
				issuer = g.loaded().Issuer
			}
			hosts := []string{"unknown.example.net"}
			for _, match := range regexp.MustCompile(`"host":\[([^]]*)\]`).FindAllStringSubmatch(string(config), -1) {
				for _, host := range strings.Split(match[1], ",") {
					hosts = append(hosts, strings.Trim(host, `"`))
				}
			}
			slices.Sort(hosts)
			sent, passed := 0, 0
			for _, addr := range addrs {
				for _, host := range slices.Compact(hosts) {
					at := *g
					at.t, at.addr = t, addr
					a := &attack{gatehouse: &at, host: host}
					if !a.isServed(paths) {
						continue
					}
					if issuer != "" {
						token := (&gateway{gatehouse: &at}).user("u-max", "acme", "member", "public", "trusted", "orders.read", "mcp:use", "deploy")
						weak := &attack{gatehouse: &at, host: host, lines: []string{bearer(token)}}
						s, n := weak.run(t, paths)
						sent, passed = sent+s, passed+n
						weak.tellNothing(t, issuer, config, paths)
					}
					s, n := a.run(t, paths)
					sent, passed = sent+s, passed+n
					a.tellNothing(t, issuer, config, paths)
				}
			}
			t.Logf("%d requests for %q at %q, of which %d reached an upstream", sent, paths, hosts, passed)
			attacked += passed
		})
	}
	if attacked < 400 {
		t.Errorf("only %d requests reached an upstream: are the Caddyfiles still found?", attacked)
	}
}

// tellNothing sends forged identity headers and stray cookies to every path.
func (a *attack) tellNothing(t *testing.T, issuer string, config []byte, paths []string) {
	t.Helper()
	var forwarded []string
	for _, match := range regexp.MustCompile(`"header":"([^"]+)"`).FindAllStringSubmatch(string(config), -1) {
		forwarded = append(forwarded, match[1])
	}
	lines := strayLines(issuer, forwarded...)
	if issuer == "" { // applications may use the names of its cookies
		lines = lines[2:]
	}
	for _, target := range paths {
		for _, method := range []string{http.MethodGet, http.MethodPost, strings.Repeat("A", 33)} {
			if seen, _ := a.reach(method, target, append(lines, "Content-Length: 0")...); seen != nil && strings.Contains(seen.Raw, stray) {
				t.Errorf("%s: %s %s reached the upstream:\n%s", a.host, method, target, seen.Raw)
			}
		}
	}
}
