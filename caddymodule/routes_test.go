package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
)

// shapes are sites with the expected findings: each handler that answers from a backend, as its paths and its
// verdict. UPSTREAM is the one upstream of all.
var shapes = []struct {
	name, body string
	want       []string
}{
	{"a whole site", "protect\nreverse_proxy UPSTREAM", []string{"* protected"}},
	{"blocks with a refusal at the end", "handle /api/* {\nprotect\nreverse_proxy UPSTREAM\n}\nhandle {\nrespond 404\n}", []string{"/api/* protected"}},
	{"no protect at all", "reverse_proxy UPSTREAM", []string{"* open"}},
	{"a path is protected and all is proxied", "protect /api/*\nreverse_proxy UPSTREAM", []string{"* conditional"}},
	{"protect with a star and all is proxied", "protect *\nreverse_proxy UPSTREAM", []string{"* protected"}},
	{"a request without a path", "protect /*\nreverse_proxy UPSTREAM", []string{"* conditional"}},
	{"the same path", "protect /api/*\nreverse_proxy /api/* UPSTREAM", []string{"/api/* protected"}},
	{"the same path in another case", "protect /API/*\nreverse_proxy /api/* UPSTREAM", []string{"/api/* protected"}},
	{"a narrower path is proxied", "protect /api/*\nreverse_proxy /api/v1/* UPSTREAM", []string{"/api/v1/* protected"}},
	{"one path of what is protected", "protect /api/*\nreverse_proxy /api/x UPSTREAM", []string{"/api/x protected"}},
	{"a wider path is proxied", "protect /api/v1/*\nreverse_proxy /api/* UPSTREAM", []string{"/api/* conditional"}},
	{"a path that begins alike", "protect /api/*\nreverse_proxy /api* UPSTREAM", []string{"/api* conditional"}},
	{"another path", "protect /api/*\nreverse_proxy /app/* UPSTREAM", []string{"/app/* open"}},
	{"two paths, one of them protected", "@both path /api/* /app/*\nprotect /api/*\nreverse_proxy @both UPSTREAM", []string{"/api/* /app/* conditional"}},
	{"two paths are protected", "@both path /api/* /app/*\nprotect @both\nreverse_proxy /app/* UPSTREAM", []string{"/app/* protected"}},
	{"a block beside the protected one", "handle /api/* {\nprotect\nreverse_proxy UPSTREAM\n}\nhandle {\nreverse_proxy UPSTREAM\n}",
		[]string{"/api/* protected", "* open"}},
	{"blocks exclude each other", "handle /api/* {\nprotect\n}\nhandle /a* {\nreverse_proxy UPSTREAM\n}", []string{"/a* open"}},
	{"a block that goes on", "handle /api/* {\nprotect\n}\nreverse_proxy UPSTREAM", []string{"* conditional"}},
	{"a second block that goes on", "handle /api/x {\nheader X y\n}\nhandle /api/* {\nprotect\n}\nreverse_proxy /api/* UPSTREAM",
		[]string{"/api/* conditional"}},
	{"above blocks", "protect\nhandle /api/* {\nreverse_proxy UPSTREAM\n}\nhandle {\nreverse_proxy UPSTREAM\n}",
		[]string{"/api/* protected", "* protected"}},
	{"handle_path", "handle_path /x/* {\nprotect\nreverse_proxy UPSTREAM\n}", []string{"/x/* protected"}},
	{"handle_path below a protected path", "protect /x/*\nhandle_path /x/* {\nreverse_proxy /y/* UPSTREAM\n}", []string{"/x/y/* protected"}},
	{"the path that handle_path has taken away", "handle_path /x/* {\nprotect /x/*\nreverse_proxy UPSTREAM\n}", []string{"/x/* conditional"}},
	{"handle_path and the same matcher", "handle_path /x/* {\nprotect /y/*\nreverse_proxy /y/* UPSTREAM\n}", []string{"/x/y/* protected"}},
	{"a rewrite in between", "route {\nprotect /api/*\nrewrite /b/* /api/x\nreverse_proxy /api/* UPSTREAM\n}", []string{"* conditional"}},
	{"a rewrite before", "rewrite /b/* /api/x\nprotect /api/*\nreverse_proxy /api/* UPSTREAM", []string{"* protected"}},
	{"too late", "route {\nreverse_proxy UPSTREAM\nprotect\n}", []string{"* open"}},
	{"too late for a part", "route {\nreverse_proxy /pub/* UPSTREAM\nprotect\nreverse_proxy UPSTREAM\n}", []string{"/pub/* open", "* protected"}},
	{"methods", "@write method POST PUT\nprotect @write\nreverse_proxy UPSTREAM", []string{"* conditional"}},
	{"the same methods", "@write method POST PUT\nprotect @write\nreverse_proxy @write UPSTREAM", []string{"* protected"}},
	{"fewer methods", "@write method POST PUT\n@put method PUT\nprotect @write\nreverse_proxy @put UPSTREAM", []string{"* protected"}},
	{"all but one path", "@rest not path /pub/*\nprotect @rest\nreverse_proxy UPSTREAM", []string{"* conditional"}},
	{"all but the path that is proxied", "@rest not path /pub/*\nprotect @rest\nreverse_proxy /pub/* UPSTREAM", []string{"/pub/* open"}},
	{"the same negation", "@rest not path /pub/*\nprotect @rest\nreverse_proxy @rest UPSTREAM", []string{"* protected"}},
	{"another negation", "@rest not path /pub/*\n@most not path /api/*\nprotect @rest\nreverse_proxy @most UPSTREAM", []string{"* conditional"}},
	{"the same regular expression", "@r path_regexp ^/api/\nprotect @r\nreverse_proxy @r UPSTREAM", []string{"* protected"}},
	{"the same header side by side, which Caddy makes one route of", "@h header X-Key s3cret-of-the-matcher\nprotect @h\nreverse_proxy @h UPSTREAM", []string{"* protected"}},
	{"the same header in two routes", "@h header X-Key s3cret-of-the-matcher\nprotect @h\nrespond /x/* 404\nreverse_proxy @h UPSTREAM", []string{"* conditional"}},
	{"the same header around both", "@h header X-Key s3cret-of-the-matcher\nhandle @h {\nprotect\nreverse_proxy UPSTREAM\n}", []string{"* protected"}},
	{"another value of the header", "@h header X-Key s3cret-of-the-matcher\n@i header X-Key *\nprotect @h\nreverse_proxy @i UPSTREAM", []string{"* conditional"}},
	{"an expression", "@e expression `path('/api/*')`\nprotect @e\nreverse_proxy /api/* UPSTREAM", []string{"/api/* conditional"}},
	{"optional", "protect {\noptional\n}\nreverse_proxy UPSTREAM", []string{"* conditional"}},
	{"anonymous", "protect {\nanonymous /pub/*\n}\nreverse_proxy UPSTREAM", []string{"* protected"}},
	{"one gate is optional, the other is not", "protect {\noptional\n}\nhandle {\nprotect\nreverse_proxy UPSTREAM\n}", []string{"* protected"}},
	{"inside a block of another path", "handle /a/* {\nprotect /b/*\nreverse_proxy UPSTREAM\n}", []string{"/a/* open"}},
	{"php", "protect\nphp_fastcgi UPSTREAM", []string{"* protected"}},
	{"a named route", "protect\ninvoke plain", []string{"* protected"}},
	{"a named route with its own gate", "invoke gated", []string{"* protected"}},
	{"a named route without", "invoke plain", []string{"* open"}},
	{"error routes", "handle /api/* {\nprotect\nreverse_proxy UPSTREAM\n}\nhandle_errors {\nreverse_proxy UPSTREAM\n}", []string{"/api/* protected", "* open"}},
	{"behind an answer", "respond 404\nreverse_proxy UPSTREAM", []string{"* unreached"}},
	{"behind an answer of a part", "respond /api/* 404\nprotect\nreverse_proxy UPSTREAM", []string{"* protected"}},
	{"somebody else asks", "protect /api/*\nforward_auth UPSTREAM {\nuri /ask\n}\nreverse_proxy /api/* UPSTREAM", []string{"* conditional", "/api/* protected"}},
	{"the answer is looked at", "protect /api/*\nreverse_proxy /api/* UPSTREAM {\n@bad status 5xx\nhandle_response @bad {\nreverse_proxy UPSTREAM\n}\n}",
		[]string{"/api/* protected", "/api/* protected"}},
	{"answers are replaced", "route {\nintercept {\n@bad status 401\nhandle_response @bad {\nreverse_proxy UPSTREAM\n}\n}\nprotect\nrespond 204\n}", []string{"* open"}},
	{"a part of the answers behind a rewrite", "route {\nprotect /api/*\nintercept {\n@any status 204\nhandle_response @any {\nreverse_proxy /api/* UPSTREAM\n}\n}\nrewrite * /api/x\nrespond 204\n}",
		[]string{"* conditional"}},
	{"a second gate that is optional", "@bare not header Authorization *\nroute {\nprotect @bare\nprotect {\noptional\nupstream_token strip\n}\nreverse_proxy @bare UPSTREAM\n}",
		[]string{"* conditional"}},
	{"files", "protect /api/*\nfile_server", []string{"* conditional"}},
}

