package caddymodule

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// TestI1StrangeIDsAreNoOutage: an id with NUL or invalid UTF-8 → refused like an unknown id, with every store, and not 503.
func TestI1StrangeIDsAreNoOutage(t *testing.T) {
	for name, store := range map[string]string{
		"sqlite": "store sqlite DIR/strange.db", "postgres": "store postgres " + pgtest.Shared(t).Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			g := startGatehouse(t, strings.Replace(site, "store memory", store, 1))
			g.awaitServing()
			for name, id := range map[string]string{"NUL": "a\x00b", "not UTF-8": "\xff\xfe"} {
				want := func(door string, got, status int, body string) {
					t.Helper()
					if got != status {
						t.Errorf("%s, %s: %d, want %d: %s", door, name, got, status, body)
					}
				}
				form := url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {"x"}}
				status, _, body := g.post("/oauth/token", form)
				want("token", status, http.StatusUnauthorized, body)
				basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":x"))
				status, _, body = g.do(http.MethodPost, "/oauth/token", ccGrant, "Content-Type", "application/x-www-form-urlencoded", "Authorization", basic)
				want("token, with basic", status, http.StatusUnauthorized, body)
				status, _, body = g.get("/oauth/authorize?response_type=code&client_id="+url.QueryEscape(id), "")
				want("authorize", status, http.StatusBadRequest, body)
				path := url.PathEscape(id)
				for _, c := range []struct {
					method, path, body string
					status             int
				}{
					{http.MethodGet, "/oauth/clients/" + path, "", http.StatusNotFound},
					{http.MethodDelete, "/oauth/clients/" + path, "", http.StatusNotFound},
					{http.MethodGet, "/oauth/users/" + path, "", http.StatusNotFound},
					{http.MethodDelete, "/oauth/users/" + path, "", http.StatusNotFound},
					{http.MethodDelete, "/oauth/organisations/" + path, "", http.StatusNotFound},
					{http.MethodGet, "/oauth/users?organisation=" + url.QueryEscape(id), "", http.StatusOK},
				} {
					status, _, body := g.operate(c.method, c.path, c.body)
					want(c.method+" "+c.path, status, c.status, body)
				}
			}
			for _, kind := range []string{"jti", "family", "user", "client", "organisation"} {
				for _, id := range []string{`a\u0000b`, strings.Repeat("a", 256)} {
					status, _, body := g.operate(http.MethodPost, "/oauth/revocations", `{"`+kind+`":"`+id+`"}`)
					if status != http.StatusBadRequest {
						t.Errorf("revoking a %s of %d bytes: %d %s", kind, len(id), status, body)
					}
				}
			}
		})
	}
}
