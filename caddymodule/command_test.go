package caddymodule

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
)

// run runs `caddy oauth …` against the running Caddy. It returns an error where Caddy would exit with code 1.
func (g *gatehouse) run(stdin string, args ...string) (string, error) {
	return runCommand(stdin, append([]string{"--address", g.admin}, args...)...)
}

func runCommand(stdin string, args ...string) (string, error) {
	oauth := &cobra.Command{Use: "oauth"}
	caddycmd.Commands()["oauth"].CobraFunc(oauth)
	root := &cobra.Command{Use: "caddy", SilenceUsage: true, SilenceErrors: true} // as Caddy's own, except for the printing
	root.AddCommand(oauth)
	var out, errors bytes.Buffer
	root.SetArgs(append([]string{"oauth"}, args...))
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errors)
	err := root.Execute()
	return out.String(), err
}

// ok is like run for a command that must succeed.
func (g *gatehouse) ok(args ...string) string {
	g.t.Helper()
	out, err := g.run("", args...)
	if err != nil {
		g.t.Fatalf("caddy oauth %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// printed returns the text after a word at the start of a line.
func printed(t *testing.T, out, word string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == word {
			return strings.Join(fields[1:], " ")
		}
	}
	t.Fatalf("there is no %s in\n%s", word, out)
	return ""
}

// decoded decodes the output of --json.
func decoded[T any](t *testing.T, out string) (value T) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return value
}

// TestCommandClient takes a client through `caddy oauth client`.
func TestCommandClient(t *testing.T) {
	clock := setClock(t)
	g := startGatehouse(t, durableSite)
	out := g.ok("client", "add", "--name", "Partner portal", "--id", "a/b c%2F?", "--grant", "client_credentials",
		"--grant", "authorization_code", "--scope", "public", "--scope", "trusted", "--redirect-uri", "https://p.example/cb", "--first-party", "--pkce", "required")
	id, secret := printed(t, out, "client_id"), printed(t, out, "client_secret")
	if id != "a/b c%2F?" || !strings.Contains(out, "This is the only time that the secret is shown.") {
		t.Errorf("add printed\n%s", out)
	}
	shown := g.ok("client", "show", id)
	for _, want := range []string{
		"Partner portal", "confidential", "client_credentials authorization_code", "public trusted", "https://p.example/cb", "pkce", "store", "enabled", "made ",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("show lacks %q in\n%s", want, shown)
		}
	}
	list := g.ok("client", "list")
	if strings.Count(list, "\n") != 6 || !strings.HasPrefix(list, "ID") || !strings.Contains(list, "config") || !strings.Contains(list, "Partner portal") {
		t.Errorf("list printed\n%s", list)
	}
	if strings.Contains(shown+list, secret) {
		t.Error("the secret is shown again")
	}

	rotated := g.ok("client", "rotate-secret", id)
	second := printed(t, rotated, "client_secret")
	if !strings.Contains(rotated, "The old one is good for another 24h.") {
		t.Errorf("rotate-secret printed\n%s", rotated)
	}
	for _, s := range []string{secret, second} {
		if status, _ := g.tokenFor(id, s); status != http.StatusOK {
			t.Errorf("within the overlap: %d", status)
		}
	}
	if shown := g.ok("client", "show", id); strings.Count(shown, "\nsecret ") != 2 {
		t.Errorf("show printed\n%s", shown)
	}
	clock.advance(24*time.Hour + time.Second)
	g.eventually("the revocations are fresh", func() bool { return g.app().node.Revocations.Age(g.app().node.Now()) < time.Minute })
	for s, want := range map[string]int{secret: 401, second: 200} {
		if status, _ := g.tokenFor(id, s); status != want {
			t.Errorf("after the overlap: %d, want %d", status, want)
		}
	}
	rotated = g.ok("client", "rotate-secret", id, "--overlap", "0s")
	third := printed(t, rotated, "client_secret")
	if !strings.Contains(rotated, "The old one has ended.") {
		t.Errorf("rotate-secret printed\n%s", rotated)
	}
	for s, want := range map[string]int{secret: 401, second: 401, third: 200} {
		if status, _ := g.tokenFor(id, s); status != want {
			t.Errorf("after the rotation without overlap: %d, want %d", status, want)
		}
	}

	_, token := g.tokenFor(id, third)
	if out := g.ok("client", "disable", id); out != "" || g.gate(token) != 401 {
		t.Errorf("disable printed %q, and the gate answers %d", out, g.gate(token))
	}
	if status, _ := g.tokenFor(id, third); status != 401 || !strings.Contains(g.ok("client", "show", id), "disabled") {
		t.Errorf("a disabled client: %d", status)
	}
	g.ok("client", "enable", id)
	clock.advance(10 * time.Second)
	status, token := g.tokenFor(id, third)
	if status != 200 || g.gate(token) != 200 {
		t.Errorf("an enabled client: %d", status)
	}
	g.ok("client", "remove", id)
	if g.gate(token) != 401 || strings.Contains(g.ok("client", "list"), id) {
		t.Error("a removed client is there")
	}
}

