package caddymodule

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

// goldenFiles are Caddyfiles with what becomes of them, below a line of ten dashes: JSON, or the text of the error.
const goldenFiles = "testdata/*.caddyfiletest"

// readGolden splits a golden file.
func readGolden(t testing.TB, path string) (caddyfile, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	caddyfile, want, ok := strings.Cut(string(text), "\n----------\n")
	if !ok {
		t.Fatalf("%s has no line of ten dashes", path)
	}
	return caddyfile + "\n", strings.TrimSpace(want)
}

// TestAdapt holds the adapter to its golden files.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob(goldenFiles)
	if err != nil || len(files) < 10 {
		t.Fatalf("there are %d golden files, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".caddyfiletest"), func(t *testing.T) {
			caddyfile, want := readGolden(t, path)
			config, err := adapt(caddyfile)
			if !strings.HasPrefix(want, "{") {
				checkRefusal(t, err, want)
				return
			}
			check(t, err)
			var got bytes.Buffer
			check(t, json.Indent(&got, config, "", "\t"))
			if got.String() != want {
				t.Errorf("got\n%s", &got)
			}
			if strings.Contains(caddyfile, "written-out-secret") && strings.Contains(got.String(), "written-out-secret") {
				t.Error("the configuration holds a secret")
			}
		})
	}
}

var optionList = regexp.MustCompile(`((?:option|limit|lifetime|attribute) "[^"]*"): use [a-z_, ]+, at `)

// checkRefusal holds an error to its text, and the text to Caddy's style.
func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want: %s", want)
	}
	// TestUnknownOptionsListTheKnownOnes has the lists.
	if got := optionList.ReplaceAllString(err.Error(), `$1, at `); got != want {
		t.Errorf("got:  %s\nwant: %s", got, want)
	}
	if first := []rune(err.Error())[0]; unicode.IsUpper(first) || strings.HasSuffix(err.Error(), ".") {
		t.Errorf("the error is no lower-case text without a full stop: %s", err)
	}
}

