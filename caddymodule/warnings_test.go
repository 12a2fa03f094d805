package caddymodule

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// openShapes are sites that fail open, or seem to demand something that they do not. Each has the expected lines,
// counted from the first line of the site's block as 1, and words of the warnings.
var openShapes = []struct {
	name, body string
	want       []string // line and words, as in "2 …"
}{
	{"nothing wrong", "handle /api/* {\nprotect\nreverse_proxy up:1\n}\nhandle {\nrespond 404\n}", nil},
	{"a part is protected", "protect /api/*\nreverse_proxy up:1", []string{"1 path /api/* only, but as far as can be told reverse_proxy to up:1 answers other requests too"}},
	{"a part of the methods", "@w method POST\nprotect @w\nreverse_proxy up:1", []string{"2 method POST only"}},
	{"a request without a path", "protect /*\nreverse_proxy up:1", []string{"1 path /* only"}},
	{"below handle_path", "handle_path /x/* {\nprotect /x/*\nreverse_proxy up:1\n}", []string{
		"2 does not match here: its path /x/* is asked for after handle_path has taken /x away", "2 path /x/x/* only",
	}},
	{"below another path", "handle /a/* {\nprotect /b/*\nreverse_proxy up:1\n}", []string{
		"2 does not match here: path /b/* inside of path /a/*", "2 reverse_proxy to up:1 answers whoever comes at /a/*",
	}},
	{"an open route beside it", "handle /api/* {\nprotect\nreverse_proxy up:1\n}\nhandle {\nreverse_proxy up:2\n}", []string{
		"2 reverse_proxy to up:2 answers whoever comes",
	}},
	{"an open route by choice", "handle /api/* {\nprotect\nreverse_proxy up:1\n}\nhandle {\nprotect {\noptional\n}\nreverse_proxy up:2\n}", nil},
	{"behind the answer", "route {\nreverse_proxy up:1\nprotect\n}", []string{
		"3 is never reached", "3 reverse_proxy to up:1 answers whoever comes",
	}},
	{"php", "protect /api/*\nphp_fastcgi up:1", []string{"1 path /api/* only, but as far as can be told php_fastcgi to up:1"}},
	{"error routes lead on", "handle /api/* {\nprotect\nreverse_proxy up:1\n}\nhandle_errors {\nreverse_proxy up:1\n}", []string{
		"2 error routes of the site hand requests on to reverse_proxy to up:1",
	}},
	{"a page for errors", "handle /api/* {\nprotect\nreverse_proxy up:1\n}\nhandle_errors {\nreverse_proxy pages:1\n}", nil},
	{"a password instead", "handle /api/* {\nprotect\nreverse_proxy up:1\n}\nhandle {\nbasic_auth {\nu $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\nreverse_proxy up:2\n}", nil},
	{"files", "protect /api/*\nfile_server", nil},
	{"a matcher on the token behind", "protect\n@token header Authorization Bearer*\nreverse_proxy @token up:1\nreverse_proxy up:2", []string{"1 a matcher behind this protect asks for Authorization"}},
	{"its absence behind", "protect\n@none not header Authorization *\nreverse_proxy @none up:1\nreverse_proxy up:2", []string{"1 a matcher behind this protect asks for Authorization"}},
	{"an expression on it behind", "protect {\nupstream_token strip\n}\n@token header_regexp Authorization ^Bearer\nreverse_proxy @token up:1\nreverse_proxy up:2", []string{"1 a matcher behind this protect asks for Authorization"}},
	{"another scheme behind", "protect {\noptional\n}\n@basic header Authorization Basic*\nreverse_proxy @basic up:1\nreverse_proxy up:2", nil},
	{"a relayed token", "protect {\nupstream_token relay\n}\n@token header Authorization Bearer*\nreverse_proxy @token up:1\nreverse_proxy up:2", nil},
	{"a matcher on the token before", "@token header Authorization *\nhandle @token {\nprotect\nreverse_proxy up:1\n}\nrespond 404", nil},
	{"a site of its own", "reverse_proxy up:1", nil},
}

// validateProcess runs `caddy validate` in its own process and returns our warnings.
func validateProcess(t *testing.T, caddyfile string, env ...string) []string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(caddyfile), 0o600))
	program, err := os.Executable()
	check(t, err)
	command := exec.Command(program, "validate", "--config", "Caddyfile")
	command.Dir = dir
	command.Env = slices.Concat(os.Environ(), []string{nodeName + "=1", "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, env)
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "Valid configuration") {
		t.Fatalf("%v\n%s", err, output)
	}
	return warningsIn(string(output))
}

