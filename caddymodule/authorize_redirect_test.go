package caddymodule

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// refuseEverywhere sends a redirect URI in the query, in a form, in a form with its raw bytes, and encoded once too often. Each must be
// refused.
func (b *browser) refuseEverywhere(t *testing.T, clientID, uri string) {
	t.Helper()
	asked := requestOf(clientID).with("redirect_uri", uri)
	holdRefusal(t, b.ask(asked))
	holdRefusal(t, b.send("/oauth/authorize", asked))
	holdRefusal(t, b.ask(requestOf(clientID).with("redirect_uri", url.QueryEscape(uri))))
	if strings.ContainsAny(uri, "%&+") { // unescaped, they have another meaning
		return
	}
	asked.Del("redirect_uri")
	raw := asked.Encode() + "&redirect_uri=" + uri
	holdRefusal(t, b.fetch(http.MethodPost, "/oauth/authorize", raw, "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin"))
}

// accepted reports whether the request was accepted: the client gets a code at once, or the user is asked for consent.
func accepted(p page) bool {
	return p.status == http.StatusSeeOther && p.location().Query().Has("code") ||
		p.status == http.StatusOK && strings.Contains(p.body, `name="decision"`)
}

// TestA05ARedirectURIIsReadOnce: a redirect URI twice, escaped twice, too long, or another than the registered ones, in the query or a form
// → an error page; the client's own → a code. The browser is signed in and needs no consent, so a single wrong answer would leak a code.
func TestA05ARedirectURIIsReadOnce(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	for _, uri := range []string{"https://client.example/cb?x=1", "https://client.example/other"} {
		r := requestOf("conf")
		r.redirectURI = uri
		b.codeToClient(t, b.open(r.path()), r)
	}
	if p := b.ask(requestOf("nat").with("redirect_uri", "http://127.0.0.1:53123/cb")); !accepted(p) {
		t.Errorf("%d %s", p.status, p.body)
	}
	for clientID, uris := range map[string][]string{
		"conf": {
			"https://client.example/cb/?x=1", "https://client.example/%63b?x=1", "https://client.example@evil.tld/cb?x=1", `https://client.example\@evil.tld/cb`, "https://client.example/cb?x=1#",
			"https://client.example/cb?x=1\r\nSet-Cookie: session=evil", " https://client.example/cb?x=1", "//client.example/cb?x=1", "javascript:alert(1)", "https://pub.example/cb",
		},
		"nat": {"http://127.0.0.1:080/cb", "http://127.0.0.1:80@evil.tld/cb", "http://2130706433/cb", "com.example.app://cb"},
	} {
		for _, uri := range uris {
			b.refuseEverywhere(t, clientID, uri)
		}
	}
	t.Run("A05Twice", func(t *testing.T) {
		const good = "https://client.example/cb?x=1"
		for _, pair := range [][]string{{good, "https://evil.tld/"}, {"https://evil.tld/", good}, {good, good}, {good, ""}} {
			asked := requestOf("conf").values()
			asked["redirect_uri"] = pair
			holdRefusal(t, b.ask(asked))
			holdRefusal(t, b.send("/oauth/authorize", asked))
			asked = requestOf("first").values() // a client with one URI may omit it
			asked["redirect_uri"] = pair
			holdRefusal(t, b.ask(asked))
		}
	})
	t.Run("A38LongAndMalformed", func(t *testing.T) {
		base := requestOf("conf").with("redirect_uri", "-").Encode() + "&redirect_uri="
		for name, uri := range map[string]string{
			"8 KiB": "https://client.example/" + strings.Repeat("a", 8<<10), "7 KiB": "https://client.example/" + strings.Repeat("a", 7<<10),
			"not UTF-8": "https://client.example/cb%ff?x=1", "overlong": "https://client.example/%c0%afcb", "bad escape": "https://client.example/%zz",
			"twice encoded":   url.QueryEscape(url.QueryEscape(good())),
			"escaped scheme":  "https%253A%252F%252Fclient.example%252Fcb%253Fx%253D1",
			"surrogate bytes": "https://client.example/cb?x=1%ed%a0%80",
		} {
			if p := b.open("/oauth/authorize?" + base + uri); p.status != http.StatusBadRequest && p.status != http.StatusRequestURITooLong {
				t.Errorf("%s: %d %s", name, p.status, p.header.Get("Location"))
			} else {
				holdRefusal(t, p)
			}
		}
	})
	if !b.isSignedIn() {
		t.Error("a refused request has ended the session")
	}
}

func good() string { return requestOf("conf").redirectURI }

