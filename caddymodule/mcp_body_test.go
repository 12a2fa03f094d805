package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// half is a connection on which a test sends a request in parts.
type half struct {
	net.Conn
	*bufio.Reader
}

func (g *gateway) begin(t *testing.T, head string) *half {
	t.Helper()
	connection, err := net.Dial("tcp", g.addr)
	check(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	check(t, connection.SetDeadline(time.Now().Add(patience)))
	h := &half{connection, bufio.NewReader(connection)}
	h.send(t, head)
	return h
}

func (h *half) send(t *testing.T, text string) {
	t.Helper()
	_, err := io.WriteString(h.Conn, text)
	check(t, err)
}

// answer reads a response, which may be 100 Continue.
func (h *half) answer(t *testing.T) (int, string) {
	t.Helper()
	response, err := http.ReadResponse(h.Reader, nil)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// TestQ206BodiesThatTakeTheirTime: `tool` rules and a body after 100 Continue, in pieces, cut off or announced too large → the rules
// hold, a refusal does not ask for the body.
func TestQ206BodiesThatTakeTheirTime(t *testing.T) {
	g := startGate(t, mcpSite())
	use, write := g.mcpToken("/mcp", "mcp:use"), g.mcpToken("/mcp", "mcp:use", "mcp:write")
	expecting := func(token string, length int) string {
		return g.request("POST", "/mcp", bearer(token), "Content-Type: application/json", "Expect: 100-continue", fmt.Sprintf("Content-Length: %d", length))
	}
	for tool, want := range map[string]int{"read_file": http.StatusOK, "purge": http.StatusForbidden} {
		body := calling(tool)
		h := g.begin(t, expecting(write, len(body)))
		if status, _ := h.answer(t); status != http.StatusContinue {
			t.Fatalf("%s: %d before the body", tool, status)
		}
		h.send(t, body)
		if status, answer := h.answer(t); status != want {
			t.Errorf("%s: %d %s", tool, status, answer)
		}
		if seen := g.upstream.seen(); want == http.StatusOK && (len(seen) != 1 || seen[0].Body != body) || want != http.StatusOK && len(seen) != 0 {
			t.Errorf("%s: the upstream got %d requests", tool, len(seen))
		}
	}
	for name, test := range map[string]struct {
		head string
		want int
	}{
		"too large": {expecting(use, 256<<10+1), http.StatusRequestEntityTooLarge}, "without a token": {strings.Replace(expecting(use, 100), bearer(use), "X: y", 1), http.StatusUnauthorized},
	} {
		if status, body := g.begin(t, test.head).answer(t); status != test.want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}

	// While one client sends slowly, others are served, and no request is forwarded before its body is complete.
	body := calling("read_file")
	slow := g.begin(t, g.request("POST", "/mcp", bearer(use), "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))))
	for _, piece := range []string{body[:1], body[1:20]} {
		slow.send(t, piece)
		if status, _, answer := g.raw(g.rpc("/mcp", body, bearer(use), "Connection: close")); status != http.StatusOK {
			t.Errorf("beside it: %d %s", status, answer)
		}
		g.upstream.one(t)
	}
	slow.send(t, body[20:])
	if status, answer := slow.answer(t); status != http.StatusOK || g.upstream.one(t).Body != body {
		t.Errorf("the slow one: %d %s", status, answer)
	}

	// A request whose client disconnects midway, or sends less than announced, does not reach the upstream.
	for name, head := range map[string]string{
		"less than announced": g.request("POST", "/mcp", bearer(use), "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)+1)) + body,
		"the last chunk missing": g.request("POST", "/mcp", bearer(use), "Content-Type: application/json", "Transfer-Encoding: chunked") +
			fmt.Sprintf("%x\r\n%s\r\n", len(body), body),
	} {
		h := g.begin(t, head)
		check(t, h.Conn.(*net.TCPConn).CloseWrite())
		if status, answer := h.answer(t); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		g.upstream.none(t)
	}
}
