package gate

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/mcp"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// BenchmarkCall measures the gate's own share of a tool call: at a gate that reads no body, at an MCP server, and at
// one with rules for tools.
func BenchmarkCall(b *testing.B) {
	rules := &mcp.Config{Tools: []*mcp.Tool{{Patterns: []string{"delete_*", "drop_*"}, Deny: true}, {Patterns: []string{"read_*"}, Scopes: []string{"public"}}}}
	if err := rules.Provision(caddy.Context{}); err != nil {
		b.Fatal(err)
	}
	body := func(text int) string {
		return `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/srv/notes.md","note":"` + strings.Repeat("x", text) + `"}}}`
	}
	headers := http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"read_file"}}
	for _, test := range []struct {
		name    string
		config  *mcp.Config
		body    string
		headers http.Header
	}{
		{"protect", nil, body(0), nil}, {"mcp", new(mcp.Config), body(0), nil}, {"rules, with headers", rules, body(0), headers},
		{"protect, 4 KiB", nil, body(4000), nil}, {"rules, 4 KiB", rules, body(4000), nil},
	} {
		b.Run(test.name, func(b *testing.B) {
			p := benchmarkedGate(&token.AccessToken{Subject: "u-ada", ClientID: "agent", Scopes: []string{"public"}, ExpiresAt: time.Now().Add(time.Hour)})
			p.credentials.upstreamToken, p.rules.mcp = relayToken, test.config
			p.cors.mcp, p.cors.reads = test.config != nil, test.config.Reads()
			p.shared.NoteRoutes()
			next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				_, err := io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusOK)
				return err
			})
			w, template := &discard{make(http.Header)}, ordinaryRequest()
			template.Method, template.ContentLength = http.MethodPost, int64(len(test.body))
			template.Header.Set("Content-Type", "application/json")
			template.Header.Set("Content-Length", strconv.Itoa(len(test.body)))
			for name, values := range test.headers {
				template.Header[name] = values
			}
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				r := template.WithContext(ctx)
				r.Body = io.NopCloser(strings.NewReader(test.body))
				if err := p.ServeHTTP(w, r, next); err != nil || r.Header == nil {
					b.Fatal(err)
				}
				cancel()
			}
		})
	}
}
