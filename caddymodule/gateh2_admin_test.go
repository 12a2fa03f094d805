package caddymodule

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestG99EveryOperationOfTheAdminAPI checks that a GET shows no secret and changes nothing, and that only the documented methods of a path
// do anything.
func TestG99EveryOperationOfTheAdminAPI(t *testing.T) {
	g := startGatehouse(t, durableSite)
	created := g.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"acme","name":"Acme"}`)
	secret := member(t, created, "client_secret")
	g.must(http.StatusCreated, "POST", "/oauth/organisations", `{"id":"org-1","name":"One"}`)

	methods := make(map[string][]string) // by path; a test of package admin compares the document with the routes
	documented := regexp.MustCompile("`(GET|POST|PATCH|DELETE) (/oauth/[^`?]*)`")
	for _, operation := range documented.FindAllStringSubmatch(readFile(t, "../docs/operations.md"), -1) {
		path := strings.ReplaceAll(operation[2], "ID", "acme")
		methods[path] = append(methods[path], operation[1])
	}
	if len(methods) < 20 {
		t.Fatalf("%d paths", len(methods))
	}
	state := func() string {
		var all strings.Builder
		for _, path := range []string{"/oauth/clients", "/oauth/organisations", "/oauth/users", "/oauth/keys"} {
			status, _, body := g.operate("GET", path, "")
			all.WriteString(path + itoa(status) + body)
		}
		return all.String()
	}
	before := state()
	if !strings.Contains(before, "acme") || !strings.Contains(before, "org-1") {
		t.Fatal(before)
	}
	hashes := regexp.MustCompile(`\$argon2|\$2[aby]\$|PRIVATE|"(d|hash|secret|client_secret|secret_hash|password|private)":`)
	for path, has := range methods {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "POST", "TRACE", "OPTIONS", "get", "FOO"} {
			if slices.Contains(has, method) && method != "GET" || method == "HEAD" && slices.Contains(has, "GET") {
				continue // documented methods may have effects
			}
			status, header, body := g.operate(method, path, "{}")
			if method == "GET" && slices.Contains(has, "GET") {
				if status >= 500 && path != "/oauth/ready" {
					t.Errorf("GET %s: %d %s", path, status, body)
				}
				if hashes.MatchString(body) || strings.Contains(body, secret) || strings.Contains(body, confSecret) {
					t.Errorf("GET %s shows %s", path, body)
				}
				continue
			}
			if status != http.StatusMethodNotAllowed || !strings.Contains(header.Get("Allow"), has[0]) {
				t.Errorf("%s %s: %d, Allow: %q", method, path, status, header.Get("Allow"))
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("something changed: %s\nwas: %s", after, before)
	}
}
