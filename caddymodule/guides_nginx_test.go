package caddymodule

import (
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestNginxInFront: nginx before the gate, with the guide's configuration → one sign-in, the path as it was sent, the upstream told who; a
// client's own forwarding headers count for nothing.
func TestNginxInFront(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/nginx.md")
	check(t, err)
	block := func(language string) string {
		found := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$").FindStringSubmatch(string(page))
		if found == nil {
			t.Fatalf("the guide has no block of %s", language)
		}
		return found[1]
	}
	proxy, gate := freeAddr(t), freeAddr(t)
	_, port, _ := net.SplitHostPort(gate)
	caddyfile := atLocalhost(proxy).Replace(strings.NewReplacer(
		"issuer https://auth.example.com", "issuer https://auth.example.com\n\t\tstore memory\n\t\tlimits {\n\t\t\tlogin off\n\t\t}\n\t\tuser ada {\n\t\t\temail ada@example.com\n\t\t\tpassword "+peopleHash()+"\n\t\t}",
		"127.0.0.1:3000", "UPSTREAM", ":9080", ":"+port,
	).Replace("{\n\tadmin ADMIN\n\tlog {\n\t\toutput file LOG\n\t\tlevel DEBUG\n\t}\n" + strings.TrimPrefix(block("caddyfile"), "{\n")))
	g := startGatehouse(t, caddyfile)
	runNginxAt(t, proxy, atLocalhost(proxy).Replace(strings.ReplaceAll(block("nginx"), "127.0.0.1:9080", gate)), nil)
	front := *g
	front.addr, front.url = proxy, "http://"+proxy
	h := &hostsGate{&front}
	v := h.visitor(t)
	deep := h.at("app", "/deep/link%20x?q=1&r=%C3%A4")
	v.arrives(t, deep, "ada@example.com")
	if seen := g.upstream.one(t); seen.Target != "/deep/link%20x?q=1&r=%C3%A4" || seen.Header.Get("X-Auth-Subject") != "ada" {
		t.Errorf("the upstream saw %s %v", seen.Target, seen.Header)
	}
	v.send(http.MethodGet, h.at("app", "/x/../y"), "", "X-Forwarded-Uri", "/open", "X-Auth-Subject", "ben").is(t, http.StatusBadRequest, "a path with dots")
	h.visitor(t).send(http.MethodGet, h.at("app", "/x"), "", "X-Auth-Subject", "ben").is(t, http.StatusUnauthorized, "without a session")
	g.upstream.none(t)
}
