package caddymodule

// These tests do not run Traefik and Envoy. They send the requests that the documentation of the two describes.

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

// TestTraefikAsksTheGate: behind Traefik as documented, names that choose another method or path (G146) → none reaches the upstream.
func TestTraefikAsksTheGate(t *testing.T) {
	addr := freeAddr(t)
	g := startGate(t, documentedGate(t, 1, addr))
	asked := g.front(addr)
	reads, writes := bearer(g.server("orders.read")), bearer(g.server("orders.read", "orders.write"))
	for name, test := range map[string]struct {
		address, method, uri, token string
		want                        int
	}{
		"no token":                   {"/orders-read", "GET", "/orders/1", "X-None: 1", 401},
		"a good token":               {"/orders-read", "GET", "/orders/1", reads, 204},
		"a scope is missing":         {"/orders-write", "POST", "/orders/1", reads, 403},
		"all scopes":                 {"/orders-write", "POST", "/orders/1", writes, 204},
		"another method is no input": {"/orders-write", "GET", "/orders-read", reads, 403},
		"another path is no input":   {"/other", "GET", "/orders-read", writes, 403},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, body := asked.raw(asked.request("GET", test.address, "X-Forwarded-Method: "+test.method, "X-Forwarded-Proto: https",
				"X-Forwarded-Host: api.example.com", "X-Forwarded-Uri: "+test.uri, "X-Forwarded-For: 203.0.113.7", "X-Auth-Subject: admin", "X_Auth_Subject: admin", test.token))
			if status != test.want {
				t.Fatalf("%d %s, want %d", status, body, test.want)
			}
			holdTold(t, header, test.want == 204)
			if test.want == 401 && header.Get("Www-Authenticate") == "" {
				t.Error("no challenge")
			}
		})
	}
	t.Run("G146 headers that Traefik takes away", func(t *testing.T) {
		found := regexp.MustCompile(`authResponseHeadersRegex: "(.*)"`).FindAllStringSubmatch(strings.Join(documented(t, "yaml"), ""), -1)
		if len(found) < 3 || slices.ContainsFunc(found, func(one []string) bool { return one[1] != found[0][1] }) {
			t.Fatalf("not three equal expressions: %q", found)
		}
		pattern := regexp.MustCompile(found[0][1])
		told := []string{identity.Subject, identity.Client, identity.Scope, identity.Organisation, identity.Role, identity.Groups, identity.Issuer}
		for _, name := range slices.Concat(told, identity.Overriding) {
			for _, spelling := range []string{
				name, strings.ToLower(name), strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", "."), strings.Replace(name, "-", "_", 1),
				strings.ToUpper(strings.Replace(name, "-", ".", 1)),
			} {
				if !pattern.MatchString(spelling) {
					t.Errorf("%s is left to the client", spelling)
				}
			}
			if pattern.MatchString(name+"-Else") || pattern.MatchString("Else-"+name) {
				t.Errorf("others than %s are taken away", name)
			}
		}
		if pattern.MatchString("Authorization") || pattern.MatchString("X-Forwarded-For") {
			t.Error("it takes too much")
		}
	})
}

// holdTold checks which caller the gate's answer names.
func holdTold(t *testing.T, header http.Header, known bool) {
	t.Helper()
	var want []string
	if known {
		want = []string{"conf"}
	}
	if got := header.Values("X-Auth-Subject"); !slices.Equal(got, want) {
		t.Errorf("X-Auth-Subject: %q, want %q", got, want)
	}
	if header.Get("Authorization") != "" {
		t.Error("the answer has the token")
	}
}