// shapesSite returns a configuration with one site for each shape.
func shapesSite(port string) string {
	var text strings.Builder
	text.WriteString("{\nadmin ADMIN\nlog {\noutput file LOG\nlevel DEBUG\n}\noauth {\nissuer http://ADDR\nstore memory\n}\n}\n")
	text.WriteString("&(plain) {\nreverse_proxy UPSTREAM\n}\n&(gated) {\nroute {\nprotect\nreverse_proxy UPSTREAM\n}\n}\n")
	for i, shape := range shapes {
		fmt.Fprintf(&text, "http://s%d.example:%s {\nroot DIR\n%s\n}\n", i, port, shape.body)
	}
	return text.String()
}

// TestG83WhatProtectsWhat: sites of many shapes → the verdict of `caddy oauth routes` is true of requests.
func TestG83WhatProtectsWhat(t *testing.T) {
	g := startGatehouse(t, site)
	_, port, _ := strings.Cut(g.addr, ":")
	g.reload(shapesSite(port))
	found := make(map[string][]string)
	for _, r := range decoded[[]coverage.Route](t, g.ok("routes", "--json")) {
		paths := strings.Join(r.Paths, " ")
		if paths == "" {
			paths = "*"
		}
		found[r.Site] = append(found[r.Site], paths+" "+r.Verdict)
	}
	for i, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			got := found[fmt.Sprintf("http://s%d.example:%s", i, port)]
			if !slices.Equal(got, shape.want) {
				t.Errorf("got %q, want %q", got, shape.want)
			}
			reached := g.reachedWithoutToken(fmt.Sprintf("s%d.example", i))
			isOpen := slices.ContainsFunc(shape.want, func(w string) bool { return !strings.HasSuffix(w, "protected") && !strings.HasSuffix(w, "unreached") })
			switch {
			case !isOpen && reached != nil && shape.name != "anonymous":
				t.Errorf("without a token: %q", reached)
			case isOpen && reached == nil && !slices.Contains([]string{"php", "files", "an expression", "a second gate that is optional", "the same header in two routes"}, shape.name):
				t.Error("nothing gets through")
			}
		})
	}
	if text := g.ok("routes") + g.ok("routes", "--json"); strings.Contains(text, "s3cret") {
		t.Error("the value of a matcher is shown")
	}
}

// reachedWithoutToken tries requests without a token, and returns those that reached an upstream.
func (g *gatehouse) reachedWithoutToken(host string) (reached []string) {
	g.upstream.seen()
	for _, path := range []string{
		"/", "/api", "/api/", "/api/x", "/API/x", "/api/v1/x", "/apix", "/app/x", "/a/x", "/a/b/x", "/b/x", "/x/z", "/x/x/z", "/x/y/z", "/pub/x",
		"http://" + host,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			g.raw(method + " " + path + " HTTP/1.1\nHost: " + host + "\nX-Key: other\nContent-Length: 0\nConnection: close\n\n")
			if len(g.upstream.seen()) > 0 {
				reached = append(reached, method+" "+path)
			}
		}
	}
	return reached
}
