package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

// TestS1ANavigationSignsInAndComesBack: a navigation without a session → signed in and back at the page with its query; the next host does
// not ask again; the upstream sees no cookie of ours.
func TestS1ANavigationSignsInAndComesBack(t *testing.T) {
	g := startHosts(t)
	v := g.visitor(t)
	deep := g.at("app", "/deep/link%20x?q=1&r=%C3%A4")
	v.arrives(t, deep, "ada@acme.example")
	seen := g.upstream.one(t)
	if seen.Target != "/deep/link%20x?q=1&r=%C3%A4" {
		t.Errorf("the upstream saw %s", seen.Target)
	}
	seen.has(t, "Cookie").has(t, "Authorization").has(t, identity.Subject, "u-ada").has(t, identity.Organisation, "acme").has(t, identity.Role, "admin")
	seen.has(t, identity.Groups, "engineering,Web%20Team")
	wiki := g.at("wiki", "/pages/1")
	v.arrives(t, wiki, "")
	g.upstream.one(t).has(t, "X-Name", "Ada%20Admin").has(t, "X-Email", "ada@acme.example")
}

// TestS3SigningOutAtAHostEndsAllHosts: a sign-out link → asks; another site's form → 403; its own form → the sessions of all hosts of
// this browser end, those of others do not.
func TestS3SigningOutAtAHostEndsAllHosts(t *testing.T) {
	g := startHosts(t)
	v, other := g.signedIn(t, "ada@acme.example"), g.signedIn(t, "ada@acme.example")
	v.walk(g.at("wiki", "/pages/1"), "")
	stolen := v.cookie("wiki", hostCookie)
	if a := v.navigate(g.at("app", "/oauth/sign_out")); a.status != http.StatusOK || !strings.Contains(a.body, "ada@acme.example") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	v.send(http.MethodPost, g.at("app", "/oauth/sign_out"), "", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example").is(t, http.StatusForbidden, "the form of another site")
	v.arrives(t, g.at("wiki", "/pages/1"), "")
	if a := v.send(http.MethodPost, g.at("app", "/oauth/sign_out"), "", "Sec-Fetch-Site", "same-origin"); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, target := range []string{g.at("app", "/"), g.at("wiki", "/pages/1")} {
		if a, at := v.walk(target, ""); a.status != http.StatusOK || !strings.HasPrefix(at, g.origin("auth")) || !strings.Contains(a.body, `name="password"`) {
			t.Errorf("%s: %d at %s", target, a.status, at)
		}
	}
	v.give("wiki", &http.Cookie{Name: hostCookie, Value: stolen})
	v.send(http.MethodGet, g.at("wiki", "/pages/1"), "").is(t, http.StatusUnauthorized, "the cookie of before")
	other.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusOK, "another browser")
}

// TestS4ACookieIsOfItsHost: a host's cookie at another host, as a bearer token or as the issuer's session, or changed → 401.
func TestS4ACookieIsOfItsHost(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	cookie := v.cookie("app", hostCookie)
	stranger := g.visitor(t)
	for name, c := range map[string][]string{
		"at another host":     {g.at("wiki", "/pages/1"), "Cookie", hostCookie + "=" + cookie},
		"as a bearer token":   {g.at("app", "/"), "Authorization", "Bearer " + cookie},
		"as accessToken":      {g.at("app", "/"), "Cookie", "accessToken=" + cookie},
		"as the sign-in":      {g.at("app", "/"), "Cookie", "session=" + cookie},
		"where none is taken": {g.at("app", "/api/x"), "Cookie", hostCookie + "=" + cookie},
		"changed":             {g.at("app", "/"), "Cookie", hostCookie + "=" + cookie[:len(cookie)-1] + "_"},
		"the sign-in's":       {g.at("app", "/"), "Cookie", hostCookie + "=" + v.cookie("auth", "session")},
		"the access token":    {g.at("app", "/"), "Cookie", hostCookie + "=" + v.cookie("auth", "accessToken")},
	} {
		t.Run(name, func(t *testing.T) {
			stranger.send(http.MethodGet, c[0], "", c[1:]...).is(t, http.StatusUnauthorized)
		})
	}
	g.upstream.none(t)
	stranger.send(http.MethodGet, g.at("app", "/"), "", "Cookie", hostCookie+"="+cookie).is(t, http.StatusOK, "where it belongs")
	if token := v.cookie("auth", "accessToken"); token != "" {
		stranger.send(http.MethodGet, g.at("app", "/"), "", "Authorization", "Bearer "+token).is(t, http.StatusOK, "a token in the header")
	}
}

// TestS5TheBuiltInClientGetsNothingElsewhere: a code of the client `gatehouse` at the token endpoint → 401 or 400; a redirect URI other
// than a host's callback → refused. TestV6NoCodeForAnothersAttempt leaves PKCE, nonce or state out.
func TestS5TheBuiltInClientGetsNothingElsewhere(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	begun := v.navigate(g.at("wiki", "/pages/1"))
	asked := begun.location().Query()
	answered := v.navigate(begun.header.Get("Location"))
	code := answered.location().Query().Get("code")
	if code == "" {
		t.Fatalf("%d %v", answered.status, answered.header)
	}
	for _, id := range []string{"gatehouse", ""} {
		form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {asked.Get("redirect_uri")}, "code_verifier": {strings.Repeat("v", 43)}}
		if id != "" {
			form.Set("client_id", id)
		}
		a := g.visitor(t).send(http.MethodPost, g.at("auth", "/oauth/token"), form.Encode(), "Content-Type", urlEncoded)
		if a.status != http.StatusUnauthorized && a.status != http.StatusBadRequest || strings.Contains(a.body, "access_token") {
			t.Errorf("client %q: %d %s", id, a.status, a.body)
		}
	}
	for name, uri := range map[string]string{
		"another host": "https://evil.example/oauth/callback", "the issuer": g.at("auth", "/oauth/callback"), "another path": g.at("app", "/x"),
		"below": g.at("app", "/oauth/callback/x"), "a query": g.at("app", "/oauth/callback?x"), "https": strings.Replace(g.at("app", "/oauth/callback"), "http:", "https:", 1),
		"another port": "http://app.localhost:1/oauth/callback", "upper case": strings.Replace(g.at("app", "/oauth/callback"), "app", "APP", 1),
		"credentials": strings.Replace(g.at("app", "/oauth/callback"), "app.", "x@app.", 1), "suffix": strings.Replace(g.at("app", "/oauth/callback"), "localhost", "localhost.evil.example", 1),
		"none": "",
	} {
		t.Run(name, func(t *testing.T) {
			changed := begun.location()
			query := changed.Query()
			query.Set("redirect_uri", uri)
			changed.RawQuery = query.Encode()
			v.navigate(changed.String()).leads(t, http.StatusBadRequest, "")
		})
	}
}
