package caddymodule

// Traefik and Envoy are not run: the requests are those that their documentation describes.

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
)

// TestTraefikAsksTheGate: Traefik's ForwardAuth asks one address by GET, with the client's headers, and tells of the request
// in headers that decide nothing.
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
		if len(found) != 2 || found[0][1] != found[1][1] {
			t.Fatalf("not two equal expressions: %q", found)
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

// TestEnvoyAsksTheGate: Envoy's ext_authz asks with the method and the path of the request and without a body, and takes 200
// alone for a yes.
func TestEnvoyAsksTheGate(t *testing.T) {
	for _, prefix := range []string{"", "/gate"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			addr := freeAddr(t)
			caddyfile := strings.ReplaceAll(documentedGate(t, 0, addr), "respond 204", "respond 200")
			caddyfile = strings.NewReplacer("handle /", "handle "+prefix+"/", "anonymous /", "anonymous "+prefix+"/").Replace(caddyfile)
			g := startGate(t, caddyfile)
			asked := g.front(addr)
			reads, writes := g.server("orders.read"), g.server("orders.read", "orders.write")
			revoked := g.server("orders.read")
			g.revokeOverTheWire(revoked)
			for name, test := range map[string]struct {
				method, path, token string
				want                int
			}{
				"no token":           {"GET", "/orders/1", "", 401},
				"a good token":       {"GET", "/orders/1", reads, 200},
				"revoked":            {"GET", "/orders/1", revoked, 401},
				"a scope is missing": {"DELETE", "/orders/1", reads, 403},
				"a method's scope":   {"DELETE", "/orders/1", writes, 200},
				"a path trick":       {"GET", "/status/../orders/1", reads, 400},
				"an encoded slash":   {"GET", "/orders%2f1", "", 401},
				"no token needed":    {"GET", "/status", "", 200},
				"an unknown path":    {"GET", "/other", writes, 403},
			} {
				lines := []string{"Content-Length: 0", "X-Auth-Subject: admin"}
				if test.token != "" {
					lines = append(lines, bearer(test.token))
				}
				status, header, body := asked.raw(asked.request(test.method, prefix+test.path, lines...))
				if status != test.want {
					t.Errorf("%s: %d %s, want %d", name, status, body, test.want)
				}
				holdTold(t, header, status == 200 && test.token != "")
			}
		})
	}
}

// holdTold holds an answer of the gate to who it says is calling.
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
