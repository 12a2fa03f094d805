package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestG72TheRestOfABodyIsNoRequest: what is still to come of a body when its request is answered must not be read as another
// request. Behind a proxy that shares its connections it would be a request in another client's name.
func TestG72TheRestOfABodyIsNoRequest(t *testing.T) {
	servers := "\t\ttimeouts {\n\t\t\tread_body 500ms\n\t\t}"
	early := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	t.Cleanup(early.Close)
	// Without an access log, which reads how much of a body was read while reverse_proxy still reads it.
	g := startGate(t, strings.Replace(siteWith(servers, "\thandle /early/* {\n\t\tprotect\n\t\treverse_proxy "+early.URL+"\n\t}\n"+
		"\thandle {\n\t\tprotect\n\t\treverse_proxy UPSTREAM\n\t}"), "\tlog\n\toauth_server", "\toauth_server", 1))
	token := g.server("public")
	smuggled := g.request("GET", "/smuggled", "Connection: close")
	for name, test := range map[string]struct {
		path   string
		length int
		sent   string
	}{
		"a body that stalls":       {"/upload", 100 + len(smuggled), "x"},
		"a body that nobody reads": {"/early/upload", 2 << 20, strings.Repeat("x", 400<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			connection, err := net.Dial("tcp", g.addr)
			check(t, err)
			defer func() { _ = connection.Close() }()
			_ = connection.SetDeadline(time.Now().Add(patience))
			head := g.request("POST", test.path, bearer(token), fmt.Sprintf("Content-Length: %d", test.length))
			if _, err := io.WriteString(connection, head+test.sent); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(connection)
			response, err := http.ReadResponse(reader, nil)
			check(t, err)
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if !response.Close {
				t.Errorf("a %d on a connection that stays open", response.StatusCode)
			}
			for range 40 { // wherever a reader may take up again
				_, _ = io.WriteString(connection, smuggled)
			}
			if rest, _ := io.ReadAll(reader); len(rest) > 0 {
				t.Errorf("another answer: %.80q", rest)
			}
			for _, r := range g.upstream.seen() {
				if r.Target != "/upload" {
					t.Errorf("the upstream saw %s", r.Target)
				}
			}
		})
	}
}
