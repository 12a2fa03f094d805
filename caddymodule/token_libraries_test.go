package caddymodule

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The requests below are byte for byte what HTTP and OAuth libraries send by default, with the addresses and
// credentials of the tests.

// asSent completes a request as a library writes it. It adds the request line, Host and Content-Length.
func (g *gatehouse) asSent(path, headers, body string) (int, http.Header, string) {
	g.t.Helper()
	head := fmt.Sprintf("POST %s HTTP/1.1\n%s\nContent-Length: %d\nHost: %s\nConnection: close\n\n", path, headers, len(body), g.addr)
	return g.raw(strings.ReplaceAll(head, "\n", "\r\n") + body)
}

const axiosHeaders = `Accept: application/json, text/plain, */*
User-Agent: axios/1.7.7
Accept-Encoding: gzip, compress, deflate, br`

const requestsHeaders = `User-Agent: python-requests/2.28.1
Accept-Encoding: gzip, deflate
Accept: */*`

const apache4Headers = `Accept-Encoding: gzip,deflate
User-Agent: Apache-HttpClient/4.5.14 (Java/17.0.9)`

// apachePart returns a part as StringBody of Apache HttpClient 4 writes it in STRICT mode.
func apachePart(name, value string) string {
	return "Content-Disposition: form-data; name=\"" + name + "\"\r\nContent-Type: text/plain; charset=ISO-8859-1\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" + value
}

// apache5Part returns a part as StringBody of Apache HttpClient 5 writes it.
func apache5Part(name, value string) string {
	return "Content-Disposition: form-data; name=\"" + name + "\"\r\nContent-Type: text/plain; charset=US-ASCII\r\n\r\n" + value
}

// retrofitPart returns a part as Retrofit 2 writes it for a RequestBody.
func retrofitPart(name, value string) string {
	return fmt.Sprintf("Content-Disposition: form-data; name=\"%s\"\r\nContent-Transfer-Encoding: binary\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Length: %d\r\n\r\n%s",
		name, len(value), value)
}

// parts returns a multipart body.
func parts(boundary string, part func(name, value string) string, fields ...string) string {
	var b strings.Builder
	for i := 0; i < len(fields); i += 2 {
		b.WriteString("--" + boundary + "\r\n" + part(fields[i], fields[i+1]) + "\r\n")
	}
	return b.String() + "--" + boundary + "--\r\n"
}