// refusedProtect are refused after `protect`, from line 2 on.
var refusedProtect = []refusal{
	{`@typo`, `unrecognized matcher name: @typo`},
	{`@typo trusted`, `unrecognized matcher name: @typo`},
	{`trusted @typo`, `@typo stands among scopes: a matcher comes first, at Caddyfile:2`},
	{`trusted /x/*`, `/x/* stands among scopes: a matcher comes first, at Caddyfile:2`},
	{"{\nnonsense\n}", `unknown protect option "nonsense", at Caddyfile:3`},
	{"{\nissuer\n}", `wrong argument count or unexpected line ending after 'issuer', at Caddyfile:3`},
	{"{\nissuer self self\n}", `issuer self is there twice, at Caddyfile:3`},
	{"{\naudience\n}", `wrong argument count or unexpected line ending after 'audience', at Caddyfile:3`},
	{"{\naudience \"\"\n}", `an audience must not be empty, at Caddyfile:3`},
	{"{\naudience {host}\n}", `{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{"{\naudience {file.x}\n}", `in a site block {file.NAME} is a part of the request's path: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{"{\naudience {header.X-Aud}\n}", `{http.request.header.X-Aud} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3`},
	{"{\nrequire\n}", `wrong argument count or unexpected line ending after 'require', at Caddyfile:3`},
	{"{\nrequire scope\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, user, email_domain, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire @typo scope a\n}", `unrecognized matcher name: @typo, at Caddyfile:3`},
	{"{\nrequire /x/*\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, user, email_domain, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire /x/* scope\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, user, email_domain, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire role boss\n}", `unknown role "boss": use admin, group_manager, business_manager or member, at Caddyfile:3`},
	{"{\nrequire expression\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, user, email_domain, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire expression \"\"\n}", `require expression needs an expression, at Caddyfile:3`},
	{"{\nrequire expression @typo\n}", `@typo is no expression: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire expression /x/* true\n}", `/x/* is no expression: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire acr\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, user, email_domain, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire acr gold @m\n}", `acr @m looks like a matcher: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire acr gold /x/*\n}", `acr /x/* looks like a matcher: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire acr \"gold silver\"\n}", `acr "gold silver": use visible ASCII without quotes and backslashes, at Caddyfile:3`},
	{"{\nrequire user u-ada @m\n}", `user @m looks like a matcher: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire user *\n}", `user * looks like a matcher: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire user a@b@c\n}", `"a@b@c" is no e-mail address: write it as ada@example.com, at Caddyfile:3`},
	{"{\nrequire user {header.X-User}\n}", `{http.request.header.X-User}: a rule compares with text and replaces no placeholder, at Caddyfile:3`},
	{"{\nrequire email_domain @example.com\n}", `email_domain @example.com looks like a matcher: a matcher comes first, and a domain is written as example.com, at Caddyfile:3`},
	{"{\nrequire email_domain *.example.com\n}", `"*.example.com" cannot stand behind the @ of an e-mail address: write a domain, as example.com, at Caddyfile:3`},
	{"{\nrequire email_domain {env.DOMAIN}\n}", `{env.DOMAIN}: a rule compares with text and replaces no placeholder, at Caddyfile:3`},
	{"{\nrequire max_age\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, user, email_domain, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nrequire max_age soon\n}", `"soon" is no duration: write it as 90s, 15m, 2h or 28d, at Caddyfile:3`},
	{"{\nrequire max_age @m 5m\n}", `wrong argument count or unexpected line ending after '@m', at Caddyfile:3`},
	{"{\nrequire max_age 0s\n}", `max_age 0s: use whole seconds, at least one, at Caddyfile:3`},
	{"{\nrequire max_age 1500ms\n}", `max_age 1.5s: use whole seconds, at least one, at Caddyfile:3`},
	{"{\nrequire max_age -5m\n}", `max_age -5m0s: use whole seconds, at least one, at Caddyfile:3`},
	{"{\nrequire nonsense a\n}", `unknown rule "nonsense": use scope, any_scope, user, email_domain, role, group, claim, expression, acr or max_age, at Caddyfile:3`},
	{"{\nrequire claim org\n}", `require claim org needs a value, at Caddyfile:3`},
	{"{\nrequire scope @m a\n}", `@m stands among scopes: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire scope /x/* a\n}", `/x/* stands among scopes: a matcher comes first, at Caddyfile:3`},
	{"{\nrequire claim org {header.X-Org}\n}", `{http.request.header.X-Org}: a rule compares with text and replaces no placeholder, at Caddyfile:3`},
	{"{\nrequire claim org {env.ORG}\n}", `{env.ORG}: a rule compares with text and replaces no placeholder, at Caddyfile:3`},
	{"{\nrequire any_scope\n}", "write a rule as `require [<matcher>] <kind> <value>...`, with scope, any_scope, user, email_domain, role, group, claim, expression, acr or max_age, at Caddyfile:3"},
	{"{\nanonymous\n}", `wrong argument count or unexpected line ending after 'anonymous', at Caddyfile:3`},
	{"{\nanonymous *\n}", "anonymous * would protect nothing: name the paths, or write `optional`, which still keeps forged identity headers away, at Caddyfile:3"},
	{"{\nanonymous @typo\n}", `unrecognized matcher name: @typo, at Caddyfile:3`},
	{"{\nanonymous public\n}", "write it as `anonymous <matcher>`: one path that starts with a slash, or a named matcher; further ones take lines of their own, at Caddyfile:3"},
	{"{\nanonymous /a /b\n}", "write it as `anonymous <matcher>`: one path that starts with a slash, or a named matcher; further ones take lines of their own, at Caddyfile:3"},
	{"{\noptional yes\n}", `wrong argument count or unexpected line ending after 'yes', at Caddyfile:3`},
	{"{\nforward\n}", "write it as `forward [+] <Header> <claim> [raw]`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward X-A\n}", "write it as `forward [+] <Header> <claim> [raw]`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward X-A sub extra\n}", "write it as `forward [+] <Header> <claim> [raw]`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward on\n}", "write it as `forward [+] <Header> <claim> [raw]`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward Host sub\n}", `forward Host: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward off\nforward X-A sub\n}", `forward off stands beside other forward lines, at Caddyfile:4`},
	{"{\nforward X-A sub\nforward off\n}", `forward off stands beside other forward lines, at Caddyfile:4`},
	{"{\nforward \"X A\" sub\n}", `forward X A: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nupstream_token\n}", `wrong argument count or unexpected line ending after 'upstream_token', at Caddyfile:3`},
	{"{\nupstream_token drop\n}", `upstream_token "drop": use strip, relay or swap <audience>, at Caddyfile:3`},
	{"{\nupstream_token relay\nupstream_token strip\n}", `upstream_token is set twice, at Caddyfile:4`},
	{"{\npaths loose\n}", `paths "loose": use strict or lenient, at Caddyfile:3`},
	{"{\npaths strict lenient\n}", `wrong argument count or unexpected line ending after 'strict', at Caddyfile:3`},
	{"{\npaths strict\npaths strict\n}", `paths is set twice, at Caddyfile:4`},
	{"{\ntoken_from cookie\n}", "write it as `token_from header`, `token_from cookie <name>`, `token_from header <Name> pat` or `token_from basic pat`, at Caddyfile:3"},
	{"{\ntoken_from header Cookie pat\n}", "token_from header Cookie pat: no token can come in this header: use one of its own, as X-Api-Key, at Caddyfile:3"},
	{"{\ntoken_from header x_auth_subject pat\n}", "token_from header x_auth_subject pat: no token can come in this header: use one of its own, as X-Api-Key, at Caddyfile:3"},
	{"{\nchallenge browser\ntoken_from cookie a\n}", "challenge browser takes no token from the cookie a: leave `token_from cookie` out, since browsers sign in and come with a session of the host, or leave `challenge browser` out, at Caddyfile:5"},
	{"{\nchallenge page\n}", `challenge "page": use api or browser, at Caddyfile:3`},
	{"{\ntrust_headers\n}", `wrong argument count or unexpected line ending after 'trust_headers', at Caddyfile:3`},
	{"{\ntrust_headers X-Method-Override X-Auth-Subject\n}", "trust_headers X-Auth-Subject: use headers by which a client would choose method or path: " +
		strings.Join(identity.Overriding, ", ") + ", at Caddyfile:3"},
	{"{\nforward + X-A sub extra\n}", "write it as `forward [+] <Header> <claim> [raw]`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward + X-A groups raw\n}", "forward X-A groups raw: the claim is a list, whose values are always encoded: leave raw out, at Caddyfile:3"},
	{"{\nforward X-A scope raw\n}", "forward X-A scope raw: the claim is a list, whose values are always encoded: leave raw out, at Caddyfile:3"},
	{"{\nforward +\n}", "write it as `forward [+] <Header> <claim> [raw]`, `forward assertion <Header> [<audience>]` or `forward off`, at Caddyfile:3"},
	{"{\nforward + Host sub\n}", `forward Host: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward X-A sub\nforward + X-B org\n}", "forward + adds to the default headers, and other forward lines replace them: write all of them with +, or none, at Caddyfile:4"},
	{"{\nforward + X-B org\nforward X-A sub\n}", "forward + adds to the default headers, and other forward lines replace them: write all of them with +, or none, at Caddyfile:4"},
	{"{\nforward off\nforward + X-B org\n}", `forward off stands beside other forward lines, at Caddyfile:4`},
	{"{\nupgrade\n}", `wrong argument count or unexpected line ending after 'upgrade', at Caddyfile:3`},
	{"{\nupgrade tcp, foo\n}", `upgrade "tcp,": write a protocol as clients name it in Upgrade, like tcp, at Caddyfile:3`},
	{"{\nupgrade tcp/\n}", `upgrade "tcp/": write a protocol as clients name it in Upgrade, like tcp, at Caddyfile:3`},
	{"{\nupgrade tcp\nupgrade foo h2c\n}", "upgrade h2c: in this protocol a client could make further requests past the gate; " +
		"for HTTP/2 between Caddy and the upstream write `versions h2c` in the transport of reverse_proxy, at Caddyfile:4"},
	{"{\nstreams open\n}", `streams "open": use close or keep, at Caddyfile:3`},
	{"{\ncors\n}", `wrong argument count or unexpected line ending after 'cors', at Caddyfile:3`},
	{"{\ncors null\n}", `cors null would be every sandboxed page and every local file, at Caddyfile:3`},
	{"{\ncors * https://a.example\n}", `cors * stands beside other origins: leave one of them away, at Caddyfile:3`},
	{"{\ncors https://a.example\ncors *\n}", `cors * stands beside other origins: leave one of them away, at Caddyfile:4`},
	{"{\ncors *\ntoken_from cookie app\n}", `cors * stands beside token_from cookie app: name the origins, at Caddyfile:5`},
	{"{\ntoken_from cookie app\ncors *\n}", `cors * stands beside token_from cookie app: name the origins, at Caddyfile:5`},
	{"{\ncors https://a.example\nforward_to response\n}", `cors stands beside forward_to response: the proxy that asks would take the answer to a preflight for leave to ` +
		`pass the request on, with its body: leave cors out, and have that proxy answer preflights, at Caddyfile:5`},
	{"{\nforward_to\n}", `wrong argument count or unexpected line ending after 'forward_to', at Caddyfile:3`},
	{"{\nforward_to client\n}", `forward_to "client": use request or response, at Caddyfile:3`},
	{"{\nforward_to request response\n}", `wrong argument count or unexpected line ending after 'request', at Caddyfile:3`},
	{"{\nforward_to response\nforward_to response\n}", `forward_to is set twice, at Caddyfile:4`},
	{"{\nforward Connection sub\n}", `forward Connection: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Transfer-Encoding sub\n}", `forward Transfer-Encoding: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Content-Length sub\n}", `forward Content-Length: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward TE sub\n}", `forward TE: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Trailer sub\n}", `forward Trailer: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Upgrade sub\n}", `forward Upgrade: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Authorization sub\n}", `forward Authorization: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Cookie sub\n}", `forward Cookie: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward X-Forwarded-For sub\n}", `forward X-Forwarded-For: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward X-Forwarded-User sub\n}", `forward X-Forwarded-User: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward x_forwarded_host sub\n}", `forward x_forwarded_host: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Forwarded sub\n}", `forward Forwarded: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward X-Real-IP sub\n}", `forward X-Real-IP: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward Proxy-Authorization sub\n}", `forward Proxy-Authorization: a claim cannot be written into this header, at Caddyfile:3`},
	{"{\nforward assertion\n}", "write it as `forward assertion <Header> [<audience>]`, at Caddyfile:3"},
	{"{\nforward assertion X-A b c\n}", "write it as `forward assertion <Header> [<audience>]`, at Caddyfile:3"},
	{"{\nforward assertion X-A\nforward assertion X-B\n}", "forward assertion is there twice, at Caddyfile:4"},
	{"{\nforward assertion Authorization\n}", "forward assertion Authorization: an assertion cannot be written into this header, at Caddyfile:3"},
	{"{\nforward assertion \"X A\"\n}", "forward assertion X A: an assertion cannot be written into this header, at Caddyfile:3"},
	{"{\nforward assertion X-Forwarded-User https://a.example\n}", "forward assertion X-Forwarded-User: an assertion cannot be written into this header, at Caddyfile:3"},
	{"{\nforward assertion X-A \"\"\n}", "forward assertion: the audience is empty; is a variable unset?, at Caddyfile:3"},
	{"{\nforward assertion X-A {header.X-Aud}\n}", "{http.request.header.X-Aud} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3"},
	{"{\nupstream_token swap\n}", "upstream_token swap needs the audience of the upstream, at Caddyfile:3"},
	{"{\nupstream_token swap \"\"\n}", "upstream_token swap: the audience is empty; is a variable unset?, at Caddyfile:3"},
	{"{\nupstream_token swap a b\n}", "wrong argument count or unexpected line ending after 'b', at Caddyfile:3"},
	{"{\nupstream_token strip a\n}", "wrong argument count or unexpected line ending after 'a', at Caddyfile:3"},
	{"{\nupstream_token swap {http.request.host}\n}", "{http.request.host} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:3"},
	{"{\nupstream_token swap a\nupstream_token strip\n}", "upstream_token is set twice, at Caddyfile:4"},
}

func TestAdaptRefusesWithFileAndLine(t *testing.T) {
	for _, r := range refusedProtect {
		t.Run("protect "+r.option, func(t *testing.T) {
			_, err := adapt("http://a.example {\n\tprotect " + r.option + "\n}\n")
			checkRefusal(t, err, "parsing caddyfile tokens for 'protect': "+r.want)
		})
	}
}

// FuzzCaddyfile: no panic, and adapting twice gives the same JSON.
func FuzzCaddyfile(f *testing.F) {
	files, err := filepath.Glob(goldenFiles)
	if err != nil || len(files) == 0 {
		f.Fatalf("there are %d golden files, %v", len(files), err)
	}
	for _, path := range files {
		caddyfile, _ := readGolden(f, path)
		f.Add(caddyfile)
	}
	for _, r := range refusedProtect {
		f.Add("http://a.example {\n\tprotect " + r.option + "\n}\n")
	}
	f.Fuzz(func(t *testing.T, caddyfile string) {
		if strings.Contains(caddyfile, "import") { // would read whatever files there are
			return
		}
		first, err := adapt(caddyfile)
		if err != nil {
			return
		}
		second, err := adapt(caddyfile)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("adapted to\n%s\nand then to\n%s\n%v", first, second, err)
		}
	})
}

// TestG93NothingIsForwardedIntoHeadersOfTheProtocol: `forward` to Host, Connection, Authorization, X-Forwarded-* and the like →
// configuration error with the line.
func TestG93NothingIsForwardedIntoHeadersOfTheProtocol(t *testing.T) {
	for _, name := range []string{"Accept-Encoding", "Accept", "Date", "Range", "If-Match", "Cache-Control", "Pragma", "Allow", "ETag"} {
		for option, want := range map[string]string{
			"forward " + name + " sub":  "forward " + name + ": a claim cannot be written into this header, at Caddyfile:3",
			"forward assertion " + name: "forward assertion " + name + ": an assertion cannot be written into this header, at Caddyfile:3",
		} {
			_, err := adapt("http://a.example {\nprotect {\n" + option + "\n}\n}\n")
			checkRefusal(t, err, "parsing caddyfile tokens for 'protect': "+want)
		}
	}
}
