package caddymodule

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const mcpFolder = "../examples/mcp"

// exampleMCP returns the path of a program of examples/mcp, which is its own module.
func exampleMCP(t *testing.T, name string) string {
	t.Helper()
	folder, err := examplesMCP()
	check(t, err)
	return filepath.Join(folder, name)
}

// examplesMCP builds the programs once and returns their directory, which is removed after the tests.
var examplesMCP = sync.OnceValues(func() (string, error) {
	folder := filepath.Join(testsHome, "mcp")
	build := exec.Command("go", "build", "-o", folder+"/", "./server", "./client")
	build.Dir, build.Env = mcpFolder, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -trimpath", "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	return folder, nil
})

// startMCPServer runs the example's server and returns its address.
func startMCPServer(t *testing.T) string {
	t.Helper()
	addr := freeAddr(t)
	server := exec.Command(exampleMCP(t, "server"), "-listen", addr)
	server.Stderr = os.Stderr
	check(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	eventually(t, "the MCP server listens", func() bool {
		answer, err := http.Get("http://" + addr)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil
	})
	return addr
}

// interopMCPSite is interopSite with an MCP server and declared clients for it.
func interopMCPSite(t *testing.T) string {
	t.Helper()
	site := strings.Replace(interopSite, "scope orders.read", `scope mcp:use "Use the notes"
		scope mcp:write "Write notes"
		registration
		client_metadata {
			allow_private_network
		}
		client agent {
			type public
			name "Agent"
			scopes mcp:use mcp:write refresh_token
			redirect_uris CALLBACK
		}
		client desk {
			type native
			name "Agent at the desk"
			scopes mcp:use mcp:write refresh_token
			redirect_uris http://127.0.0.1/callback http://localhost/callback http://[::1]/callback
		}
		client daily {
			type public
			scopes mcp:use refresh_token
			redirect_uris CALLBACK
			tokens {
				refresh 3d
			}
		}
		scope orders.read`, 1)
	return strings.Replace(site, "\thandle {\n\t\trespond 404", `	handle /mcp* {
		protect mcp:use {
			mcp
			tool add_note {
				scope mcp:write
			}
			tool drop_* {
				deny
			}
		}
		reverse_proxy `+startMCPServer(t)+`
	}
	handle {
		respond 404`, 1)
}

// startDescription serves, at an https URL, the metadata document of a client on the user's machine and of a script's
// application. Programs started afterwards trust its certificate as the machine trusts public ones.
func startDescription(t *testing.T, redirectURI string) (clientID string) {
	t.Helper()
	certificate := testCertificate()
	pair, err := tls.X509KeyPair([]byte(certificate["certificate"]), []byte(certificate["key"]))
	check(t, err)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	check(t, os.WriteFile(roots, []byte(certificate["certificate"]), 0o600))
	t.Setenv("SSL_CERT_FILE", roots)
	host := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"client_id": "https://" + r.Host + r.URL.Path, "client_name": "Script", "token_endpoint_auth_method": "none",
			"redirect_uris": []string{redirectURI, "http://127.0.0.1/callback", "http://localhost/callback", "http://[::1]/callback"},
			"grant_types":   []string{"authorization_code", "refresh_token"},
		})
	}))
	host.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	host.StartTLS()
	t.Cleanup(host.Close)
	return strings.Replace(host.URL, "127.0.0.1", "localhost", 1) + "/agent.json"
}

