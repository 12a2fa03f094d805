package caddymodule

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestF31NoLogHoldsACredential: every flow with all logs on → no log, metric, trace or stored audit event holds a credential. It runs
// every flow, good and bad, with the log at DEBUG and access logs on, and then looks for every credential sent, in
// each of its forms.
func TestF31NoLogHoldsACredential(t *testing.T) {
	d := openDoor(t, strings.Replace(onDisk, "store sqlite", "audit\n\t\tstore sqlite", 1))
	stored := ""
	registered := d.register(t, store.Client{ID: "app"})
	credentials := map[string]string{
		"declared secret": confSecret, "other's secret": "other-" + confSecret, "generated secret": registered,
		"wrong secret": "wrong-5f4dcc3b5aa765d61d8327deb882cf99", "odd secret": "od d+%&é:7d793037a0760186",
		"query secret": "query-1f3870be274f6c49b3e31a0c6728957f", "unknown client's secret": "unknown-eccbc87e4b5ce2fe28308fd9f2a7baf3",
		"code": "code-c4ca4238a0b923820dcc509a6f75849b", "refresh token": "refresh-c81e728d9d4c2f636f067f89cc14862c",
		"password": "password-e4da3b7fbbce2345d7772b0674a318d5", "verifier": "verifier-1679091c5a880faf6fb5e6087eb1b2dc",
		"malformed bearer": "bearer-8f14e45fceea167a5a36dedd4bea2543",
	}
	wrong, query, odd := credentials["wrong secret"], credentials["query secret"], credentials["odd secret"]

	// The token endpoint, granted and refused at every step.
	tokens := []string{d.token()}
	for _, e := range encodings {
		body, contentType := e.body(confFields()...)
		token, _ := issued(t, d.ask(t, "/oauth/token", body, "Content-Type", contentType))
		tokens = append(tokens, token)
		for _, fields := range [][]string{
			{"grant_type", "client_credentials", "client_id", "conf", "client_secret", wrong},
			{"grant_type", "client_credentials", "client_id", "conf", "client_secret", odd},
			{"grant_type", "client_credentials", "client_id", "conf", "client_secret", odd + "\x00"},
			{"grant_type", "client_credentials", "client_id", "nobody", "client_secret", credentials["unknown client's secret"]},
			{"grant_type", "client_credentials", "client_secret", wrong},
			{"grant_type", "authorization_code", "code", credentials["code"], "code_verifier", credentials["verifier"], "client_id", "conf", "client_secret", confSecret},
			{"grant_type", "refresh_token", "refresh_token", credentials["refresh token"], "client_id", "conf", "client_secret", confSecret},
			{"grant_type", "password", "email", "a@b.example", "password", credentials["password"]},
			{"grant_type", wrong, "client_id", "conf", "client_secret", confSecret},
			{"client_secret", wrong, "client_secret", confSecret},
			{"scope", "trusted", "grant_type", "client_credentials", "client_id", "conf", "client_secret", confSecret},
			{"x[" + "]", "y", "client_secret", confSecret},
		} {
			body, contentType := e.body(fields...)
			d.ask(t, "/oauth/token", body, "Content-Type", contentType)
			d.ask(t, "/oauth/revoke", body, "Content-Type", contentType)
			d.ask(t, "/oauth/introspect", body, "Content-Type", contentType)
		}
		// Bodies that end within a credential, and those of the wrong type.
		d.ask(t, "/oauth/token", body[:len(body)-9], "Content-Type", contentType)
		d.ask(t, "/oauth/token", body+"%zz\xff", "Content-Type", contentType)
		d.ask(t, "/oauth/token", body, "Content-Type", "text/plain")
		d.send(t, http.MethodPut, "/oauth/token", body, "Content-Type", contentType)
		d.send(t, http.MethodPost, "/oauth/none", body, "Content-Type", contentType)
	}
	// The header, well-formed and malformed.
	for _, credential := range []string{
		"conf:" + confSecret, "app:" + registered, "conf:" + wrong, "conf:" + odd, "conf" + wrong, ":" + wrong,
		url.QueryEscape("conf") + ":" + url.QueryEscape(odd), "nobody:" + credentials["unknown client's secret"],
	} {
		for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/introspect", "/oauth/none", "/any/x", "/"} {
			d.ask(t, path, ccGrant+"&token="+tokens[0]+"x", basic(credential)...)
			d.ask(t, path, ccGrant+"&token="+tokens[0]+"x", append(basic(credential), basic(credential)...)...)
			d.ask(t, path, ccGrant, "Authorization", "Basic "+credential)
			d.ask(t, path, ccGrant, "Authorization", "Digest "+credential)
		}
	}
	// The query and the Referer of our own endpoints.
	for _, path := range []string{
		"/oauth/token", "/oauth/revoke", "/oauth/introspect", "/oauth/token/info", "/oauth/jwks", "/oauth/authorize", "/oauth/none",
		"/.well-known/oauth-authorization-server", "/api/v1/organisations/me/users/u/access_tokens",
	} {
		all := url.Values{"client_secret": {query}, "access_token": {tokens[0]}, "code": {credentials["code"]}, "refresh_token": {credentials["refresh token"]}}
		for _, method := range []string{"GET", "POST", "PUT"} {
			d.send(t, method, path+"?"+all.Encode(), "", "Referer", "https://client.example/cb?"+all.Encode(), "Cookie", "accessToken="+tokens[0]+"; session="+wrong,
				"Authorization", "Bearer "+credentials["malformed bearer"])
		}
	}
	// The gate: accepted, refused, and with a misplaced token.
	for _, path := range []string{"/any/x", "/api/x", "/mixed/orders/1", "/mixed/pub/1", "/optional/x"} {
		for _, token := range append(tokens, credentials["malformed bearer"], tokens[0][:40], tokens[0]+"x", tokens[0]+" "+tokens[0]) {
			d.send(t, "GET", path, "", "Authorization", "Bearer "+token)
			d.send(t, "GET", path, "", "Authorization", "Bearer "+token, "Authorization", "Bearer "+token)
		}
		d.send(t, "GET", path+"?access_token="+tokens[0], "")
		d.send(t, "GET", path+"?a=b&%61ccess_token="+tokens[0], "", "Authorization", "Bearer "+tokens[0])
		d.send(t, "GET", path, "", "Cookie", "accessToken="+tokens[0])
	}
	// The neighbours and revocation, then everything again on a broken store.
	for range 2 {
		for _, token := range tokens {
			d.ask(t, "/oauth/introspect", "token="+token+"&"+asConf)
			d.ask(t, "/oauth/introspect", "token="+token, "Authorization", "Bearer "+tokens[1])
			d.send(t, "GET", "/oauth/token/info", "", "Authorization", "Bearer "+token)
			d.ask(t, "/oauth/revoke", "token="+token+"&client_id=other&client_secret=other-"+confSecret)
			d.ask(t, "/oauth/revoke", "token="+token+"&"+asConf)
			d.send(t, "GET", "/any/x", "", "Authorization", "Bearer "+token)
		}
		d.ask(t, "/oauth/token", ccGrant, basic("app:"+registered)...)
		d.ask(t, "/oauth/token", ccGrant, basic("nobody:"+wrong)...)
		tokens = append(tokens, d.token())
		if stored == "" {
			stored = d.awaitKept()
		}
		_ = d.app().node.Store().Close()
		d.app().issuer.Clients.Authenticated.Forget("app")
	}

	for i, token := range tokens {
		parts := strings.Split(token, ".")
		credentials["token "+string(rune('a'+i))] = parts[0] + "." + parts[1] // with or without its signature
		credentials["signature "+string(rune('a'+i))] = parts[2]
	}
	measured := sentBy(t, http.DefaultClient, http.MethodGet, "http://"+d.admin+"/metrics", "").body
	places := map[string]string{"the log": d.logs(), "the metrics": measured, "the stored audit log": stored}
	if others, _ := filepath.Glob(filepath.Join(filepath.Dir(d.logFile), "*.log*")); len(others) != 1 {
		t.Errorf("logs %v", others)
	}
	if len(stored) < 10000 {
		t.Fatalf("the stored audit log is %q", stored)
	}
	if len(places["the log"]) < 10000 || !strings.Contains(places["the log"], `"http.log.access`) {
		t.Fatal("the access log is off")
	}
	for place, text := range places {
		for name, credential := range credentials {
			for form, written := range map[string]string{
				"as it is": credential, "base64": strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(credential)), "="),
				"escaped": url.QueryEscape(credential), "after conf:": base64.StdEncoding.EncodeToString([]byte("conf:" + credential)),
			} {
				if i := strings.Index(text, written); i >= 0 {
					start := strings.LastIndex(text[:i], "\n") + 1
					t.Errorf("%s holds the %s, %s: %.600s", place, name, form, text[start:min(i+20, len(text))])
				}
			}
		}
	}
}