// proxyAsks serves the document's applications behind a proxy with another way of asking. The proxy forwards the
// issuer and the four paths of the sign-in, and every other request when the gate accepts it. ask returns the gate's
// request for a client's request.
func proxyAsks(t *testing.T, proxy, gate, issuer string, ask func(r *http.Request) *http.Request) {
	t.Helper()
	handOn := func(addr string) http.Handler {
		return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			r.Out.URL.Scheme, r.Out.URL.Host = "http", addr
		}}
	}
	client := &http.Client{CheckRedirect: stays, Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	listener, err := net.Listen("tcp", proxy)
	check(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.Host, "auth."):
			handOn(issuer).ServeHTTP(w, r)
			return
		case slices.Contains([]string{"/oauth/callback", "/oauth/sign_in", "/oauth/sign_out", "/oauth/session"}, r.URL.Path):
			handOn(gate).ServeHTTP(w, r)
			return
		}
		answer, err := client.Do(ask(r))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusNoContent {
			w.Header().Set("X-Passed", r.Method+" "+answer.Header.Get("X-Auth-Subject"))
			return
		}
		for name, lines := range answer.Header {
			w.Header()[name] = lines
		}
		if answer.Request.Method == http.MethodHead { // its response has no body
			w.Header().Del("Content-Length")
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// traefik sends a GET request to one address per application, with the client's headers except the hop-by-hop ones,
// and describes the original request in headers.
type traefik struct {
	gate   string
	method string // of the request to the gate
	tell   func(h http.Header, r *http.Request)
}

func (p *traefik) ask(r *http.Request) *http.Request {
	name, _, _ := strings.Cut(r.Host, ".")
	question, _ := http.NewRequestWithContext(r.Context(), p.method, "http://"+p.gate+"/"+name, nil)
	question.Header = r.Header.Clone()
	for _, name := range []string{"Connection", "Upgrade", "Content-Length", "X-Forwarded-Method", "X-Forwarded-Uri"} {
		question.Header.Del(name)
	}
	question.Header.Set("X-Forwarded-Proto", "http")
	question.Header.Set("X-Forwarded-Host", r.Host)
	p.tell(question.Header, r)
	return question
}

// tellAll sets the headers that Traefik sends.
func tellAll(h http.Header, r *http.Request) {
	h.Set("X-Forwarded-Method", r.Method)
	h.Set("X-Forwarded-Uri", r.RequestURI)
}

// startTraefik runs the document's applications behind a proxy that asks as Traefik does. changes are replacements in
// the Caddyfile.
func startTraefik(t *testing.T, changes ...string) (*hostsGate, *traefik) {
	t.Helper()
	proxy, gate := freeAddr(t), freeAddr(t)
	g := startGatehouse(t, strings.NewReplacer(changes...).Replace(documentedApplications(t, 3, proxy, gate)))
	p := &traefik{gate, http.MethodGet, tellAll}
	proxyAsks(t, proxy, gate, g.addr, p.ask)
	front := *g
	front.addr = proxy
	return &hostsGate{&front}, p
}

// TestTraefikS107SignsBrowsersIn: Traefik's way of asking → signs in and returns; another path, host or origin told by an untrusted proxy
// → neither another rule nor another host.
func TestTraefikS107SignsBrowsersIn(t *testing.T) {
	g, p := startTraefik(t)
	v := g.visitor(t)
	deep := g.at("app", "/deep/link%20x?q=1&r=%C3%A4")
	if a, at := v.walk(deep, "ben@example.com"); a.status != http.StatusOK || at != deep || a.header.Get("X-Passed") != "GET ben" {
		t.Fatalf("%d at %s: %v %s", a.status, at, a.header, a.body)
	}
	if a, at := v.walk(g.at("wiki", "/pages/1"), ""); a.status != http.StatusForbidden || at != g.at("wiki", "/pages/1") || !strings.Contains(a.body, "ben@example.com") {
		t.Errorf("a rule refuses: %d at %s: %s", a.status, at, a.body)
	}
	same, sibling := []string{"Sec-Fetch-Site", "same-origin", "Origin", g.origin("app")}, []string{"Sec-Fetch-Site", "same-site", "Origin", g.origin("wiki")}
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Key", "x"}
	for name, c := range map[string]struct {
		method  string
		headers []string
		want    int
	}{
		"POST of a page":      {http.MethodPost, same, 200},
		"POST of a sibling":   {http.MethodPost, sibling, 403},
		"DELETE of nobody":    {http.MethodDelete, nil, 403},
		"WebSocket":           {http.MethodGet, append(upgrade, same...), 200},
		"WebSocket elsewhere": {http.MethodGet, append(upgrade, sibling...), 403},
		"fetch elsewhere":     {http.MethodGet, sibling, 200}, // the sibling cannot read the response
	} {
		v.send(c.method, g.at("app", "/x"), "", c.headers...).is(t, c.want, name)
	}
	stranger := g.visitor(t)
	stranger.send(http.MethodGet, g.at("app", "/x"), "", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin").leads(t, http.StatusUnauthorized, "", "a fetch")
	form := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "same-origin", "Content-Type", urlEncoded}
	if a := stranger.send(http.MethodPost, g.at("app", "/x"), "a=b", form...); a.status != http.StatusUnauthorized || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("a form: %d %v", a.status, a.header)
	}
	// The browser's method counts, whether the proxy asks by GET or by HEAD. A missing method is not safe.
	p.method = http.MethodHead
	v.send(http.MethodPost, g.at("app", "/x"), "", sibling...).is(t, http.StatusForbidden, "asked by HEAD about a POST of a sibling")
	v.send(http.MethodPost, g.at("app", "/x"), "", same...).is(t, http.StatusOK, "asked by HEAD about a POST of a page")
	p.tell = func(h http.Header, r *http.Request) { h.Set("X-Forwarded-Uri", r.RequestURI) }
	v.send(http.MethodPost, g.at("app", "/x"), "", sibling...).is(t, http.StatusForbidden, "asked by HEAD, and the method is not told")
	p.method = http.MethodGet
	// The forwarded headers decide nothing else.
	p.tell = func(h http.Header, _ *http.Request) {
		h.Set("X-Forwarded-Method", "GET")
		h.Set("X-Forwarded-Uri", "/app")
	}
	v.navigate(g.at("wiki", "/pages/1")).is(t, http.StatusForbidden, "the path of another application is told")
}