// TestQ140InteropMCP: the TypeScript and Go SDKs with nothing but an MCP server's address → in with one sign-in, by each way of being
// known.
func TestQ140InteropMCP(t *testing.T) {
	site, program := interopMCPSite(t), exampleMCP(t, "client")
	var document string
	g, given := startInteropWith(t, site, func(t *testing.T, site, callback string) *gatehouse {
		document = startDescription(t, callback)
		return startNode(t, site, 4096).gatehouse
	})
	given["server"], given["document"] = g.url+"/mcp", document
	for name, sdk := range map[string]int{"SDK of TypeScript": 1, "second SDK of TypeScript": 2} {
		t.Run(name, func(t *testing.T) {
			given["sdk"] = sdk
			runScript(t, "mcp.mjs", given)
		})
	}
	for name, id := range map[string]string{"was registered before": "desk", "describes itself": document, "registers itself": ""} {
		t.Run("SDK of Go, a client that "+name, func(t *testing.T) {
			if answer, visits := runClient(t, program, "-id", id, g.url+"/mcp/", "whoami"); visits != 1 || !strings.HasPrefix(answer, "u-ada by "+id) {
				t.Errorf("%q after %d sign-ins", answer, visits)
			}
		})
	}
}

// TestQ172InteropOneSignInALifetime: an agent that connects daily, with refresh tokens of three days → refreshed for three days, then one
// sign-in.
func TestQ172InteropOneSignInALifetime(t *testing.T) {
	now := setClock(t)
	g, given := startInterop(t, interopMCPSite(t))
	clock := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now.advance(store.Day)
		if err := g.app().node.Refresh(r.Context()); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(clock.Close)
	given["server"], given["nextDay"], given["sdk"] = g.url+"/mcp", clock.URL, 2
	runScript(t, "mcp-daily.mjs", given)
}

// allow opens an address in a new browser, signs in there and consents to every request, until the application has
// its answer.
func allow(t *testing.T, address, email string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check(t, err)
	client := &http.Client{Jar: jar}
	request, err := http.NewRequest(http.MethodGet, address, nil)
	check(t, err)
	for range 3 {
		answer, err := client.Do(request)
		check(t, err)
		body, err := io.ReadAll(answer.Body)
		check(t, err)
		_ = answer.Body.Close()
		at := answer.Request.URL
		if at.Path == "/callback" {
			return
		}
		action, fields := formIn(t, page{status: answer.StatusCode, header: answer.Header, body: string(body)})
		if strings.Contains(string(body), `name="password"`) {
			fields.Set("email", email)
			fields.Set("password", peoplePassword)
		} else {
			fields.Set("decision", "allow")
		}
		next, err := at.Parse(action)
		check(t, err)
		request, err = http.NewRequest(http.MethodPost, next.String(), strings.NewReader(fields.Encode()))
		check(t, err)
		request.Header.Set("Content-Type", urlEncoded)
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	t.Fatal("asked three times, and the application has no answer")
}

// runClient runs the example's client and signs in where it says. It returns the rest of the client's output, and how
// many times the client asked.
func runClient(t *testing.T, program string, arguments ...string) (answer string, visits int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, arguments...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if address, found := strings.CutPrefix(lines.Text(), "Sign in at "); found {
			allow(t, address, "ada@acme.example")
			visits++
			continue
		}
		answer += lines.Text() + "\n"
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %q", err, answer)
	}
	return answer, visits
}

// TestQ141InteropTheMCPExample: `examples/mcp` as its first lines say → in, each tool answers.
func TestQ141InteropTheMCPExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(mcpFolder, "Caddyfile"))
	check(t, err)
	file := strings.ReplaceAll(string(text), "127.0.0.1:3000", startMCPServer(t))
	file = hashesWritten.ReplaceAllLiteralString(file, peopleHash())
	g := startPortal(t, file)
	client := exampleMCP(t, "client")
	for tool, want := range map[string]string{
		"":                  "add_note: Adds a note.\n",
		"whoami":            "u-ada by ",
		"add_note text=Tea": "Noted.\n",
		"read_notes":        "gatehouse: read this",
	} {
		t.Run("tool "+tool, func(t *testing.T) {
			address := g.url + "/mcp"
			answer, visits := runClient(t, client, append([]string{address}, strings.Fields(tool)...)...)
			if !strings.Contains(answer, want) {
				t.Errorf("%q, want %q", answer, want)
			}
			if stepsUp := strings.HasPrefix(tool, "add_note"); visits != map[bool]int{false: 1, true: 2}[stepsUp] {
				t.Errorf("signed in %d times", visits)
			}
		})
	}
}