// warnedOf validates a Caddyfile in this process, as `caddy validate` does, and returns our warnings.
func warnedOf(t *testing.T, caddyfile string, env ...string) []string {
	t.Helper()
	emptyHome(t)
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	log := filepath.Join(directory(t), "log")
	config := decoded[map[string]any](t, adapted(t, caddyfile))
	config["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{
		"writer": map[string]any{"output": "file", "filename": log}, "encoder": map[string]any{"format": "json"},
	}}}
	text, err := json.Marshal(config)
	check(t, err)
	check(t, validateJSON(t, text))
	return warningsIn(readLog(t, log))
}

// located matches the beginning of a warning about a line of a file.
var located = regexp.MustCompile(`^\S+:\d+: `)

// warningsIn returns our app's warnings in a log, with file and line.
func warningsIn(log string) []string {
	var list []string
	for line := range strings.Lines(log) {
		var entry struct{ Level, Logger, Msg string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "warn" && entry.Logger == "oauth" && located.MatchString(entry.Msg) {
			list = append(list, entry.Msg)
		}
	}
	return list
}

// holdWarnings compares warnings with the expected lines, counted from an offset, and words.
func holdWarnings(t *testing.T, got, want []string, file string, offset int) {
	t.Helper()
	for _, w := range want {
		line, words, _ := strings.Cut(w, " ")
		prefix := file + ":" + plus(t, line, offset) + ": "
		i := slices.IndexFunc(got, func(text string) bool { return strings.HasPrefix(text, prefix) && strings.Contains(text, words) })
		if i < 0 {
			t.Errorf("there is no %s… %s in %q", prefix, words, got)
			continue
		}
		got = slices.Delete(slices.Clone(got), i, i+1)
	}
	if len(got) > 0 {
		t.Errorf("also warned: %q", got)
	}
}

func plus(t *testing.T, number string, offset int) string {
	t.Helper()
	var n int
	check(t, json.Unmarshal([]byte(number), &n))
	text, _ := json.Marshal(n + offset)
	return string(text)
}

// TestG83G151ValidateWarnsWhatFailsOpen: a mis-ordered directive, a matcher on a removed header, a route beside the gate → a warning with
// file and line.
func TestG83G151ValidateWarnsWhatFailsOpen(t *testing.T) {
	for _, shape := range openShapes {
		t.Run(shape.name, func(t *testing.T) {
			got := warnedOf(t, "{\noauth {\nissuer https://a.example\nstore memory\n}\n}\nhttp://a.example:8001 {\n"+shape.body+"\n}\nhttp://a.example:8002 {\noauth_server\n}\n")
			holdWarnings(t, got, shape.want, "Caddyfile", 7)
		})
	}
}

// TestG83EveryLoadWarns: loading a configuration gives the same warnings, also in a gate without an issuer. A warning
// names a directive in an imported file with that file and line.
func TestG83EveryLoadWarns(t *testing.T) {
	g := startGatehouse(t, site)
	if got := warningsIn(g.logs()); got != nil {
		t.Errorf("of a good configuration: %q", got)
	}
	imported := filepath.Join(t.TempDir(), "gate.caddy")
	check(t, os.WriteFile(imported, []byte("\n\nprotect /api/* {\nissuer corp\n}\n"), 0o600))
	g.reload("{\nadmin ADMIN\nlog {\noutput file LOG\n}\noauth {\ntrust corp https://login.example {\naudience https://api.example\n}\n}\n}\nhttp://ADDR {\nimport " +
		imported + "\nreverse_proxy UPSTREAM\n}\n")
	holdWarnings(t, warningsIn(g.logs()), []string{"3 path /api/* only"}, imported, 0)
}

// TestG83SecretsThroughTheFile: a secret that Caddy has substituted into the file counts as written out, and the
// warning names its place.
func TestG83SecretsThroughTheFile(t *testing.T) {
	got := validateProcess(t, `{
	oauth {
		issuer https://a.example
		store postgres {$GATE_DSN}
		client one {$GATE_SECRET} {
			scopes public
		}
		client two {env.GATE_SECRET}
		client {$GATE_NAME} {env.GATE_SECRET}
		client four {$GATE_REFERENCE}
		client five written-out-secret-5f2d1c0b9a
		trust corp https://login.example {
			audience https://a.example
			introspection https://login.example/introspect {
				client gate {$GATE_SECRET}
			}
		}
	}
}
http://a.example:8001 {
	oauth_server
}
`, "GATE_DSN=postgres://gate:dsn-s3cret@db.example/gate", "GATE_SECRET=s3cret-9f86d081884c7d659a2feaa0", "GATE_NAME=three",
		"GATE_REFERENCE={env.GATE_SECRET}")
	for _, text := range got {
		if strings.Contains(text, "s3cret") {
			t.Errorf("the secret is logged: %s", text)
		}
	}
	holdWarnings(t, got, []string{
		"3 signing keys are stored in the clear", "4 the connection string comes through {$…}", "5 the secret of client one comes through {$…}", "15 the secret of an introspection comes through {$…}",
	}, "Caddyfile", 0)
}

// TestV7ValidateWarnsOfApplicationsAtTheIssuersOrigin warns only where people sign in.
func TestV7ValidateWarnsOfApplicationsAtTheIssuersOrigin(t *testing.T) {
	options := func(lines ...string) string {
		return "{\noauth {\nissuer https://id.example\nkeys {\nencrypt_with {env.GATE_KEK}\n}\n" + strings.Join(lines, "\n") + "\n}\n}\n"
	}
	user := "user u-ada {\nemail ada@example.com\npassword " + peopleHash() + "\n}"
	const (
		proxy = "protect\nreverse_proxy app:1"
		words = "3 reverse_proxy to app:1 answers at the origin of the issuer, where people sign in"
	)
	app := func(block string) string { return "https://app.example:8001 {\n" + block + "\n}\n" }
	id := func(block string) string { return "https://id.example:8001 {\noauth_server\n" + block + "\n}\n" }
	for _, test := range []struct {
		name, caddyfile string
		want            []string
	}{
		{"people are declared", options(user) + id(proxy), []string{words}},
		{"people come by openid", options("openid") + id(proxy), []string{words}},
		{"clients register", options("registration") + id(proxy), []string{words}},
		{"a route of the host is for browsers", options() + id("handle /a/* {\nprotect {\nchallenge browser\n}\nreverse_proxy app:1\n}\nhandle {\nrespond 404\n}"), []string{words}},
		{"another host is for browsers", options() + id(proxy) + app("protect {\nchallenge browser\n}\nreverse_proxy other:1"), []string{words}},
		{"an MCP server", options() + id("handle /mcp* {\nprotect mcp:use {\nmcp\n}\nreverse_proxy app:1\n}\nhandle {\nrespond 404\n}"), []string{words}},
		{"two of them", options(user) + id("protect\nreverse_proxy /a/* app:1\nreverse_proxy other:1"), []string{words, "3 reverse_proxy to other:1 answers at the origin"}},
		{"for any host", options(user) + "https://:8001 {\noauth_server\n" + proxy + "\ntls internal\n}\n", []string{words}},
		{"for a wildcard", options(user) + "https://*.example:8001 {\noauth_server\n" + proxy + "\n}\n", []string{words}},
		{"in another site of the host", options(user) + id("") + "https://id.example:8001/app/* {\n" + proxy + "\n}\n", []string{words}},
		{"nobody signs in", options("client shop {env.GATE_GOOD}") + id(proxy), nil},
		{"a host of its own", options(user) + id("") + app(proxy), nil},
		{"a host of its own beside a wildcard", options(user) + id("") + "https://*.example:8001 {\n" + proxy + "\n}\n", nil},
		{"another port", options(user) + id("") + "https://id.example:8002 {\n" + proxy + "\n}\n", nil},
		{"files alone", options(user) + id("file_server"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			holdWarnings(t, warnedOf(t, test.caddyfile, "GATE_KEK="+strings.Repeat("ab", 32), "GATE_GOOD="+strings.Repeat("0f", 16)), test.want, "Caddyfile", 0)
		})
	}
}

// TestG126A144A146ValidateWarnsOfTheIssuer: an issuer that requests do not reach, keys in the clear, a guessable secret, `pkce optional` of a
// confidential client, with `openid` a user id beyond ASCII → a warning with file and line, without the secret.
func TestG126A144A146ValidateWarnsOfTheIssuer(t *testing.T) {
	// The oauth block begins in line 2, and its issuer is line 3.
	options := func(lines ...string) string {
		return "{\noauth {\n" + strings.Join(lines, "\n") + "\n}\n}\n"
	}
	const ours = "issuer https://a.example"
	sealed := "keys {\nencrypt_with {env.GATE_KEK}\n}"
	client := func(id, pkce string) string {
		return "client " + id + " {env.GATE_GOOD} {\ngrants authorization_code\nscopes openid\nredirect_uris https://c.example/" + id + "\n" + pkce + "\n}"
	}
	user := "user u-ädä {\nemail a@acme.example\npassword " + adaHash + "\n}\nuser u-bob {\nemail b@acme.example\npassword " + adaHash + "\n}"
	inside := func(block string) string { return "https://a.example:8001 {\n" + block + "\nrespond 404\n}\n" }
	for _, test := range []struct {
		name, caddyfile string
		want            []string
	}{
		{"nothing wrong", options(ours, sealed) + inside("oauth_server"), nil},
		{"in memory", options(ours, "store memory") + inside("oauth_server"), nil},
		{"on loopback", options("issuer http://localhost:8001") + "http://localhost:8001 {\noauth_server\n}\n", nil},
		{"for any host", options(ours, sealed) + "http://:8001 {\noauth_server\n}\n", nil},
		{"for a wildcard", options("issuer https://a.b.example", sealed) + "https://*.b.example:8001 {\noauth_server\n}\n", nil},
		{"in a handle for the rest", options(ours, sealed) + inside("handle /x/* {\nrespond 204\n}\nhandle {\noauth_server\n}"), nil},
		{"behind the host", options(ours, sealed) + inside("@a host a.example\nhandle @a {\noauth_server\n}"), nil},
		{"two sites, one of them the issuer's", options(ours, sealed) + inside("oauth_server") + "https://b.example:8001 {\noauth_server\n}\n", nil},
		{"a gate alone", options("trust corp https://l.example {\naudience a\n}") + inside(""), nil},
		{"no oauth_server", options(ours, sealed) + inside(""), []string{"3 no site has oauth_server"}},
		{"no oauth_server beside a protect", options(ours, sealed) + inside("protect"), []string{"3 no site has oauth_server"}},
		{"no site", options(ours, sealed), []string{"3 no site has oauth_server"}},
		{"below a path", options(ours, sealed) + inside("handle /x/* {\noauth_server\n}"), []string{"11 not reached by every request for /oauth/token, since it stands behind path /x/*"}},
		{"below /oauth/ alone", options(ours, sealed) + inside("handle /oauth/* {\noauth_server\n}"), []string{"11 not reached by every request for /.well-known/oauth-authorization-server, since it stands behind path /oauth/*"}},
		{"below handle_path", options(ours, sealed) + inside("handle_path /x/* {\noauth_server\n}"), []string{"11 not reached by every request for /oauth/token"}},
		{"both paths", options(ours, sealed) + inside("@us path /oauth/* /.well-known/*\nhandle @us {\noauth_server\n}"), nil},
		{"behind a method", options(ours, sealed) + inside("@post method POST\nhandle @post {\noauth_server\n}"), []string{"12 since it stands behind method POST"}},
		{"behind a header", options(ours, sealed) + inside("@h header X-A b\nhandle @h {\noauth_server\n}"), []string{"12 not reached by every request for /oauth/token"}},
		{"never reached", options(ours, sealed) + inside("route {\nrespond 200\noauth_server\n}"), []string{"12 never reached"}},
		{"another host", options(ours, sealed) + "https://b.example:8001 {\noauth_server\n}\n", []string{"3 no site with oauth_server has the host of the issuer, a.example"}},
		{"the issuer has a path", options("issuer https://a.example/auth", sealed) + inside("handle /auth/* {\noauth_server\n}"), []string{"11 /.well-known/oauth-authorization-server/auth"}},
		{"pkce", options(ours, sealed, "openid", client("new", "pkce required"), client("old", "pkce optional"), client("usual", "")) + inside("oauth_server"), []string{"14 client old has `pkce optional`"}},
		{"a user id of OpenID Connect", options(ours, sealed, "openid", user) + inside("oauth_server"), []string{`8 user id "u-ädä": applications know a user by it (sub)`}},
		{"a user id without it", options(ours, sealed, user) + inside("oauth_server"), nil},
		{"keys in the clear", options(ours) + inside("oauth_server"), []string{"3 signing keys are stored in the clear"}},
		{"a secret that can be guessed", options(ours, sealed, "client one secret123", "client two {env.GATE_GUESS}", "client three {env.GATE_GOOD}", "client four correct-horse-battery-staple") + inside("oauth_server"),
			[]string{"7 the secret of client one can be guessed", "8 the secret of client two can be guessed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			warned := warnedOf
			if strings.Contains(test.caddyfile, "secret123") { // the adapter warns about it
				warned = validateProcess
			}
			got := warned(t, test.caddyfile, "GATE_KEK="+strings.Repeat("ab", 32), "GATE_GUESS=hunter2-hunter2", "GATE_GOOD="+strings.Repeat("0f", 16))
			for _, text := range got {
				if strings.Contains(text, "secret123") || strings.Contains(text, "hunter2") {
					t.Errorf("the secret is told: %s", text)
				}
			}
			holdWarnings(t, got, test.want, "Caddyfile", 0)
		})
	}
}
