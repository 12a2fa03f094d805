package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// npmPackages is the directory of the scripts and of the packages that they use.
const npmPackages = "testdata/npm"

// interopSite has people and applications of every kind. CALLBACK is the redirect URI of a script's application, at
// another origin and another port than the server.
const interopSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store memory
		password_grant
		limits {
			login off
		}
		scope orders.read "Read your orders"
		organisation acme "Acme Ltd"
		user u-ada {
			email ada@acme.example
			name "Ada Admin"
			password {env.HASH}
			organisation acme
			role admin
		}
		user u-bob {
			email bob@acme.example
			name "Bob Berg"
			password {env.HASH}
			organisation acme
		}
		client conf SECRET {
			name "Order desk"
			grants client_credentials authorization_code refresh_token password
			scopes public trusted refresh_token orders.read
			redirect_uris CALLBACK
		}
		client spa {
			name "Shop window"
			type public
			scopes public trusted refresh_token orders.read
			redirect_uris CALLBACK
		}
		client phone {
			name "Pocket orders"
			type native
			scopes public trusted refresh_token
			redirect_uris http://127.0.0.1/callback com.example.pocket:/callback
		}
		client portal SECRET {
			name "Partner portal"
			grants authorization_code refresh_token
			scopes public trusted refresh_token orders.read
			redirect_uris https://portal.example.com/callback
		}
		client house {
			name "House keys"
			type public
			first_party
			redirect_uris CALLBACK
		}
	}
}

http://ADDR {
	log
	oauth_server
	handle /any/* {
		protect
		reverse_proxy UPSTREAM
	}
	handle /desk/* {
		protect {
			challenge browser
		}
		reverse_proxy UPSTREAM
	}
	handle {
		respond 404
	}
}
`

// startInterop serves a site with people and an application at a free port. It returns the parameters for the script.
func startInterop(t *testing.T, site string) (*gatehouse, map[string]any) {
	t.Helper()
	return startInteropWith(t, site, func(t *testing.T, site, _ string) *gatehouse { return startGatehouse(t, site) })
}

// startInteropWith is startInterop with another function that serves the site, for an application with that redirect
// URI.
func startInteropWith(t *testing.T, site string, start func(t *testing.T, site, callback string) *gatehouse) (*gatehouse, map[string]any) {
	t.Helper()
	t.Setenv("HASH", peopleHash())
	_, port, _ := strings.Cut(freeAddr(t), ":")
	callback := "http://localhost:" + port + "/callback" // localhost is another site than 127.0.0.1
	g := start(t, strings.ReplaceAll(site, "CALLBACK", callback), callback)
	return g, map[string]any{
		"issuer": g.url, "callback": callback, "route": g.url + "/any/x",
		"ada": map[string]string{
			"id": "u-ada", "email": "ada@acme.example", "password": peoplePassword, "name": "Ada Admin",
			"organisation": "acme", "role": "admin",
		},
		"bob": map[string]string{"id": "u-bob", "email": "bob@acme.example", "password": peoplePassword, "name": "Bob Berg"},
		"clients": map[string]map[string]string{
			"conf": {"id": "conf", "secret": confSecret}, "spa": {"id": "spa"}, "phone": {"id": "phone"}, "house": {"id": "house"},
			"portal": {"id": "portal", "secret": confSecret, "redirectURI": "https://portal.example.com/callback"},
		},
	}
}

// runScript runs the checks of a script, each as a subtest, and returns them.
func runScript(t *testing.T, name string, given map[string]any) []checked {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("this test needs Node.js: ", err)
	}
	installPackages(t)
	description, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, node, name)
	script.Dir, script.Stdin = npmPackages, bytes.NewReader(description)
	script.WaitDelay = patience // bounds the wait for a leftover browser that holds the output open
	var complaints strings.Builder
	script.Stderr = &complaints
	output, err := script.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, complaints.String())
	}
	all, err := readChecks(string(output))
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, output)
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			if c.failed {
				t.Error("\n" + c.why)
			}
		})
	}
	return all
}

// installPackages does what `make test` has already done, for a plain `go test`.
func installPackages(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(npmPackages, "node_modules", "@modelcontextprotocol", "client")); err == nil {
		return
	}
	install := exec.Command("npm", "ci")
	install.Dir = npmPackages
	if text, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, text)
	}
}

// checked is a script's result of one check.
type checked struct {
	name   string
	failed bool
	why    string
}

var checkLine = regexp.MustCompile(`(?m)^(ok|not ok) (\d+) - (.*)\n((?:# .*\n)*)`)

// readChecks parses the Test Anything Protocol. A script first prints its number of checks. It is an error if that is
// zero, or if the script did not run to its end.
func readChecks(output string) ([]checked, error) {
	var planned int
	if _, err := fmt.Sscanf(output, "1..%d\n", &planned); err != nil || planned == 0 {
		return nil, errors.New("the script has no checks")
	}
	var all []checked
	for _, line := range checkLine.FindAllStringSubmatch(output, -1) {
		all = append(all, checked{name: line[3], failed: line[1] != "ok", why: line[4]})
		if line[2] != strconv.Itoa(len(all)) {
			return all, fmt.Errorf("check %s came as number %d", line[2], len(all))
		}
	}
	if len(all) != planned {
		return all, fmt.Errorf("%d of %d checks ran", len(all), planned)
	}
	return all, nil
}

// TestNoScriptPassesUnseen tests every way in which a script can check less than it should.
func TestNoScriptPassesUnseen(t *testing.T) {
	for name, test := range map[string]struct {
		output, err string
	}{
		"all ran":        {"1..2\nok 1 - a\nnot ok 2 - b\n# why\n", ""},
		"nothing":        {"", "the script has no checks"},
		"no checks":      {"1..0\n", "the script has no checks"},
		"no plan":        {"ok 1 - a\n", "the script has no checks"},
		"one is missing": {"1..2\nok 1 - a\n", "1 of 2 checks ran"},
		"one too many":   {"1..1\nok 1 - a\nok 2 - b\n", "2 of 1 checks ran"},
		"one ran twice":  {"1..2\nok 1 - a\nok 1 - a\n", "check 1 came as number 2"},
		"cut off":        {"1..2\nok 1 - a\nok 2 - b", "1 of 2 checks ran"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := readChecks(test.output)
			if fmt.Sprint(err) != test.err && (err != nil || test.err != "") {
				t.Errorf("%v, want %s", err, test.err)
			}
			if name == "all ran" && (len(all) != 2 || all[0].failed || !all[1].failed || all[1].why != "# why\n") {
				t.Errorf("%+v", all)
			}
		})
	}
}
