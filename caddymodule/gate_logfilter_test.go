package caddymodule

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
)

// filteredSite is people behind another Caddy site that logs everything including credentials: unfiltered to plain.log, and filtered to two
// other files and to Caddy's own log.
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

// withFilteredLog puts the filter into Caddy's own log, at level DEBUG.
func withFilteredLog(caddyfile string) string {
	return strings.Replace(caddyfile, "\t\toutput file LOG\n", "\t\toutput file LOG\n\t\tformat filter {\n\t\t\trequest oauth\n\t\t\theaders oauth\n\t\t\tresp_headers oauth\n\t\t\terror oauth\n\t\t}\n", 1)
}

// TestF31NoFilteredLogHoldsACredential runs the code flow with access logs that include credentials. It sends a credential in every way
// that exists and searches the logs for each.
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
	const personal = people.TokenPrefix + "5WFI0ZOHouggOMWVdBMHwURwcPslDY0AYymH"
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
	g.eventually("every access log has the same lines", func() bool { // a line may be written after the answer
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
					written = "access_token=" + written // X-Auth-Token is not one of its fields
				}
				if i := strings.Index(text, written); i >= 0 {
					t.Errorf("%s holds the %s: …%s…", file, name, text[max(0, i-300):min(len(text), i+20)])
					break
				}
			}
		}
	}
}

// accessCookie is the cookie with a browser's access token.
const accessCookie = "accessToken"

// TestFilterTakesNoOptions checks that any option is an error.
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
