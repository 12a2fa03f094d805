package caddymodule

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const mcpFolder = "../examples/mcp"

// exampleMCP builds a program of examples/mcp, which is a module of its own.
func exampleMCP(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-o", path, "./"+name)
	build.Dir, build.Env = mcpFolder, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return path
}

// startMCPServer runs the example's server, and returns where it listens.
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

// TestQ140InteropMCP: the SDKs get in with nothing but the address of the server.
func TestQ140InteropMCP(t *testing.T) {
	site := strings.Replace(interopSite, "scope orders.read", `scope mcp:use "Use the notes"
		scope mcp:write "Write notes"
		registration
		client agent {
			type public
			name "Agent"
			scopes mcp:use mcp:write refresh_token
			redirect_uris CALLBACK
		}
		scope orders.read`, 1)
	site = strings.Replace(site, "\thandle {\n\t\trespond 404", `	handle /mcp* {
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
	g, given := startInterop(t, site)
	given["server"] = g.url + "/mcp"
	for name, sdk := range map[string]int{"SDK of TypeScript": 1, "second SDK of TypeScript": 2} {
		t.Run(name, func(t *testing.T) {
			given["sdk"] = sdk
			runScript(t, "mcp.mjs", given)
		})
	}
}

// allow opens an address in a new browser, signs in there, and says yes to what is asked, until the application has its answer.
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

// TestQ141InteropTheMCPExample runs examples/mcp as its first lines say, with the SDK of Go.
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
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, client, append([]string{strings.Replace(g.url, "127.0.0.1", "localhost", 1) + "/mcp"}, strings.Fields(tool)...)...)
			c.Stderr = os.Stderr
			out, err := c.StdoutPipe()
			check(t, err)
			check(t, c.Start())
			var answer strings.Builder
			visits := 0
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if address, found := strings.CutPrefix(lines.Text(), "Sign in at "); found {
					allow(t, address, "ada@acme.example")
					visits++
					continue
				}
				answer.WriteString(lines.Text() + "\n")
			}
			if err := c.Wait(); err != nil || !strings.Contains(answer.String(), want) {
				t.Errorf("%v: %q, want %q", err, answer.String(), want)
			}
			if stepsUp := strings.HasPrefix(tool, "add_note"); visits != map[bool]int{false: 1, true: 2}[stepsUp] {
				t.Errorf("signed in %d times", visits)
			}
		})
	}
}