// TestA01ToA04ClientsThatAreNone: client_id missing, unknown or disabled, redirect_uri missing among several or none registered (A41) →
// an error page, no redirect.
func TestA01ToA04ClientsThatAreNone(t *testing.T) {
	g := startPeople(t, "client first first-SECRET", "client bare bare-SECRET {\n\t\t\tgrants authorization_code\n\t\t}\n\t\tclient first first-SECRET")
	b := g.consented("ada@acme.example")
	registered, _, err := g.app().registry.Clients.AddClient(t.Context(), store.Client{
		ID: "gone", Type: store.PublicClient, RedirectURIs: []string{"https://gone.example/cb"},
	})
	check(t, err)
	ofGone := requestOf("pub")
	ofGone.clientID, ofGone.redirectURI, ofGone.scope = registered.ID, "https://gone.example/cb", ""
	if p := b.open(ofGone.path()); !accepted(p) {
		t.Fatalf("before it is disabled: %d %s", p.status, p.body)
	}
	check(t, g.app().registry.Clients.DisableClient(t.Context(), registered.ID))
	conf := requestOf("conf")
	twice := conf.values()
	twice["client_id"] = []string{"conf", "other"}
	for name, asked := range map[string]url.Values{
		"A01 missing": conf.with("client_id", "-"), "A01 empty": conf.with("client_id", ""),
		"A02 unknown": conf.with("client_id", "nobody"), "A02 case": conf.with("client_id", "CONF"), "A02 space": conf.with("client_id", "conf "),
		"A02 NUL": conf.with("client_id", "conf\x00"), "A02 not UTF-8": conf.with("client_id", "conf\xff"), "A02 long": conf.with("client_id", strings.Repeat("c", 7<<10)),
		"A02 SQL": conf.with("client_id", "' OR 1=1--"), "A02 like": conf.with("client_id", "con%"), "A02 our own": conf.with("client_id", store.BuiltInClientID),
		"A02 a user's id": conf.with("client_id", "u-ada"), "A51 twice": twice,
		"A03 disabled": ofGone.values(), "A04 several registered": conf.with("redirect_uri", "-"), "A04 empty": conf.with("redirect_uri", ""),
		"A41 none registered": conf.with("client_id", "bare"), "A41 none registered, none sent": func() url.Values {
			v := conf.with("client_id", "bare")
			v.Del("redirect_uri")
			return v
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			holdRefusal(t, b.ask(asked))
			holdRefusal(t, b.send("/oauth/authorize", asked))
		})
	}
	t.Run("A04 one registered", func(t *testing.T) {
		first := requestOf("first")
		b.codeToClient(t, b.ask(first.with("redirect_uri", "-")), first)
	})
	t.Run("enabled again", func(t *testing.T) {
		check(t, g.app().registry.Clients.EnableClient(t.Context(), registered.ID))
		if p := b.open(ofGone.path()); !accepted(p) {
			t.Errorf("%d %s", p.status, p.body)
		}
	})
}

// TestA20A27RegistrationRefusesWhatNoAnswerShouldGoTo: registration of a redirect URI with `*`, plain http off loopback, `javascript:` or
// `code` in its query → refused with the reason.
func TestA20A27RegistrationRefusesWhatNoAnswerShouldGoTo(t *testing.T) {
	g := startPeople(t)
	register := func(uri string) error {
		_, _, err := g.app().registry.Clients.AddClient(t.Context(), store.Client{
			Type: store.PublicClient, RedirectURIs: []string{uri},
		})
		return err
	}
	for _, uri := range []string{
		"https://c.example/cb?code=1", "https://c.example/cb?state=fixed", "https://c.example/cb?x=1&error=e", "https://c.example/cb?iss=x",
		"https://c.example/cb?response=x", "https://c.example/cb?%63ode=1", "https://c.example/cb?;&code=1", "https://c.example/cb?x=1;code=2",
		"javascript:alert(1)", "JAVASCRIPT:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://c.example/1", "about:blank",
		"urn:ietf:wg:oauth:2.0:oob", "https://c.example/cb#f", "https://c.example/cb#", "https://u@c.example/cb", "/cb", "//c.example/cb", "cb", "https:///cb",
		"https://c.example/ cb", "https://c.example/\tcb", "https://c.example\\cb", "", "https://", "http:cb",
		"https://*.c.example/cb", "https://c.example/*", "http://c.example/cb", "http://10.0.0.7:8080/cb", "view-source:https://c.example/cb", "mailto:a@c.example",
	} {
		if err := register(uri); err == nil {
			t.Errorf("%q is registered", uri)
		}
	}
	for _, uri := range []string{"https://c.example/cb", "https://c.example/cb?codes=1", "http://127.0.0.1/cb", "http://localhost:3000/cb", "com.example.app:/cb"} {
		if err := register(uri); err != nil {
			t.Errorf("%q: %v", uri, err)
		}
	}
}