// TestTraefikS107WhatIsToldIsBelievedOfTrustedProxiesAlone checks that the headers count from trusted proxies alone,
// and never redirect elsewhere.
func TestTraefikS107WhatIsToldIsBelievedOfTrustedProxiesAlone(t *testing.T) {
	t.Run("an untrusted proxy", func(t *testing.T) {
		g, _ := startTraefik(t, "127.0.0.1/32", "192.0.2.1/32")
		g.visitor(t).navigate(g.at("app", "/x")).leads(t, http.StatusUnauthorized, "")
	})
	t.Run("nothing goes on", func(t *testing.T) {
		g, _ := startTraefik(t, "resource http://app.localhost", "resource http://app.localhost", "respond 204", "reverse_proxy UPSTREAM")
		v := g.visitor(t)
		v.walk(g.at("app", "/x"), "ada@example.com")
		g.upstream.one(t).has(t, "X-Forwarded-Uri").has(t, "X-Forwarded-Method")
	})
	g, p := startTraefik(t)
	for name, tell := range map[string]func(h http.Header){
		"another origin":   func(h http.Header) { h.Set("X-Forwarded-Uri", "https://evil.example/x") },
		"a backslash":      func(h http.Header) { h.Set("X-Forwarded-Uri", `/\evil.example/x`) },
		"two":              func(h http.Header) { h["X-Forwarded-Uri"] = []string{"/a", "https://evil.example/"} },
		"a host of others": func(h http.Header) { h.Set("X-Forwarded-Host", "evil.example") },
	} {
		t.Run(name, func(t *testing.T) {
			p.tell = func(h http.Header, r *http.Request) {
				tellAll(h, r)
				if r.URL.Path == "/first" {
					tell(h)
				}
			}
			a, at := g.visitor(t).walk(g.at("app", "/first"), "ada@example.com")
			if a.status != http.StatusOK || !strings.HasPrefix(at, g.origin("app")+"/") {
				t.Errorf("%d at %s", a.status, at)
			}
		})
	}
	t.Run("no method", func(t *testing.T) {
		p.tell = func(h http.Header, r *http.Request) { h.Set("X-Forwarded-Uri", r.RequestURI) }
		g.visitor(t).navigate(g.at("app", "/x")).is(t, http.StatusUnauthorized)
	})
}

// TestEnvoyS108SignsBrowsersIn: Envoy's way of asking: a navigation → signs in; a POST of its own page → passes; of a sibling or with
// another method in a header → 403.
func TestEnvoyS108SignsBrowsersIn(t *testing.T) {
	allowed := regexp.MustCompile(`(?s)allowed_headers:\n  patterns:\n(.*?)\n$`).FindStringSubmatch(strings.Join(slices.DeleteFunc(documented(t, "yaml"),
		func(block string) bool { return !strings.HasPrefix(block, "allowed_headers:") }), ""))
	if allowed == nil {
		t.Fatal("no allowed_headers")
	}
	passes := func(name string) bool {
		return regexp.MustCompile(`exact: `+name+`(\n|$)`).MatchString(allowed[1]) || strings.HasPrefix(name, "sec-fetch-") && strings.Contains(allowed[1], "prefix: sec-fetch-")
	}
	proxy, gate := freeAddr(t), freeAddr(t)
	caddyfile := strings.NewReplacer("respond 204", "respond 200", "@refused header X-Refused *", "", "respond @refused 503", "").Replace(documentedApplications(t, 2, proxy, gate))
	house := startGatehouse(t, caddyfile)
	proxyAsks(t, proxy, gate, house.addr, func(r *http.Request) *http.Request {
		question, _ := http.NewRequestWithContext(r.Context(), r.Method, "http://"+gate+r.RequestURI, nil)
		question.Host = strings.Split(r.Host, ":")[0] + ":" + strings.Split(proxy, ":")[1]
		for name, lines := range r.Header {
			if passes(strings.ToLower(name)) {
				question.Header[name] = lines
			}
		}
		return question
	})
	front := *house
	front.addr = proxy
	g := &hostsGate{&front}
	v := g.visitor(t)
	deep := g.at("app", "/deep/link%20x?q=1&r=%C3%A4")
	if a, at := v.walk(deep, "ben@example.com"); a.status != http.StatusOK || at != deep || a.header.Get("X-Passed") != "GET ben" {
		t.Fatalf("%d at %s: %v %s", a.status, at, a.header, a.body)
	}
	if a, _ := v.walk(g.at("wiki", "/pages/1"), ""); a.status != http.StatusForbidden || !strings.Contains(a.body, "ben@example.com") {
		t.Errorf("a rule refuses: %d %s", a.status, a.body)
	}
	for name, c := range map[string]struct {
		method  string
		headers []string
		want    int
	}{
		"POST of a page":    {http.MethodPost, []string{"Sec-Fetch-Site", "same-origin", "Origin", g.origin("app")}, 200},
		"POST of a sibling": {http.MethodPost, []string{"Sec-Fetch-Site", "same-site", "Origin", g.origin("wiki")}, 403},
		"another method":    {http.MethodPost, []string{"X-Forwarded-Method", "GET"}, 403},
	} {
		v.send(c.method, g.at("app", "/x"), "", c.headers...).is(t, c.want, name)
	}
	g.visitor(t).send(http.MethodGet, g.at("app", "/x"), "").is(t, http.StatusUnauthorized, "a program")
}
