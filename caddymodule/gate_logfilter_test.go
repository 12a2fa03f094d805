package caddymodule

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/personaltoken"
)

// filteredSite is people behind another Caddy site that logs everything, credentials too: in the clear to plain.log, and
// behind the filter to two other files and to Caddy's own log.
func filteredSite(inner string) string {
	text := peopleSite("http://ADDR {\n\tlog\n\toauth_server", "http://:"+inner+" {\n\toauth_server")
	text = withFilteredLog(text)
	text = strings.Replace(text, "\tadmin ADMIN\n", "\tadmin ADMIN\n\tservers {\n\t\tlog_credentials\n\t}\n", 1)
	text = strings.Replace(text, "\thandle {\n\t\trespond 404", "\thandle /cookie/* {\n\t\tprotect {\n\t\t\ttoken_from cookie accessToken\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n\thandle /app/* {\n\t\treverse_proxy UPSTREAM\n\t}\n\thandle {\n\t\trespond 404", 1)
	return text + `
http://ADDR {
	log whole {
		output file DIR/whole.log
		format filter {
			request>headers oauth
			resp_headers oauth
			request>uri oauth
		}
	}
	log single {
		output file DIR/single.log
		format filter {
			wrap json
			fields {
				request>uri oauth
				request>headers oauth
				resp_headers>Location oauth
				resp_headers>Set-Cookie oauth
			}
		}
	}
	log plain {
		output file DIR/plain.log
	}
	reverse_proxy 127.0.0.1:` + inner + `
}
`
}

// withFilteredLog puts the filter into Caddy's own log, which has everything at level DEBUG.
func withFilteredLog(caddyfile string) string {
	return strings.Replace(caddyfile, "\t\toutput file LOG\n", "\t\toutput file LOG\n\t\tformat filter {\n\t\t\trequest oauth\n\t\t\theaders oauth\n\t\t\tresp_headers oauth\n\t\t\terror oauth\n\t\t}\n", 1)
}

// TestF31NoFilteredLogHoldsACredential walks through the code flow with access logs that may hold credentials, over every
// way on which one can be, and looks for each of them.
func TestF31NoFilteredLogHoldsACredential(t *testing.T) {
	_, inner, _ := net.SplitHostPort(freeAddr(t))
	g := startGatehouse(t, filteredSite(inner))
	logs := filepath.Dir(g.logFile)
	const opaque = "opaque-9bf31c7ff062936a96d3c8bd1f8f2ff3"
	g.upstream.answer = func(connection net.Conn, r *recorded) {
		query := r.Target[strings.IndexByte(r.Target+"?", '?'):]
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 302 Found\r\nLocation: https://app.example/%s#access_token=%s&state=kept\r\nSet-Cookie: app=%s; Path=/\r\nX-Auth-Token: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
			query, opaque, opaque, opaque)
	}
	b, conf := g.browser(), requestOf("conf")
	p := b.open(conf.path())
	const personal = personaltoken.Prefix + "5WFI0ZOHouggOMWVdBMHwURwcPslDY0AYymH"
	credentials := map[string]string{"opaque token": opaque, "personal access token": personal, "client secret": confSecret, "password": url.QueryEscape(peoplePassword), "verifier": conf.verifier}
	if location := p.header.Get("Location"); location != "" {
		p = b.open(location)
	}
	_, fields := formIn(t, p)
	credentials["sealed request"], credentials["form token"] = fields.Get("pending"), fields.Get("form_token")
	code := b.toClient(t, b.authorize(conf, "ada@acme.example"), conf).Get("code")
	got := g.obtain(conf.exchange(code))
	again := g.obtain(conf.refresh(got.RefreshToken))
	credentials["code"], credentials["access token"], credentials["refresh token"] = code, got.AccessToken, got.RefreshToken
	credentials["second access token"], credentials["second refresh token"] = again.AccessToken, again.RefreshToken
	for _, name := range []string{accessCookie, "gatehouse_session", "gatehouse_browser"} {
		if value := b.cookie(name); value != "" {
			credentials["cookie "+name] = value
		}
	}
	for name, value := range credentials {
		if len(value) < 20 {
			t.Fatalf("%s is %q", name, value)
		}
		escaped := url.QueryEscape(value)
		for _, parameter := range []string{"code", "%63ode", "id_token_hint"} {
			for _, target := range []string{
				"/app/cb?" + parameter + "=" + escaped + "&state=kept", "/app/cb?state=kept&" + parameter + "=" + escaped,
				"/app/cb?a=%zz;" + parameter + "=" + value, "/app/cb?to=" + url.QueryEscape("https://x.example/?"+parameter+"="+escaped),
			} {
				g.raw("GET " + target + " HTTP/1.1\nHost: " + g.addr + "\nReferer: https://x.example/cb?" + parameter + "=" + escaped + "#" + parameter + "=" + escaped +
					"\nCookie: any=" + escaped + "\nX-Original-Uri: " + target + "\nConnection: close\n\n")
			}
		}
	}
	for _, target := range []string{"/api/x", "/cookie/x", "/app/x", "/oauth/token/info", "/nothing"} {
		g.get(target, got.AccessToken)
		g.get(target+"?access_token="+got.AccessToken, "")
		g.get(target, opaque)
		g.get(target, got.AccessToken+"x")
		g.do("GET", target, "", "Authorization", "Bearer "+got.AccessToken, "Authorization", "Bearer "+opaque)
		g.do("GET", target, "", basic("conf:"+confSecret)...)
		g.do("GET", target, "", "Proxy-Authorization", "Bearer "+got.AccessToken, "Dpop", got.AccessToken)
		b.open(target)
	}
	g.do("GET", "/app/"+personal+"?key="+personal, "", "X-Api-Key", personal)
	texts := make(map[string]string)
	g.eventually("every access log has the same lines", func() bool { // a line may come after the answer
		counts := make(map[int]bool)
		for _, file := range []string{"plain.log", "whole.log", "single.log"} {
			texts[file] = readLog(t, filepath.Join(logs, file))
			counts[strings.Count(texts[file], "\n")] = true
		}
		return len(counts) == 1
	})
	texts[filepath.Base(g.logFile)] = g.logs()
	plain := texts["plain.log"]
	for _, name := range []string{"code", "access token", "refresh token", "opaque token", "personal access token", "sealed request", "form token", "cookie " + accessCookie} {
		if !strings.Contains(plain, credentials[name]) {
			t.Errorf("not even the plain log holds the %s: the test looks at nothing", name)
		}
	}
	credentials["credentials of the client"] = base64.StdEncoding.EncodeToString([]byte("conf:" + confSecret))
	for _, file := range []string{"whole.log", "single.log", filepath.Base(g.logFile)} {
		text := texts[file]
		for _, kept := range []string{`"/app/cb?code=REDACTED`, "state=kept", "Bearer REDACTED", "Basic REDACTED", "any=REDACTED"} {
			if !strings.Contains(text, kept) && file != filepath.Base(g.logFile) {
				t.Errorf("%s does not hold %s", file, kept)
			}
		}
		for name, credential := range credentials {
			for _, written := range []string{credential, url.QueryEscape(credential), url.QueryEscape(url.QueryEscape(credential)), strings.Join(strings.Split(credential, ".")[:max(1, strings.Count(credential, "."))], ".")} {
				if name == "opaque token" && file == "single.log" {
					written = "access_token=" + written // X-Auth-Token is not among its fields
				}
				if i := strings.Index(text, written); i >= 0 {
					t.Errorf("%s holds the %s: …%s…", file, name, text[max(0, i-300):min(len(text), i+20)])
					break
				}
			}
		}
	}
}

