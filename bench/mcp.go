package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// mcp compares tool calls at an MCP server, with and without rules for tools, with the same requests behind a
// `protect` that accepts the same tokens and does not read bodies.
func (b *bench) mcp() {
	s := b.ours(setup{})
	tokens := b.obtainFor(s, "http://"+s.MCP, min(1000, b.tokens))
	small, large := toolCall(0), toolCall(4<<10-len(toolCall(0)))
	base := side{name: "protect, 150 bytes", on: s, load: calls(s.Posted, tokens, small, false)}
	plain := side{name: "mcp, 150 bytes", against: base.name, on: s, load: calls(s.MCP, tokens, small, false)}
	header := side{name: "rules for tools, with headers, 150 bytes", against: base.name, on: s, load: calls(s.Tools, tokens, small, true)}
	headerBase := side{name: "protect, with headers, 150 bytes", on: s, load: calls(s.Posted, tokens, small, true)}
	header.against = headerBase.name
	bodyBase := side{name: "protect, 4 KiB", on: s, load: calls(s.Posted, tokens, large, false)}
	body := side{name: "rules for tools, 4 KiB", against: bodyBase.name, on: s, load: calls(s.Tools, tokens, large, false)}
	outs := b.compare(base, plain, base.again(), headerBase, header, bodyBase, body)
	for _, goal := range []struct {
		name          string
		most          float64
		side, against side
	}{
		{"mcp without rules for tools: CPU", 2, plain, base}, {"rules for tools, with headers: CPU", 3, header, headerBase}, {"rules for tools, by a body of 4 KiB: CPU", 10, body, bodyBase},
	} {
		b.atMost(goal.name, goal.most, outs.named(goal.side.name).middle(cpuOf)-outs.named(goal.against.name).middle(cpuOf), 1, "µs more than protect")
	}
}

// toolCall returns a tool call with text bytes of text.
func toolCall(text int) string {
	return `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/srv/notes.md","lines":[1,200],"note":"` + strings.Repeat("x", text) + `"}}}`
}

// calls sends a tool call with each token in turn.
func calls(addr string, tokens []string, body string, withHeaders bool) load.Load {
	headers := ""
	if withHeaders {
		headers = "Mcp-Method: tools/call\r\nMcp-Name: read_file\r\n"
	}
	requests := make([][]byte, len(tokens))
	for i, token := range tokens {
		requests[i] = fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept: application/json, text/event-stream\r\nAccept-Encoding: gzip\r\n"+
			"Content-Type: application/json\r\n%sAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", addr, headers, token, len(body), body)
	}
	return load.Load{Addr: addr, Status: http.StatusOK, Request: load.InTurn(requests)}
}

// obtainFor requests tokens for a resource by client_credentials.
func (b *bench) obtainFor(s *server, resource string, count int) []string {
	tokens := make([]string, count)
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"public"}, "resource": {resource}}
	b.send(load.Load{
		Addr: s.Issuer, Status: http.StatusOK, Request: load.Constant(tokenForm(s.Issuer, clientID, form)),
		Response: func(i int, r *load.Response) error {
			answer, err := readTokens(r.Body)
			tokens[i] = answer.AccessToken
			return err
		},
	}, count)
	return tokens
}