// TestA20WhatIsStoredOrDeclaredWorks checks that the rules apply to registration. A declared URI that can never match is an error. One that
// may still work causes a warning with its position.
func TestA20WhatIsStoredOrDeclaredWorks(t *testing.T) {
	g := startPeople(t, "client first first-SECRET", `client intra intra-SECRET {
			grants authorization_code
			redirect_uris http://intra.example/cb
		}
		client nowhere {
			type public
		}
		client first first-SECRET`)
	for _, want := range []string{
		`client \"intra\": redirect URI \"http://intra.example/cb\": plain http is for loopback hosts only, because anybody on the way can read the code: use https`,
		`client \"nowhere\": nobody can sign in to a public client without a redirect URI: add one, or leave the grant authorization_code out`,
	} {
		if line := regexp.MustCompile(`"level":"warn".*"msg":"` + regexp.QuoteMeta(want) + `, at [^"]+:\d+"`); !line.MatchString(g.logs()) {
			t.Errorf("no warning with a place: %s", want)
		}
	}
	old := &store.Client{
		ID: "old", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode},
		Scopes: oauth.Scopes{"public"}, RedirectURIs: []string{"http://old.example/cb"},
	}
	check(t, g.app().node.Store().AddClient(t.Context(), old))
	for id, uri := range map[string]string{"intra": "http://intra.example/cb", "old": "http://old.example/cb"} {
		r := requestOf("pub")
		r.clientID, r.redirectURI, r.scope = id, uri, "public"
		if code := g.code(r, "ada@acme.example"); code == "" {
			t.Errorf("%s: no code", id)
		}
	}
	err := g.tryReload(strings.ReplaceAll(strings.Replace(peopleBlock, "https://first.example/cb", "https://*.first.example/cb", 1), "HASH", peopleHash()))
	if want := "a * stands for nothing, because redirect URIs are compared byte for byte: name each of them"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a wildcard in the Caddyfile: %v", err)
	}
}

// namesEvil finds the attacker's host or path. The four letters alone occur in sealed values by chance.
var namesEvil = regexp.MustCompile(`(?i)evil\.tld|(/|%2F)evil`)

// TestA42HostAndForwardedHeadersChangeNothing: a foreign Host, X-Forwarded-Host or -Proto → links, iss and cookies come from the
// configuration.
func TestA42HostAndForwardedHeadersChangeNothing(t *testing.T) {
	g := startPeople(t)
	_, port, _ := strings.Cut(g.addr, ":")
	everyHost := strings.Replace(peopleBlock, "http://ADDR {\n", "http://:"+port+" {\n\tbind 127.0.0.1\n", 1)
	g.reload(strings.ReplaceAll(everyHost, "HASH", peopleHash()))
	b := g.consented("ada@acme.example")
	hostile := func(method, target, body, host string, headers ...string) page {
		request, err := http.NewRequest(method, g.url+target, strings.NewReader(body))
		check(t, err)
		request.Host = host
		for pair := range slices.Chunk(headers, 2) {
			request.Header.Add(pair[0], pair[1])
		}
		for _, c := range b.jar.Cookies(request.URL) {
			request.AddCookie(c)
		}
		return answerTo(t, &http.Client{CheckRedirect: stays}, request)
	}
	forwarded := []string{
		"X-Forwarded-Host", "evil.tld", "X-Forwarded-Proto", "https", "X-Forwarded-Port", "666", "X-Forwarded-Prefix", "/evil",
		"Forwarded", "host=evil.tld;proto=https", "X-Original-URL", "/evil", "X-Rewrite-URL", "/evil", "X-HTTP-Method-Override", "POST",
	}
	for _, host := range []string{g.addr, "evil.tld:" + port} {
		r := requestOf("conf")
		b.codeToClient(t, hostile(http.MethodGet, r.path(), "", host, forwarded...), r)
		for _, target := range []string{"/oauth/login", "/oauth/account", "/oauth/logout", requestOf("pub").path(), "/oauth/authorize"} {
			p := hostile(http.MethodGet, target, "", host, forwarded...)
			for name, values := range p.header {
				if namesEvil.MatchString(strings.Join(values, " ")) {
					t.Errorf("%s: %s %q", target, name, values)
				}
			}
			if namesEvil.MatchString(p.body) {
				t.Errorf("%s: %s", target, p.body)
			}
			for _, c := range cookiesIn(p) {
				if c.Domain != "" || c.Path != "/" {
					t.Errorf("%s: cookie %s of %q %q", target, c.Name, c.Domain, c.Path)
				}
			}
		}
	}
	t.Run("a form from there is another origin's", func(t *testing.T) {
		action, fields := formIn(t, b.open("/oauth/logout"))
		p := hostile(http.MethodPost, action, fields.Encode(), "evil.tld:"+port, "Content-Type", urlEncoded, "Origin", "http://evil.tld:"+port)
		holdForbidden(t, p)
		if !b.isSignedIn() {
			t.Error("signed out")
		}
	})
}
