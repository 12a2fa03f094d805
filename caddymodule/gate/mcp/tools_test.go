package mcp

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
)

// TestQ22WhichRulesATool: several `tool` rules that fit → all hold; a `deny` yields only to a rule that names the tool more closely.
func TestQ22WhichRulesATool(t *testing.T) {
	tool := func(words string) *Tool {
		patterns, what, _ := strings.Cut(words, ": ")
		made := &Tool{Patterns: strings.Fields(patterns), Deny: what == "deny"}
		if what != "" && what != "deny" {
			made.rules = []*rule.Rule{{Scopes: []string{what}}}
		}
		return made
	}
	for name, test := range map[string]struct {
		tools []string
		want  map[string]string
	}{
		"names and patterns": {[]string{"delete_*: admin", "read: read", "*_file: file"}, map[string]string{
			"delete_x": "admin", "delete_": "admin", "delete": "", "read": "read", "reads": "", "Read": "", "delete_file": "admin file", "_file": "file", "undelete_x": "",
		}},
		"nobody but some": {[]string{"*: deny", "read_* list: read"}, map[string]string{"read_x": "read", "list": "read", "lists": "deny", "x": "deny"}},
		"all but some":    {[]string{"*: use", "delete_*: deny"}, map[string]string{"delete_x": "deny", "x": "use"}},
		"all but some of some": {[]string{"*: use", "delete_*: deny", "delete_draft: draft"}, map[string]string{
			"delete_x": "deny", "delete_draft": "use draft", "delete_drafts": "deny",
		}},
		"the closer of two patterns": {[]string{"read_*: deny", "*x: use", "*_files: files", "a*: deny"}, map[string]string{"read_x": "deny", "read_files": "files", "a_files": "files"}},
		"both at once":               {[]string{"x: use", "x: deny", "y*: deny", "y*: use"}, map[string]string{"x": "deny", "y": "deny"}},
		"of no rules":                {[]string{"*: deny", "ping: "}, map[string]string{"ping": "", "x": "deny"}},
		"stars between":              {[]string{"a*b*c: deny"}, map[string]string{"abc": "deny", "axbyc": "deny", "abxc": "deny", "acb": "", "ab": "", "abcd": "", "aab": ""}},
		"stars beside":               {[]string{"**: deny", "a**z: a"}, map[string]string{"az": "a", "q": "deny"}},
	} {
		t.Run(name, func(t *testing.T) {
			var c Config
			for _, words := range test.tools {
				c.Tools = append(c.Tools, tool(words))
			}
			for tool, want := range test.want {
				rules, denied := c.RulesFor(tool)
				var got []string
				for _, r := range rules {
					got = append(got, r.Scopes...)
				}
				if denied {
					got = []string{"deny"}
				}
				if !slices.Equal(got, strings.Fields(want)) {
					t.Errorf("%s: %q, want %q", tool, got, want)
				}
			}
		})
	}
}

// TestQ24NamesInLogs checks that names are short and only printable ASCII.
func TestQ24NamesInLogs(t *testing.T) {
	for name, test := range map[string]struct {
		tools []string
		want  string
	}{
		"one": {[]string{"get_weather"}, "get_weather"}, "several": {[]string{"a", "b"}, "a b"}, "none": {nil, ""},
		"that write lines of their own": {[]string{"a\n{\"level\":\"error\"}\x1b[31m"}, `a\n{\"level\":\"error\"}\x1b[31m`},
		"that turn the text around":     {[]string{"a\u202eb"}, `a\u202eb`}, "not UTF-8": {[]string{"a\xff"}, `a\xff`}, "spaces": {[]string{"a b"}, "a b"},
		"too long": {[]string{strings.Repeat("x", 1000)}, strings.Repeat("x", 200)}, "too many": {slices.Repeat([]string{"12345678"}, 100), strings.Repeat("12345678 ", 22) + "12..."},
	} {
		t.Run(name, func(t *testing.T) {
			var asked Request
			for _, tool := range test.tools {
				asked.Calls = append(asked.Calls, Call{Tool: tool})
			}
			if got := asked.Tools(); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestQ10OriginsOfAServer: a server's origins are its own and those of the browser's machine. Any other origin may be
// the result of DNS rebinding.
func TestQ10OriginsOfAServer(t *testing.T) {
	own := OriginsOf([]string{"https://mcp.example/tools", "https://MCP.example/", "http://localhost:8080/x", "urn:x"})
	for origin, want := range map[string]bool{
		"https://mcp.example": true, "http://localhost:8080": true, "http://localhost:6274": true, "http://127.0.0.1": true, "https://[::1]:1": true, "http://app.localhost": true,
		"http://mcp.example": false, "https://mcp.example:8443": false, "https://mcp.example.evil.test": false, "https://evil.test": false, "null": false, "": false,
		"http://localhost.evil.test": false, "http://127.0.0.1.evil.test": false, "http://localhost@evil.test": false, "http://evil.test#localhost": false, "http://localhost:8080/": false,
		"file://": false, "chrome-extension://localhost": false, "http://localhost, https://evil.test": false, "http://192.168.0.1": false, "http://LOCALHOST:1": false,
	} {
		if got := own.Allow(origin); got != want {
			t.Errorf("%q: %v", origin, got)
		}
	}
}
