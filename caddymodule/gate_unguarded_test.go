package caddymodule

import (
	"fmt"
	"net"
	"strings"
	"testing"

	gatebrowser "github.com/gatehouse-auth/gatehouse/caddymodule/gate/browser"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
)

// stray is the mark of values that a client must not pass to an upstream.
const stray = "stray-of-a-client"

// strayLines returns header lines with every cookie of ours at an issuer and at hosts, and with identity headers in spellings that some
// servers treat as equal.
func strayLines(issuer string, names ...string) []string {
	cookies := []string{"theme=dark"}
	for _, name := range append(endpoint.CookieNames(issuer), gatebrowser.CookieNames()...) {
		cookies = append(cookies, name+"="+stray)
	}
	lines := []string{"Cookie: " + strings.Join(cookies, "; "), "Cookie: \t" + cookies[len(cookies)-1] + ";lang=en"}
	for _, name := range append([]string{"X-Auth-Subject", "X-Auth-Client", "X-Auth-Scope", "X-Auth-Organisation", "X-Auth-Role", "X-Auth-Groups", "X-Auth-Issuer"}, names...) {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", "."), strings.Replace(name, "-", "_", 1), strings.ReplaceAll(name, "-", "~")} {
			lines = append(lines, spelling+": "+stray)
		}
	}
	return lines
}

// unguardedSite is a server with a gate on one route, at PLACE.
var unguardedSite = `{
	admin ADMIN
	log {
		output file LOG
	}
	servers {
		EXPECTED
	}
	oauth {
		issuer http://ISSUER
		store memory
	}
}

&(plain) {
	reverse_proxy UPSTREAM
}

&(guarded) {
	protect {
		forward + X-Who sub
	}
	reverse_proxy UPSTREAM
}

http://ISSUER {
	oauth_server
}

http://ADDR, http://other.localhost:TCPPORT {
` +
	handled("handle /api/*", "PLACE") +
	handled("handle /broken", "error 500") + handled("handle /named", "invoke plain") + gated("/optional", "optional") +
	handled("handle /asked/*", "forward_auth UPSTREAM {\nuri /question\ncopy_headers X-Told\n}", "reverse_proxy UPSTREAM") +
	handled("handle /script", "reverse_proxy FASTCGI {\ntransport fastcgi\n}") +
	inOrder("/nested/*", "subroute", "handle_path /nested/* {\nrewrite /inner{uri}\nreverse_proxy UPSTREAM\n}") +
	handled("handle", "reverse_proxy UPSTREAM") + errorsProxied + "}\n"

// TestV4UnguardedRoutes: a request that reaches an upstream of a server with a gate, by any route, carries no identity of the client's and
// no cookie of ours, also in named routes and error routes.
func TestV4UnguardedRoutes(t *testing.T) {
	scripts, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = scripts.Close() })
	said := make(chan string, 100)
	go func() {
		for {
			connection, err := scripts.Accept()
			if err != nil {
				return
			}
			const end = "\x01\x05\x00\x01\x00\x00" // the record that ends FCGI_STDIN
			var text strings.Builder
			for buffer := make([]byte, 4<<10); !strings.Contains(text.String(), end); {
				n, err := connection.Read(buffer)
				text.Write(buffer[:n])
				if err != nil {
					break
				}
			}
			said <- text.String()
			_ = connection.Close()
		}
	}()
	for name, place := range map[string]string{"in a site": "protect {\nforward + X-Who sub\n}\nreverse_proxy UPSTREAM", "in a named route": "invoke guarded"} {
		t.Run(name, func(t *testing.T) {
			issuer := freeAddr(t)
			site := strings.NewReplacer("PLACE", place, "EXPECTED", "expected_underscore_headers X_*\nexpected_dot_headers X.*", "ISSUER", issuer, "FASTCGI", scripts.Addr().String(), "\t\t\tsubroute\n", "").Replace(unguardedSite)
			if name == "in a named route" {
				site = strings.Replace(site, "\thandle /optional {\n\t\tprotect {\n\t\t\toptional\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n", "", 1)
			}
			g := watchedGate(t, startGatehouse(t, site))
			lines := append(strayLines("http://"+issuer, "X-Who"), "Connection: close")
			requests := map[string]string{
				"a method that is too long": g.request(strings.Repeat("A", 33), "/x", lines...),
				"trailers":                  g.requestWith("0\r\nX-Auth-Subject: "+stray+"\r\nX-Who: "+stray+"\r\n\r\n", "POST", "/x", append(lines, "Transfer-Encoding: chunked", "Trailer: X-Auth-Subject")...),
				"another site":              strings.Replace(g.request("GET", "/x", lines...), "Host: "+g.addr, "Host: other.localhost", 1),
			}
			for _, path := range []string{"/x", "/api/x", "/broken", "/asked/x", "/named", "/optional", "/nested/x"} {
				requests[path] = g.request("GET", path, lines...)
			}
			for name, request := range requests {
				status, _, body := g.raw(request)
				seen := g.upstream.seen()
				if len(seen) == 0 {
					t.Errorf("%s: nothing reached the upstream: %d %s", name, status, body)
				}
				for _, r := range seen {
					if strings.Contains(r.Raw, stray) || strings.Contains(fmt.Sprint(r.Trailer), stray) {
						t.Errorf("%s reached the upstream:\n%s%v", name, r.Raw, r.Trailer)
					}
					if !strings.Contains(r.Raw, "Cookie: theme=dark") || !strings.Contains(r.Raw, "lang=en") {
						t.Errorf("%s: the upstream lacks cookies of its own:\n%s", name, r.Raw)
					}
				}
			}
			status, _, body := g.raw(g.request("GET", "/script", lines...))
			select {
			case text := <-said:
				if strings.Contains(text, stray) || !strings.Contains(text, "theme=dark") {
					t.Errorf("the script got %q", text)
				}
			default:
				t.Errorf("no script was asked: %d %s", status, body)
			}
		})
	}
}