// TestI8EveryDecisionIsAudited: each decision leaves one line, with what an operator needs to know and the reason of
// a refusal.
func TestI8EveryDecisionIsAudited(t *testing.T) {
	d := openDoor(t, patient)
	token := d.token()
	d.decisions(t)
	for name, test := range map[string]struct {
		path, form string // no form: a GET with the token
		want       map[string]any
	}{
		"token issued": {"/oauth/token?client_secret=q", ccGrant + "&" + asConf, map[string]any{
			"msg": "token issued", "level": "info", "grant_type": "client_credentials", "client_id": "conf", "subject": "conf", "scope": "public", "path": "/oauth/token", "method": "POST", "address": "127.0.0.1"}},
		"unknown scope": {"/oauth/token", ccGrant + "&scope=x&" + asConf, map[string]any{
			"msg": "endpoint request refused", "level": "info", "error": "invalid_scope", "reason": "scope_unknown", "status": 400.0, "client_id": "conf"}},
		"wrong secret": {"/oauth/token", ccGrant + "&client_id=conf&client_secret=x", map[string]any{
			"msg": "endpoint request refused", "error": "invalid_client", "reason": "client_authentication_failed", "status": 401.0, "cause": `client "conf"`, "client_id": nil}},
		"forged line": {"/oauth/token", ccGrant + "&client_secret=x&client_id=" + url.QueryEscape("conf\"}\n{\"logger\":\"oauth.audit\",\"msg\":\"token issued\"}"), map[string]any{
			"msg": "endpoint request refused", "reason": "client_authentication_failed"}},
		"introspected": {"/oauth/introspect", "token=" + token + "&" + asConf, map[string]any{"msg": "token introspected", "client_id": "conf", "active": true, "reason": nil}},
		"info":         {"/oauth/token/info", "", map[string]any{"msg": "token info told", "client_id": "conf", "subject": "conf", "reason": nil}},
		"gate passed":  {"/any/x?q=1", "", map[string]any{"msg": "request passed the gate", "level": "debug", "client_id": "conf", "subject": "conf", "path": "/any/x"}},
		"gate refused": {"/api/x?q=1", "", map[string]any{"msg": "request refused at the gate", "error": "insufficient_scope", "reason": "scope_missing", "status": 403.0, "path": "/api/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.form != "" {
				d.ask(t, test.path, test.form)
			} else {
				d.send(t, "GET", test.path, "", "Authorization", "Bearer "+token)
			}
			line := d.leaves(t, test.want)
			if at, ok := line["ts"].(float64); !ok || time.Since(time.Unix(int64(at), 0)) > time.Minute {
				t.Errorf("ts: %v", line["ts"])
			}
		})
	}
	// Keys and metadata are public, so their requests leave no line.
	for _, path := range []string{"/oauth/jwks", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource"} {
		d.send(t, "GET", path, "")
		d.leaves(t, nil)
	}
}
