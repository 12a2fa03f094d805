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

// openShapes are sites that fail open, or seem to ask for what they do not. Of each is wanted which line is warned of, the
// first line of the site's block being 1, and words of the warning.
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

// validateProcess runs `caddy validate` in a process of its own and returns the warnings of ours.
func validateProcess(t *testing.T, caddyfile string, env ...string) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(caddyfile), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "validate", "--config", "Caddyfile")
	command.Dir = dir
	command.Env = slices.Concat(os.Environ(), []string{nodeName + "=1", "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, env)
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "Valid configuration") {
		t.Fatalf("%v\n%s", err, output)
	}
	return warningsIn(string(output))
}

// warnedOf validates a Caddyfile in this process, as `caddy validate` does, and returns the warnings of ours.
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

// located begins a warning about a line of a file.
var located = regexp.MustCompile(`^\S+:\d+: `)

// warningsIn returns what our app warned of in a log, with file and line.
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

// holdWarnings holds warnings to lines, counted from an offset, and words.
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
	if err := json.Unmarshal([]byte(number), &n); err != nil {
		t.Fatal(err)
	}
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

// TestG83EveryLoadWarns: the same is said when the configuration is loaded, also by a gate without an issuer, and a directive
// in an imported file is named where it stands.
func TestG83EveryLoadWarns(t *testing.T) {
	g := startGatehouse(t, site)
	if got := warningsIn(g.logs()); got != nil {
		t.Errorf("of a good configuration: %q", got)
	}
	imported := filepath.Join(t.TempDir(), "gate.caddy")
	if err := os.WriteFile(imported, []byte("\n\nprotect /api/* {\nissuer corp\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.reload("{\nadmin ADMIN\nlog {\noutput file LOG\n}\noauth {\ntrust corp https://login.example {\naudience https://api.example\n}\n}\n}\nhttp://ADDR {\nimport " +
		imported + "\nreverse_proxy UPSTREAM\n}\n")
	holdWarnings(t, warningsIn(g.logs()), []string{"3 path /api/* only"}, imported, 0)
}

// TestG83SecretsThroughTheFile: a secret that Caddy has put into the file is as good as written out, and it is said where.
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
