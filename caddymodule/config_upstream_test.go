package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// Settings of `protect` about the upstream that are refused when the configuration is adapted or loaded.

// TestG93AssertionHeaders checks that assertion headers are refused as those of claims are, and so are settings that make no sense.
func TestG93AssertionHeaders(t *testing.T) {
	for name, test := range map[string]struct{ option, want string }{
		"default header":   {"forward assertion X-Auth-Subject", "forward assertion X-Auth-Subject: the header has the claim sub already"},
		"other spelling":   {"forward x_user sub\nforward assertion X-User", "forward assertion X-User: the header has the claim sub already"},
		"unset variable":   {"forward assertion X-A {env.GATEHOUSE_NOT_SET}", "forward assertion: audience: "},
		"answer":           {"forward_to response\nforward assertion X-A https://a.example", "which is not the one that forward_to response answers"},
		"unset for swap":   {"upstream_token swap {env.GATEHOUSE_NOT_SET}", "upstream_token swap: audience: "},
		"own audience":     {"upstream_token swap http://ADDR", "this is our issuer's own audience"},
		"route's audience": {"audience https://a.example\nupstream_token swap https://a.example", "this route takes tokens for that audience itself"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tryConfiguration(t, siteWith("", "	protect {\n"+test.option+"\n}\n	reverse_proxy UPSTREAM"))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	for name, test := range map[string]struct{ option, want string }{
		"credential":  {`"assertion":{"header":"Authorization"}`, "forward assertion Authorization: an assertion cannot be written into this header"},
		"forwarding":  {`"assertion":{"header":"x_forwarded_for"}`, "an assertion cannot be written into this header"},
		"no header":   {`"assertion":{"header":""}`, "an assertion cannot be written into this header"},
		"other word":  {`"upstream_token":"exchange"`, `upstream_token "exchange": use strip, relay or swap <audience>`},
		"no swap":     {`"upstream_token":"strip","swap_audience":"https://a.example"`, "swap_audience is for upstream_token swap"},
		"no audience": {`"upstream_token":"swap"`, "upstream_token swap: audience is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := adapt(configVars(t).Replace(siteWith("", "	protect {\n		streams keep\n	}\n	reverse_proxy UPSTREAM")))
			check(t, err)
			config = []byte(strings.Replace(string(config), `"streams":"keep"`, test.option, 1))
			if err := caddy.Load(config, true); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

// TestSwapForOurselvesIsRefused checks that `upstream_token swap` refuses our own audiences. With such a token the upstream could act as
// the client everywhere, including where this route accepts no such token.
func TestSwapForOurselvesIsRefused(t *testing.T) {
	for _, audience := range []string{"http://ADDR", "https://api.example", "https://other.example"} {
		err := tryConfiguration(t, strings.Replace(siteWith("", `	protect {
		audience https://narrow.example
		upstream_token swap `+audience+`
	}
	reverse_proxy UPSTREAM`), "issuer http://ADDR\n", "issuer http://ADDR\n\t\taudience https://api.example https://other.example\n", 1))
		if err == nil || !strings.Contains(err.Error(), "this is our issuer's own audience") {
			t.Errorf("%s: %v", audience, err)
		}
	}
}

// configVars returns the replacements for a configuration that is never served.
func configVars(t *testing.T) *strings.Replacer {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_DATA_HOME", dir)
	return strings.NewReplacer("ADDR", freeAddr(t), "ADMIN", freeAddr(t), "UPSTREAM", "127.0.0.1:1", "SECRET", confSecret, "LOG", dir+"/log", "DIR", dir)
}

// tryConfiguration loads a configuration that must be refused.
func tryConfiguration(t *testing.T, caddyfile string) error {
	t.Helper()
	err := (&gatehouse{t: t, vars: configVars(t)}).tryReload(caddyfile)
	if err == nil {
		_ = caddy.Stop()
	}
	return err
}