// TestT20T26T28T97LibrariesGetTheirToken sends requests of clients that have worked with other services for years.
func TestT20T26T28T97LibrariesGetTheirToken(t *testing.T) {
	g := startPeople(t)
	stale := "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjF9.c2ln\n"
	form := "Content-Type: application/x-www-form-urlencoded\n"
	cc := "grant_type=client_credentials&client_id=conf&client_secret=" + confSecret
	password := "grant_type=password&" + url.Values{"email": {"ada@acme.example"}, "password": {peoplePassword}}.Encode()
	fields := []string{"grant_type", "client_credentials", "client_id", "conf", "client_secret", confSecret, "scope", "public"}
	for name, sent := range map[string]struct{ headers, body string }{
		"axios with the token of before in its defaults": {form + stale + axiosHeaders, cc},
		"axios, JSON, with empty members": {"Content-Type: application/json\n" + stale + axiosHeaders,
			jsonObject(t, map[string]any{"grant_type": "client_credentials", "client_id": "conf", "client_secret": confSecret, "scope": nil, "code": nil})},
		"axios, JSON, with what else its caller knows": {"Content-Type: application/json\n" + axiosHeaders,
			jsonObject(t, map[string]any{"grant_type": "client_credentials", "client_id": "conf", "client_secret": confSecret, "retries": 3, "persist": true,
				"device": map[string]any{"name": "Pixel", "tags": []int{1}}})},
		"an interceptor without a token":                  {form + "Authorization: \n" + axiosHeaders, cc},
		"an interceptor with undefined":                   {form + "Authorization: Bearer undefined\n" + axiosHeaders, cc},
		"Token, as Rails has it":                          {form + "Authorization: Token token=\"abc\"\n" + axiosHeaders, cc},
		"requests.Session with a header of its own":       {requestsHeaders + "\nConnection: keep-alive\n" + stale + strings.TrimSpace(form), cc},
		"a password without a client, and a stale header": {form + stale + axiosHeaders, password},
		"Apache HttpClient 4, a form":                     {apache4Headers + "\nContent-Type: application/x-www-form-urlencoded; charset=ISO-8859-1", cc},
		"Apache HttpClient 5, a form":                     {"Accept-Encoding: gzip, x-gzip, deflate\nUser-Agent: Apache-HttpClient/5.2.1 (Java/17.0.9)\nContent-Type: application/x-www-form-urlencoded; charset=ISO-8859-1", cc},
		"Apache HttpClient 4, multipart": {apache4Headers + "\nContent-Type: multipart/form-data; boundary=8Zb7wq-cMzqV0Vqb0n7xN3bqhT0vWqk",
			parts("8Zb7wq-cMzqV0Vqb0n7xN3bqhT0vWqk", apachePart, fields...)},
		"Apache HttpClient 5, multipart": {"User-Agent: Apache-HttpClient/5.2.1 (Java/17.0.9)\nContent-Type: multipart/form-data; charset=ISO-8859-1; boundary=httpclient_boundary_4c1c1c1e-1a4f-4a3f-9f66-0b1d3a4a6e2e",
			parts("httpclient_boundary_4c1c1c1e-1a4f-4a3f-9f66-0b1d3a4a6e2e", apache5Part, fields...)},
		"Retrofit, multipart": {"Content-Type: multipart/form-data; boundary=b6b0f1d1-6e0b-4a35-8f0a-6e5a3c9a7d11\nAccept-Encoding: gzip\nUser-Agent: okhttp/4.12.0",
			parts("b6b0f1d1-6e0b-4a35-8f0a-6e5a3c9a7d11", retrofitPart, fields...)},
		"a form with scopes on lines": {form + axiosHeaders, cc + "&scope=public%0A%09orders.read%0A"},
		"requests-oauthlib, a public client": {requestsHeaders + "\nContent-Type: application/x-www-form-urlencoded;charset=UTF-8\nAuthorization: Basic " +
			base64.StdEncoding.EncodeToString([]byte("pub:")), r2(g, "pub")},
		"oauth2 for Ruby, a public client": {"Content-Type: application/x-www-form-urlencoded\nUser-Agent: Faraday v2.9.0\nAccept-Encoding: gzip;q=1.0,deflate;q=0.6,identity;q=0.3\nAccept: */*\nAuthorization: Basic " +
			base64.StdEncoding.EncodeToString([]byte("pub:")), r2(g, "pub") + "&client_id=pub&client_secret="},
		"a public client with the secret that it was given":           {form + axiosHeaders, r2(g, "keyed") + "&client_id=keyed&client_secret=keyed-" + confSecret},
		"a public client that leaves its secret out":                  {form + axiosHeaders, r2(g, "keyed") + "&client_id=keyed"},
		"a public client with the secret that it was given, by Basic": {form + "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("keyed:keyed-"+confSecret)), r2(g, "keyed")},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, body := g.asSent("/oauth/token", sent.headers, sent.body)
			var got tokens
			if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || got.AccessToken == "" {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

// r2 returns the form with which a public client redeems a new code, without its client_id.
func r2(g *gatehouse, client string) string {
	r := request{clientID: client, redirectURI: "https://" + client + ".example/cb", scope: "public", state: "s", verifier: strings.Repeat("v", 43)}
	form := r.exchange(g.code(r, "ada@acme.example"))
	form.Del("client_id")
	return form.Encode()
}

func jsonObject(t *testing.T, members map[string]any) string {
	t.Helper()
	text, err := json.Marshal(members)
	check(t, err)
	return string(text)
}
