package command

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/moving"
)

// TestDK40AnImportThatStoodStill: the last call of an import began longer ago than its lease lasts, whether the answer or the source took the
// time → it sends nothing more, because another may have begun, which has read newer rows.
func TestDK40AnImportThatStoodStill(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	passes := time.Duration(0) // during a call
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now = now.Add(passes)
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(server.Close)
	for name, times := range map[string][2]time.Duration{ // during a call, and after it
		"the API": {admin.ImportLease + time.Second, 0}, "the source": {0, admin.ImportLease + time.Second}, "nothing": {time.Second, time.Second},
	} {
		m := doorkeeperImport{api: &apiClient{address: strings.TrimPrefix(server.URL, "http://")}, now: func() time.Time { return now }}
		passes = times[0]
		if err := m.call(admin.ImportTokens.For(), admin.TokensToImport{}, new(admin.ImportedTokens)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(times[1])
		err := m.call(admin.ImportTokens.For(), admin.TokensToImport{}, new(admin.ImportedTokens))
		if stood := err != nil && strings.Contains(err.Error(), "stood still"); stood != (name != "nothing") {
			t.Errorf("%s took long: %v", name, err)
		}
	}
}

// TestDK44WhatABrokenImportLeft: a source that breaks off → the error says that what was brought over stays, and of a dry run that nothing was
// stored.
func TestDK44WhatABrokenImportLeft(t *testing.T) {
	dump := filepath.Join(t.TempDir(), "dump.jsonl")
	if err := os.WriteFile(dump, []byte("{\"table\": \"oauth_applications\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	for dry, want := range map[bool]string{true: "; nothing was stored", false: "; what was brought over stays, and the same command goes on"} {
		cmd := importDoorkeeper(&apiClient{address: strings.TrimPrefix(server.URL, "http://")})
		cmd.SetArgs([]string{"--from", dump, "--source", "old", "--tokens", "plain", "--secrets", "plain", fmt.Sprint("--dry-run=", dry)})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("dry run %v: %v", dry, err)
		}
	}
}

// TestDK45AStretchThatCannotBeStored: the API fails at a stretch of tokens, the second or the last → the import ends with its error, and sends
// none of the stretches after it.
func TestDK45AStretchThatCannotBeStored(t *testing.T) {
	var rows strings.Builder
	rows.WriteString(`{"table": "oauth_applications", "id": 1, "uid": "portal", "secret": "s", "confidential": true}` + "\n")
	for id := range 2*moving.PageRows + 1 {
		_, _ = fmt.Fprintf(&rows, `{"table": "oauth_access_tokens", "id": %d, "application_id": 1, "token": "opaque-token-number-%d", "created_at": "2026-01-02 03:04:05"}`+"\n", id+1, id)
	}
	dump := filepath.Join(t.TempDir(), "dump.jsonl")
	if err := os.WriteFile(dump, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, failing := range []int{2, 3} {
		stretches := 0
		mux := http.NewServeMux()
		mux.HandleFunc("POST /oauth/imports/clients", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `[{"user": "portal", "id": "portal", "result": "added"}]`)
		})
		mux.HandleFunc("POST /oauth/imports/tokens", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the client may find its connection reset before it has read the answer
			if stretches++; stretches == failing {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, `{"error": "the disk is full"}`)
				return
			}
			_, _ = io.WriteString(w, `{}`)
		})
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		cmd := importDoorkeeper(&apiClient{address: strings.TrimPrefix(server.URL, "http://")})
		cmd.SetArgs([]string{"--from", dump, "--source", "old", "--tokens", "plain", "--secrets", "plain"})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.HasPrefix(err.Error(), "the disk is full") || stretches != failing {
			t.Errorf("stretch %d: %v, %d were sent", failing, err, stretches)
		}
	}
}
