package caddymodule

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownProcess is a Caddy in its own process.
type ownProcess struct {
	*gatehouse
	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// startNode runs a Caddyfile like startGatehouse, in a process that may open at most the given number of files.
func startNode(t *testing.T, caddyfile string, files int) *ownProcess {
	t.Helper()
	dir := t.TempDir()
	n := &ownProcess{ended: make(chan struct{}), gatehouse: &gatehouse{
		t: t, addr: freeAddr(t), admin: freeAddr(t), upstream: startUpstream(t), logFile: filepath.Join(dir, "caddy.log"),
	}}
	n.url = "http://" + n.addr
	n.vars = strings.NewReplacer("ADDR", n.addr, "ADMIN", n.admin, "UPSTREAM", n.upstream.addr, "LOG", n.logFile,
		"DIR", dir, "SECRET", confSecret)
	config := filepath.Join(dir, "Caddyfile")
	check(t, os.WriteFile(config, []byte(n.vars.Replace(caddyfile)), 0o600))
	program, err := os.Executable()
	check(t, err)
	n.command = exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" run --adapter caddyfile --config "$1"`, files), program, config)
	n.command.Dir = dir
	n.command.Env = append(os.Environ(), nodeName+"=1", "XDG_DATA_HOME="+filepath.Join(dir, "data"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	output, err := os.Create(filepath.Join(dir, "output"))
	check(t, err)
	n.command.Stdout, n.command.Stderr = output, output
	check(t, n.command.Start())
	go func() {
		defer close(n.ended)
		_ = n.command.Wait() // ProcessState has the result
		_ = output.Close()
	}()
	t.Cleanup(func() {
		_ = n.command.Process.Kill()
		<-n.ended
		if text, err := os.ReadFile(output.Name()); err == nil && t.Failed() {
			t.Logf("the node said: %.4000s", text)
		}
	})
	n.eventually("the node serves", func() bool { return n.answers(new(http.Client), "/oauth/jwks") == http.StatusOK })
	return n
}

// running reports whether the process still runs.
func (n *ownProcess) running() bool {
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// end asks the process to end and requires an orderly exit.
func (n *ownProcess) end() {
	n.t.Helper()
	check(n.t, n.command.Process.Signal(syscall.SIGTERM))
	n.eventually("the node has ended", func() bool { return !n.running() })
	if code := n.command.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("it ended with %d", code)
	}
}

// answers returns the status of a GET, or 0 without an answer.
func (n *ownProcess) answers(client *http.Client, path string, headers ...string) int {
	request, err := http.NewRequest(http.MethodGet, n.url+path, nil)
	if err != nil {
		return 0
	}
	if len(headers) == 2 {
		request.Header.Set(headers[0], headers[1])
	}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// openFiles counts the process's open files.
func (n *ownProcess) openFiles() int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.command.Process.Pid))
	if err != nil {
		n.t.Fatalf("counting the node's files: %v", err)
	}
	return len(entries)
}

// TestF24FewDescriptors: three times as many connections as a node may open files → 200, 502 or 503, the node lives, and it serves when
// they are gone.
func TestF24FewDescriptors(t *testing.T) {
	const limit = 256
	n := startNode(t, peopleSite(onDiskPeople...), limit)
	r := requestOf("conf")
	got := n.userTokens(r, ada)
	kept := &http.Client{Timeout: patience, Transport: &http.Transport{MaxConnsPerHost: 1}}
	bearer := []string{"Authorization", "Bearer " + got.AccessToken}
	if status := n.answers(kept, "/api/x", bearer...); status != http.StatusOK {
		t.Fatalf("the gate: %d", status)
	}

	var crowd []net.Conn
	for range 3 * limit {
		connection, err := net.Dial("tcp", n.addr)
		check(t, err)
		crowd = append(crowd, connection)
		_, _ = io.WriteString(connection, "GET /api/x HTTP/1.1\r\nHost: ")
	}
	defer func() {
		for _, connection := range crowd {
			_ = connection.Close()
		}
	}()
	n.eventually("no descriptor is left", func() bool { return n.openFiles() >= limit })
	seen := make(map[string]int)
	for range 40 {
		seen[fmt.Sprint("gate ", n.answers(kept, "/api/x", bearer...))]++
		status, body := n.refreshBy(kept, r.refresh(got.RefreshToken))
		seen[fmt.Sprint("token ", status)]++
		switch {
		case status == http.StatusOK:
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Error(err)
			}
		case status == http.StatusServiceUnavailable && member(t, body, "error") == "temporarily_unavailable":
		case status != 0:
			t.Errorf("the token endpoint: %d %s", status, body)
		}
	}
	t.Logf("in want of descriptors: %v", seen)
	for answer := range seen {
		switch answer {
		case "gate 0", "gate 200", "gate 502", "gate 503", "token 0", "token 200", "token 503":
		default:
			t.Errorf("an answer was %s", answer)
		}
	}
	if !n.running() {
		t.Fatalf("the node is gone: %s", n.command.ProcessState)
	}

	for _, connection := range crowd {
		_ = connection.Close()
	}
	fresh := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	n.eventually("the gate serves again", func() bool { return n.answers(fresh, "/api/x", bearer...) == http.StatusOK })
	got = n.obtain(r.refresh(got.RefreshToken))
	if again := n.userTokens(r, ada); !n.alive(got.AccessToken) || !n.alive(again.AccessToken) {
		t.Error("the gate refuses a good token")
	}
	n.end()
	soundAt(t, n.database())
}

// refreshBy posts a form over the client's own connection. Status 0 means that there was no answer.
func (n *ownProcess) refreshBy(client *http.Client, form url.Values) (int, string) {
	response, err := client.PostForm(n.url+"/oauth/token", form)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(body)
}