// TestCommandClientJSON checks that --json prints JSON for every command with output.
func TestCommandClientJSON(t *testing.T) {
	g := startGatehouse(t, site)
	added := decoded[clientView](t, g.ok("client", "add", "--name", "Acme", "--json"))
	if added.ID == "" || len(added.Secret) < 32 || added.Source != "store" || added.CreatedAt.IsZero() {
		t.Errorf("added %+v", added)
	}
	shown := decoded[clientView](t, g.ok("client", "show", added.ID, "--json"))
	if shown.Secret != "" || len(shown.Secrets) != 1 || shown.ID != added.ID {
		t.Errorf("shown %+v", shown)
	}
	if list := decoded[[]clientView](t, g.ok("client", "list", "--json")); len(list) != 5 || slices.ContainsFunc(list, func(c clientView) bool { return (c.Source == "store") != (c.ID == added.ID) }) {
		t.Errorf("listed %+v", list)
	}
	if rotated := decoded[clientSecret](t, g.ok("client", "rotate-secret", added.ID, "--json")); rotated.ID != added.ID || rotated.Secret == added.Secret {
		t.Errorf("rotated %+v", rotated)
	}
	public := decoded[clientView](t, g.ok("client", "add", "--name", "App", "--type", "public", "--redirect-uri", "https://app.example/cb", "--json"))
	if public.Secret != "" || len(public.Secrets) != 0 || len(public.Grants) != 2 {
		t.Errorf("added %+v", public)
	}
	if out := g.ok("client", "add", "--name", "Phone", "--type", "native", "--redirect-uri", "http://localhost/cb"); strings.Contains(out, "secret") {
		t.Errorf("a native client got a secret:\n%s", out)
	}
	minted := decoded[mintedToken](t, g.ok("token", "mint", "--client", added.ID, "--lifetime", "15m", "--json"))
	if minted.ExpiresIn != 900 || minted.TokenType != "Bearer" || minted.Scope != "public" || g.gate(minted.AccessToken) != 200 {
		t.Errorf("minted %+v", minted)
	}
	if ks := decoded[[]keyView](t, g.ok("keys", "list", "--json")); len(ks) != 1 || ks[0].State != keys.StateSigning || ks[0].Algorithm != "ES256" {
		t.Errorf("keys %+v", ks)
	}
	out, err := g.run(minted.AccessToken, "token", "explain", "--json")
	check(t, err)
	if x := decoded[explanation](t, out); !x.Accepted || x.ID != minted.ID || len(x.Findings) < 8 || x.Subject != added.ID {
		t.Errorf("explained %+v", x)
	}
}

// hasLine reports whether a line begins with the first word and contains the others.
func hasLine(out string, words []string) bool {
	for line := range strings.Lines(out) {
		missing := func(word string) bool { return !strings.Contains(line, word) }
		if strings.HasPrefix(line, words[0]+" ") && !slices.ContainsFunc(words, missing) {
			return true
		}
	}
	return false
}