// accessCookie is the cookie of a browser's access token.
const accessCookie = "accessToken"

// TestFilterOfARouteUnderProtect: the gate's own route, with the filter as the documents show it.
func TestFilterOfARouteUnderProtect(t *testing.T) {
	text := strings.Replace(siteWith("\t\tlog_credentials", gated("")), "http://ADDR {\n\tlog\n", "http://ADDR {\n\tlog access {\n\t\toutput file DIR/access.log\n\t\tformat filter {\n\t\t\tfields {\n\t\t\t\trequest>uri oauth\n\t\t\t\trequest>headers oauth\n\t\t\t\tresp_headers>Location oauth\n\t\t\t}\n\t\t}\n\t}\n", 1)
	g := startGate(t, withFilteredLog(text))
	token := g.server("public")
	g.passed(t, g.request("GET", "/x?code=s3cret-code&page=1", bearer(token), "Cookie: a=s3cret-cookie", "Referer: /?id_token_hint=s3cret-hint&state=kept", "User-Agent: known"))
	g.refused(t, g.request("GET", "/x?page=2", bearer("s3cret-token")), http.StatusUnauthorized)
	var access string
	g.eventually("the access log has both requests", func() bool { // a line may come after the answer
		access = readLog(t, filepath.Join(filepath.Dir(g.logFile), "access.log"))
		return strings.Count(access, "\n") >= 2
	})
	if strings.Contains(access, "s3cret") || strings.Contains(access, token) {
		t.Errorf("a credential is in %s", access)
	}
	for _, kept := range []string{`"/x?code=REDACTED&page=1"`, `["Bearer REDACTED"]`, `["a=REDACTED"]`, `["/?id_token_hint=REDACTED&state=kept"]`, `["known"]`, `"/x?page=2"`, `"user_id":"conf"`, `"status":401`} {
		if !strings.Contains(strings.ReplaceAll(access, `\u0026`, "&"), kept) {
			t.Errorf("%s is not in %s", kept, access)
		}
	}
}

// TestFilterTakesNoOptions: what it does not know it does not take for granted.
func TestFilterTakesNoOptions(t *testing.T) {
	for _, filter := range []string{"oauth code", "oauth {\n\t\t\t\tkeep code\n\t\t\t}"} {
		_, err := adapt("http://a.example {\n\tlog {\n\t\tformat filter {\n\t\t\trequest>uri " + filter + "\n\t\t}\n\t}\n}\n")
		if err == nil || !strings.Contains(err.Error(), "Caddyfile:4") && !strings.Contains(err.Error(), "Caddyfile:5") {
			t.Errorf("%s: %v", filter, err)
		}
	}
}

func readLog(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	return string(text)
}
