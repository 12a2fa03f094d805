package oauth

import (
	"strings"
	"testing"
)

// TestQ40ClientURLs: a client_id URL in any but its shortest spelling, with credentials, fragment, plain http or beyond ASCII → 400 page,
// nothing is fetched.
func TestQ40ClientURLs(t *testing.T) {
	for _, good := range []string{
		"https://app.example/client.json", "https://app.example:8443/a/b", "https://app.example/a?b=c", "https://app.example/a/", "https://xn--bcher-kva.example/id",
		"https://app.example/a..b/.well-known/x", "https://app.example/a%20b",
	} {
		if err := CheckClientURL(good, false); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, local := range []string{"http://127.0.0.1:8080/client.json", "http://localhost/id", "http://[::1]:9/id"} {
		if err := CheckClientURL(local, true); err != nil {
			t.Errorf("%s: %v", local, err)
		}
		if CheckClientURL(local, false) == nil {
			t.Errorf("%s is taken where private networks are not allowed", local)
		}
	}
	for _, bad := range []string{
		"", "app", "app.example/x", "//app.example/x", "https:app.example/x", "https:///x", "https://app.example", "https://app.example/", "https://app.example?x",
		"http://app.example/x", "ftp://app.example/x", "HTTPS://app.example/x", "https://App.example/x", "https://app.example./x", "https://app.example:/x",
		"https://app.example:443/x", "https://app.example:08443/x", "http://localhost:80/x", "https://me@app.example/x", "https://me:pw@app.example/x", "https://app.example/x#", "https://app.example/x#y",
		"https://app.example/../x", "https://app.example/a/./b", "https://app.example/a/%2e%2e/b", "https://app.example/a/%2E/b", "https://app.example/a%2f..%2fb", "https://app.example/a\\b", "https://app.example/a b",
		"https://app.example/\u00e9", "https://b\u00fccher.example/x", "https://app.example/\x00", "https://app.example/%", "https://" + strings.Repeat("a", 250) + ".example/x",
	} {
		if CheckClientURL(bad, true) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestQ220HostsInPlainLetters: a client or redirect host with letters beyond ASCII that looks like a known one → refused, to be written
// as xn--.
func TestQ220HostsInPlainLetters(t *testing.T) {
	for _, bad := range []string{
		"https://%D1%81laude.ai/x", "https://claude.ai%E2%80%AE.evil.example/x", "https://claude.ai%e2%81%84.evil.example/x", "https://claude.ai;.evil.example/x",
		"https://claude.ai,evil.example/x", "https://claude.ai(.evil.example/x", "https://claude.ai$evil.example/x", "https://claude.ai'.evil.example/x", "https://[fe80::1%25claude.ai]/x",
	} {
		if CheckClientURL(bad, true) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