// gateOf is like gate and returns 0 for an empty token.
func (g *gatehouse) gateOf(token string) int {
	token = strings.TrimSpace(token)
	if token == "" {
		return 0
	}
	return g.gate(token)
}

// decodedID returns the jti of a token as `token explain` prints it.
func decodedID(t *testing.T, g *gatehouse, token string) string {
	t.Helper()
	out, err := g.run(token, "token", "explain", "--json")
	check(t, err)
	return decoded[explanation](t, out).ID
}

// TestCommandErrors checks that a mistake exits with code 1 and one readable sentence.
func TestCommandErrors(t *testing.T) {
	g := startGatehouse(t, site)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"client", "show", ".."}, "there is no such client"},
		{[]string{"client", "remove", "conf"}, "it is declared in the configuration: change it there"},
		{[]string{"client", "rotate-secret", "conf", "--overlap", ""}, `"" is no duration: write it as 90s, 15m, 2h or 28d`},
		{[]string{"client", "rotate-secret", "conf", "--overlap", "soon"}, `"soon" is no duration: write it as 90s, 15m, 2h or 28d`},
		{[]string{"client", "add"}, `required flag(s) "name" not set`},
		{[]string{"client", "add", "--name", "  "}, "client name: write more than spaces, or leave it out"},
		{[]string{"client", "add", "--name", "x", "--secret", "mine"}, "unknown flag: --secret"},
		{[]string{"client", "show"}, "accepts 1 arg(s), received 0"},
		{[]string{"client", "remov", "conf"}, `unknown command "remov" for "caddy oauth client"`},
		{[]string{"clients"}, `unknown command "clients" for "caddy oauth"`},
		{[]string{"token", "mint"}, `required flag(s) "client" not set`},
		{[]string{"token", "mint", "--client", "conf", "--scope", "trusted"}, "The requested scope is invalid, unknown, or malformed. (scope_not_allowed)"},
		{[]string{"token", "mint", "--client", "conf", "--lifetime", "0s"}, "token lifetime 0s: use 1s to 35d"},
		{[]string{"token", "revoke"}, "name one of --jti, --family, --user and --client"},
		{[]string{"token", "revoke", "--jti", "a", "--force"}, "--force belongs to --family, --user and --client"},
		{[]string{"token", "revoke", "--jti", "a", "--client", "b"}, "name one of --jti, --family, --user and --client"},
		{[]string{"keys", "renew"}, `unknown command "renew" for "caddy oauth keys"`},
		{[]string{"keys", "revoke", "nobody"}, "there is no such signing key"},
		{[]string{"keys", "revoke", ""}, "name the key to revoke: kid"},
	} {
		out, err := g.run("", test.args...)
		if err == nil || err.Error() != test.want {
			t.Errorf("caddy oauth %q: %v, want %s", test.args, err, test.want)
		}
		if out != "" {
			t.Errorf("caddy oauth %q printed %s", test.args, out)
		}
	}
	_, err := runCommand("", "--address", freeAddr(t), "client", "list")
	if err == nil || !strings.Contains(err.Error(), "is Caddy running") || unicode.IsUpper([]rune(err.Error())[0]) {
		t.Errorf("nobody listens: %v", err)
	}
	if out, err := runCommand(""); err != nil || !strings.Contains(out, "Available Commands") {
		t.Errorf("caddy oauth: %v\n%s", err, out)
	}
}

// TestCommandOverAUnixSocket checks the command over a socket. The mode of the socket's file decides who may administer.
func TestCommandOverAUnixSocket(t *testing.T) {
	directory, err := os.MkdirTemp("", "gatehouse") // a socket's path must be short
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	address := "unix/" + filepath.Join(directory, "admin.sock")
	startGatehouse(t, strings.Replace(site, "admin ADMIN", "admin "+address, 1))
	out, err := runCommand("", "--address", address, "client", "list")
	if err != nil || !strings.Contains(out, "legacy") {
		t.Errorf("%v\n%s", err, out)
	}
}
