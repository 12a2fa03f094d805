package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

var forwardToRoutes = "\theader X-Auth-Role \"{header.X-Auth-Role}of the site\"\n" +
	gated("/echo/*", "anonymous /echo/pub/*", "optional", "forward_to response") +
	handled("handle /ask/*", "protect orders.read {\nforward_to response\nupstream_token strip\n}", "respond 204") +
	handled("handle /empty/*", protect("forward_to response")) +
	handled("handle /own/*", protect("forward X-User sub", "forward X-Tenant org", "forward_to response"), "respond 204") +
	gated("/off/*", "forward off", "forward_to response") + gatedDown("/down/*", "forward_to response") +
	handled("handle /packed/*", "encode", protect("forward_to response"), `respond "packed"`) +
	gated("/request/*", "forward_to request")

// impostor is an upstream whose answer names a caller in headers and trailers, in every spelling.
func impostor(connection net.Conn, r *recorded) {
	lines := "X-Auth-Subject: admin\r\nx-auth-subject: admin\r\nX_Auth_Subject: admin\r\nX-Auth_Subject: admin\r\nx.auth.subject: admin\r\n" +
		"X-Auth-Role: admin\r\nX-AUTH-SCOPE: admin\r\nX-User: admin\r\nX-Other: kept\r\n"
	early := "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n" + lines + "\r\n"
	if r.Header.Get("Upgrade") != "" {
		_, _ = io.WriteString(connection, early+"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+lines+"\r\n")
		_, _ = io.Copy(connection, connection)
		return
	}
	announced := ""
	if strings.HasSuffix(r.Target, "announced") {
		announced = "Trailer: X-Auth-Subject, X-Auth-Client, X-Sum\r\n"
	}
	_, _ = io.WriteString(connection, early+"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"+announced+lines+
		"\r\n2\r\nok\r\n0\r\nX-Auth-Subject: admin\r\nX-Auth-Client: admin\r\nx_auth_client: admin\r\nX-Sum: kept\r\n\r\n")
}

// told returns the lines of an answer that name a caller in any spelling, including 1xx heads and trailers.
func told(answer string) []string {
	identity := identity.NewNames("X-Auth-Subject", "X-Auth-Client", "X-Auth-Scope", "X-Auth-Organisation", "X-Auth-Role", "X-User", "X-Tenant")
	var lines []string
	for line := range strings.SplitSeq(answer, "\r\n") {
		if name, _, ok := strings.Cut(line, ":"); ok && identity.Has(name) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// answers returns all bytes received on a connection until it ends.
func (g *gateway) answers(t *testing.T, request string) string {
	t.Helper()
	connection, err := net.Dial("tcp", g.addr)
	check(t, err)
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(connection, request)
	text, err := io.ReadAll(connection)
	if err != nil {
		t.Fatalf("%v after %q", err, text)
	}
	return string(text)
}

func TestForwardToTheResponse(t *testing.T) {
	g := startGate(t, siteWith("protocols h1 h2c", forwardToRoutes))
	g.upstream.answer = impostor
	token := g.user("u-ada", "acme", "admin", "public", "orders.read")
	ada := []string{"X-Auth-Client: conf", "X-Auth-Organisation: acme", "X-Auth-Role: admin", "X-Auth-Scope: public orders.read", "X-Auth-Subject: u-ada"}
	for name, test := range map[string]struct {
		target, line string
		status       int
		want         []string
	}{
		"what an upstream says":           {"/echo/x", bearer(token), 200, ada},
		"what it announces as trailers":   {"/echo/announced", bearer(token), 200, ada},
		"nobody, anonymous":               {"/echo/pub/x", bearer(token), 200, nil},
		"nobody, anonymous and announced": {"/echo/pub/announced", "", 200, nil},
		"nobody, optional":                {"/echo/x", "", 200, nil},
		"without an upstream":             {"/ask/x", bearer(token), 204, ada},
		"without an answer":               {"/empty/x", bearer(token), 200, ada},
		"compressed":                      {"/packed/x", bearer(token), 200, ada},
		"own headers":                     {"/own/x", bearer(token), 204, []string{"X-Tenant: acme", "X-User: u-ada"}},
		"none at all":                     {"/off/x", bearer(token), 200, nil},
		"no token":                        {"/ask/x", "", 401, nil},
		"a bad token":                     {"/ask/x", bearer("bad"), 401, nil},
		"a scope is missing":              {"/ask/x", bearer(g.server("public")), 403, nil},
		"a path in two readings":          {"/ask/x;y", bearer(token), 400, nil},
		"an upstream that is down":        {"/down/x", bearer(token), 502, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lines := []string{"Connection: close", "Accept-Encoding: gzip", "X-Auth-Role: admin"}
			if test.line != "" {
				lines = append(lines, test.line)
			}
			answer := g.answers(t, g.request("GET", test.target, lines...))
			if !strings.Contains(answer, fmt.Sprintf("HTTP/1.1 %d ", test.status)) {
				t.Fatalf("no %d: %s", test.status, answer)
			}
			if got := slices.Compact(told(answer)); !slices.Equal(got, test.want) {
				t.Errorf("told %q, want %q, in\n%s", got, test.want, answer)
			}
			if strings.Contains(answer, token) || strings.Contains(answer, "Authorization:") {
				t.Errorf("the token is in the answer:\n%s", answer)
			}
			if strings.HasPrefix(test.target, "/echo/") && (!strings.Contains(answer, "X-Other: kept") || !strings.Contains(answer, "X-Sum: kept")) {
				t.Errorf("other headers are lost:\n%s", answer)
			}
		})
	}
	t.Run("the upstream is told as well", func(t *testing.T) {
		g.upstream.seen()
		g.answers(t, g.request("GET", "/echo/x", "Connection: close", bearer(token)))
		g.upstream.one(t).has(t, "X-Auth-Subject", "u-ada")
	})
	for path, want := range map[string][]string{"/ask/x": {"conf"}, "/echo/announced": {"conf"}, "/echo/pub/announced": nil} {
		_, header, _ := g.h2(t, g.fields("GET", path, "authorization", "Bearer "+g.server("public", "orders.read")))
		if got := slices.Compact(header.Values("X-Auth-Subject")); !slices.Equal(got, want) || header.Get("X_auth_client") != "" || header.Get("X-Auth-Role") != "" {
			t.Errorf("%s over HTTP/2: %v, want %q", path, header, want)
		}
	}
	t.Run("without the option", func(t *testing.T) {
		answer := g.answers(t, g.request("GET", "/request/x", "Connection: close", bearer(token)))
		if !strings.Contains(answer, "X-Auth-Subject: admin") || strings.Contains(answer, "u-ada") {
			t.Errorf("the answer is not the upstream's:\n%s", answer)
		}
	})
	t.Run("an upgrade", func(t *testing.T) {
		w := g.dial(t, g.request("GET", "/echo/x", bearer(token), "Connection: Upgrade", "Upgrade: websocket"))
		for w.status == http.StatusEarlyHints {
			head, err := readHead(w.reader)
			check(t, err)
			if len(told(head)) > 0 && !strings.Contains(head, " 101 ") {
				t.Errorf("early: %s", head)
			}
			_, _ = fmt.Sscanf(head, "HTTP/1.1 %d", &w.status)
			if got := told(head); w.status == http.StatusSwitchingProtocols && !slices.Equal(got, ada) {
				t.Errorf("told %q, want %q", got, ada)
			}
		}
		w.echoes(t)
	})
}

// TestForwardToTheResponseOfErrorRoutes checks that a refusal names no caller, also in error routes.
func TestForwardToTheResponseOfErrorRoutes(t *testing.T) {
	g := startGate(t, siteWith("", strings.Replace(forwardToRoutes, "X-Auth-Role", "X-Else", 1)+errorsProxied))
	g.upstream.answer = impostor
	for _, target := range []string{"/ask/x", "/ask/x?access_token=a", "/echo/pub;x"} {
		answer := g.answers(t, g.request("GET", target, "Connection: close", bearer("bad")))
		if got := told(answer); !strings.Contains(answer, "X-Other: kept") || got != nil {
			t.Errorf("%s: told %q in\n%s", target, got, answer)
		}
	}
}
