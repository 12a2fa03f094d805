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

// hostileURIs are the redirect URIs of rows A6 to A37 that conf and first must be refused with. What is registered for
// conf is https://client.example/cb?x=1 and https://client.example/other.
var hostileURIs = map[string][]string{
	"A06TrailingSlash": {"https://client.example/cb/?x=1", "https://client.example/cb?x=1/", "https://client.example/other/"},
	"A07LongerPath":    {"https://client.example/cb/extra?x=1", "https://client.example/cbX?x=1", "https://client.example/cb", "https://client.example/"},
	"A08CaseAndEncoding": {
		"https://client.example/CB?x=1", "https://client.example/%63b?x=1", "https://client.example/c%62?x=1", "https://client.example/cb?%78=1",
	},
	"A09HostCase":   {"https://CLIENT.example/cb?x=1", "https://client.EXAMPLE/cb?x=1", "HTTPS://client.example/cb?x=1"},
	"A10PlainHTTP":  {"http://client.example/cb?x=1", "http://client.example/other"},
	"A11Port":       {"https://client.example:443/cb?x=1", "https://client.example:8443/cb?x=1", "https://client.example:/cb?x=1"},
	"A12UserInfo":   {"https://client.example@evil.tld/cb?x=1", "https://client.example:pw@evil.tld/cb?x=1", "https://client.example%40evil.tld/cb?x=1"},
	"A13OwnUser":    {"https://evil@client.example/cb?x=1", "https://evil:pw@client.example/cb?x=1", "https://@client.example/cb?x=1"},
	"A14Backslash":  {`https://client.example\@evil.tld/cb`, `https:\\client.example\cb?x=1`, `https://client.example\cb?x=1`, `https://evil.tld\client.example/cb?x=1`},
	"A15Fragment":   {"https://client.example/cb?x=1#frag", "https://client.example/cb?x=1#", "https://client.example/cb?x=1%23", "https://client.example/other#x"},
	"A16DotSegment": {"https://client.example/cb/../evil", "https://client.example/x/../cb?x=1", "https://client.example/./cb?x=1", "https://client.example/cb/.?x=1", "https://client.example//cb?x=1"},
	"A17EncodedDots": {
		"https://client.example/cb/%2e%2e/?x=1", "https://client.example/cb%2f?x=1", "https://client.example/cb%252f?x=1",
		"https://client.example/%2e/cb?x=1", "https://client.example/cb%00?x=1",
	},
	"A18PathParameter": {"https://client.example/cb;p=1?x=1", "https://client.example/cb;?x=1", "https://client.example;/cb?x=1"},
	"A19Query": {
		"https://client.example/cb?x=1&y=2", "https://client.example/cb?x=2", "https://client.example/cb?", "https://client.example/cb?y=2&x=1",
		"https://client.example/cb?x=1&", "https://client.example/cb?&x=1", "https://client.example/cb??x=1", "https://client.example/other?",
	},
	"A20AnswerInQuery": {"https://client.example/cb?x=1&code=AAA&state=BBB", "https://client.example/cb?x=1&iss=evil"},
	"A21Controls": {
		"https://client.example/cb?x=1\t", "https://client.example/\tcb?x=1", "https://client.example/cb?x=1\n", "https://client.example/cb?x=1\r",
		"https://client.example/cb?x=1\r\nSet-Cookie: session=evil", "https://client.example/cb?x=1%0d%0aSet-Cookie:%20session=evil",
		"https://client.example/cb?x=1\x00", "https://client.example/cb\x00?x=1", "\x01https://client.example/cb?x=1", "java\tscript:alert(1)",
	},
	"A22Space":       {" https://client.example/cb?x=1", "https://client.example/cb?x=1 ", "https://client.example /cb?x=1", "https://client.example/cb?x=1+", "\u00a0https://client.example/cb?x=1", "\ufeffhttps://client.example/cb?x=1"},
	"A23TrailingDot": {"https://client.example./cb?x=1", "https://client.example../cb?x=1"},
	"A24Homographs": {
		"https://сlient.example/cb?x=1", "https://xn--lient-zze.example/cb?x=1", "https://client。example/cb?x=1", "https://client.ｅxample/cb?x=1",
		"https://clıent.example/cb?x=1", "https://client.example\u200b/cb?x=1", "https://cl\u00adient.example/cb?x=1", "https://client․example/cb?x=1",
	},
	"A25Lookalikes": {
		"https://client.example.evil.tld/cb?x=1", "https://evilclient.example/cb?x=1", "https://sub.client.example/cb?x=1",
		"https://evil.tld/client.example/cb?x=1", "https://evil.tld/?https://client.example/cb?x=1", "https://evil.tld/#https://client.example/cb?x=1",
	},
	"A26Relative": {
		"//client.example/cb?x=1", "/cb?x=1", "cb?x=1", "https:client.example/cb?x=1", "https:///client.example/cb?x=1",
		"https:/client.example/cb?x=1", "://client.example/cb?x=1", "///evil.tld", "?x=1", "https:", "https://",
	},
	"A27Schemes": {
		"javascript:alert(1)", "JaVaScRiPt:alert(1)", "javascript://client.example/cb?x=1%0aalert(1)", "data:text/html,<script>alert(1)</script>",
		"data:text/html;base64,PHNjcmlwdD4=", "vbscript:msgbox(1)", "file:///etc/passwd", "blob:https://client.example/1", "about:blank",
		"view-source:https://client.example/cb?x=1", "feed:https://client.example/cb?x=1", "mailto:a@client.example",
	},
	"A28LoopbackOfNobody": {"http://127.0.0.1:53123/cb", "http://127.0.0.1/cb"},
	"A29LoopbackV6":       {"http://[::1]:53123/cb", "http://[::1]/cb"},
	"A37OutOfBand":        {"urn:ietf:wg:oauth:2.0:oob", "urn:ietf:wg:oauth:2.0:oob:auto"},
	"A40OfAnother":        {"https://other.example/cb", "https://pub.example/cb", "https://first.example/cb", "com.example.app:/cb"},
}

// hostileNativeURIs are those of rows A30 to A36, for nat: an application that may choose a port and nothing else.
var hostileNativeURIs = map[string][]string{
	"A30Port": {
		"http://127.0.0.1:99999/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:abc/cb", "http://127.0.0.1:-1/cb",
		"http://127.0.0.1:080/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:+80/cb", "http://127.0.0.1: 80/cb", "http://127.0.0.1:80:80/cb",
		"http://127.0.0.1:0x50/cb", "http://127.0.0.1:8e1/cb", "http://127.0.0.1:٨٠/cb", "http://[::1]:0/cb", "http://[::1]:99999/cb",
		"http://127.0.0.1:18446744073709551696/cb",
	},
	"A31Localhost": {"http://localhost:80800/cb", "http://localhost:/cb", "http://localhost:080/cb", "http://LOCALHOST:8080/cb", "http://localhost.:8080/cb", "http://localhost:8080/cb/", "http://localhost.evil.tld/cb", "http://localhost:1@evil.tld/cb", "https://localhost:8080/cb"},
	"A32Spellings": {
		"http://127.1/cb", "http://127.1:80/cb", "http://0x7f.1/cb", "http://0x7f.0.0.1/cb", "http://2130706433/cb", "http://127.000.000.001/cb",
		"http://[::ffff:127.0.0.1]/cb", "http://[0:0:0:0:0:0:0:1]/cb", "http://[::1%25lo]/cb", "http://127.0.0.2/cb", "http://0.0.0.0/cb",
		"http://[::]/cb", "http://127。0。0。1/cb", "http://127.0.0.1./cb", "http://[0::1]:80/cb", "http://０127.0.0.1/cb",
	},
	"A33UserInfo": {
		"http://u@127.0.0.1:1/cb", "http://u:p@127.0.0.1/cb", "http://127.0.0.1:80@evil.tld/cb", "http://127.0.0.1@evil.tld/cb", "http://127.0.0.1:80@evil.tld:80/cb",
		"http://127.0.0.1.evil.tld/cb", "http://127.0.0.1:80.evil.tld/cb", "http://127.0.0.1:1\\@evil.tld/cb", "http://[::1]@evil.tld/cb",
		"http://[::1].evil.tld/cb", "http://[::1]:80@evil.tld/cb", "http://127.0.0.1#@evil.tld/cb", "http://127.0.0.1?@evil.tld/cb",
	},
	"A34Path": {
		"http://127.0.0.1:1/Cb", "http://127.0.0.1:1/cb?z=1", "http://127.0.0.1:1/x/../cb", "http://127.0.0.1:1/cb/", "http://127.0.0.1:1//cb",
		"http://127.0.0.1:1/cb#", "http://127.0.0.1:1", "http://127.0.0.1:1/", "http://127.0.0.1:1/%63b", "http://127.0.0.1:1cb", "http://127.0.0.1:1?/cb",
	},
	"A35HTTPS": {"https://127.0.0.1/cb", "https://127.0.0.1:53123/cb", "https://[::1]:1/cb", "HTTP://127.0.0.1:1/cb"},
	"A36PrivateScheme": {
		"COM.example.app:/cb", "com.example.app://cb", "com.example.app:/cb/", "com.example.app:cb", "com.example.app:/CB", "com.example.app:/cb?x=1",
		"com.example.app:80/cb", "com.example.app2:/cb", "xcom.example.app:/cb", "com.example.app:///cb",
	},
	"A37OutOfBand": {"urn:ietf:wg:oauth:2.0:oob"},
	"A40OfAnother": {"https://pub.example/cb", "https://client.example/cb?x=1"},
}

// refuseEverywhere asks with a redirect URI in every way that one can be sent: in the query, in a form, in a form with
// the bytes as they are, and encoded once more than needed.
func (b *browser) refuseEverywhere(t *testing.T, clientID, uri string) {
	t.Helper()
	asked := requestOf(clientID).with("redirect_uri", uri)
	holdRefusal(t, b.ask(asked))
	holdRefusal(t, b.send("/oauth/authorize", asked))
	holdRefusal(t, b.ask(requestOf(clientID).with("redirect_uri", url.QueryEscape(uri))))
	if strings.ContainsAny(uri, "%&+") { // as they are they say something else
		return
	}
	asked.Del("redirect_uri")
	raw := asked.Encode() + "&redirect_uri=" + uri
	holdRefusal(t, b.fetch(http.MethodPost, "/oauth/authorize", raw, "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin"))
}

// accepted reports whether the request was taken: the client gets a code at once, or the user is asked for consent.
func accepted(p page) bool {
	return p.status == http.StatusSeeOther && p.location().Query().Has("code") ||
		p.status == http.StatusOK && strings.Contains(p.body, `name="decision"`)
}

// TestA05ToA40RedirectURIsThatAreNotTheClients: a redirect URI that differs by a byte: slash, case, port, userinfo, fragment, dots,
// encodings, IDN twins, CRLF, schemes, IP spellings → an error page; for native clients the port of a registered loopback URI may vary.
// It asks from a browser that is signed in and needs no consent, so that one wrong answer is a stolen code.
func TestA05ToA40RedirectURIsThatAreNotTheClients(t *testing.T) {
	g := startPeople(t, "client first first-SECRET", `client local {
			type public
			scopes public trusted
			redirect_uris http://127.0.0.1/cb http://[::1]:8080/cb
		}
		client first first-SECRET`)
	b := g.consented("ada@acme.example")
	for _, uri := range []string{"https://client.example/cb?x=1", "https://client.example/other"} {
		r := requestOf("conf")
		r.redirectURI = uri
		b.codeToClient(t, b.open(r.path()), r)
	}
	for row, uris := range hostileURIs {
		t.Run(row, func(t *testing.T) {
			for _, uri := range uris {
				b.refuseEverywhere(t, "conf", uri)
			}
		})
	}
	for _, uri := range []string{
		"http://127.0.0.1:53123/cb", "http://127.0.0.1/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:65535/cb",
		"http://[::1]:53123/cb", "http://[::1]/cb", "com.example.app:/cb", "http://localhost:8080/cb", "http://localhost/cb", "http://localhost:53123/cb",
	} {
		if p := b.ask(requestOf("nat").with("redirect_uri", uri)); !accepted(p) {
			t.Errorf("%s: %d %s", uri, p.status, p.body)
		}
	}
	t.Run("A28A29PortsAreForNativeClients", func(t *testing.T) {
		asked := requestOf("pub")
		asked.clientID = "local"
		for _, uri := range []string{"http://127.0.0.1/cb", "http://[::1]:8080/cb"} {
			if p := b.ask(asked.with("redirect_uri", uri)); !accepted(p) {
				t.Errorf("%s: %d %s", uri, p.status, p.body)
			}
		}
		for _, uri := range []string{"http://127.0.0.1:53123/cb", "http://[::1]:53123/cb", "http://[::1]/cb", "http://127.0.0.1:80/cb"} {
			holdRefusal(t, b.ask(asked.with("redirect_uri", uri)))
		}
	})
	for row, uris := range hostileNativeURIs {
		t.Run("native"+row, func(t *testing.T) {
			for _, uri := range uris {
				b.refuseEverywhere(t, "nat", uri)
			}
		})
	}
	t.Run("A05Twice", func(t *testing.T) {
		const good = "https://client.example/cb?x=1"
		for _, pair := range [][]string{{good, "https://evil.tld/"}, {"https://evil.tld/", good}, {good, good}, {good, ""}} {
			asked := requestOf("conf").values()
			asked["redirect_uri"] = pair
			holdRefusal(t, b.ask(asked))
			holdRefusal(t, b.send("/oauth/authorize", asked))
			asked = requestOf("first").values() // which need not name its one URI
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
	if err != nil {
		t.Fatal(err)
	}
	ofGone := requestOf("pub")
	ofGone.clientID, ofGone.redirectURI, ofGone.scope = registered.ID, "https://gone.example/cb", ""
	if p := b.open(ofGone.path()); !accepted(p) {
		t.Fatalf("before it is disabled: %d %s", p.status, p.body)
	}
	if err := g.app().registry.Clients.DisableClient(t.Context(), registered.ID); err != nil {
		t.Fatal(err)
	}
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
		if err := g.app().registry.Clients.EnableClient(t.Context(), registered.ID); err != nil {
			t.Fatal(err)
		}
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

// TestA20WhatIsStoredOrDeclaredWorks: the rules are for registration. Declared, a URI that nothing could ever match is an
// error, and one that may still work is a warning with its place.
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
	if err := g.app().node.Store().AddClient(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for id, uri := range map[string]string{"intra": "http://intra.example/cb", "old": "http://old.example/cb"} {
		r := requestOf("pub")
		r.clientID, r.redirectURI, r.scope = id, uri, "public"
		if code := g.code(r, "ada@acme.example"); code == "" {
			t.Errorf("%s: no code", id)
		}
	}
	err := g.tryReload(strings.ReplaceAll(strings.Replace(people, "https://first.example/cb", "https://*.first.example/cb", 1), "HASH", peopleHash()))
	if want := "a * stands for nothing, because redirect URIs are compared byte for byte: name each of them"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a wildcard in the Caddyfile: %v", err)
	}
}

// namesEvil finds what the attacker wants to be named; its four letters alone stand in sealed values by chance.
var namesEvil = regexp.MustCompile(`(?i)evil\.tld|(/|%2F)evil`)

// TestA42HostAndForwardedHeadersChangeNothing: a foreign Host, X-Forwarded-Host or -Proto → links, iss and cookies come from the
// configuration.
func TestA42HostAndForwardedHeadersChangeNothing(t *testing.T) {
	g := startPeople(t)
	_, port, _ := strings.Cut(g.addr, ":")
	everyHost := strings.Replace(people, "http://ADDR {\n", "http://:"+port+" {\n\tbind 127.0.0.1\n", 1)
	g.reload(strings.ReplaceAll(everyHost, "HASH", peopleHash()))
	b := g.consented("ada@acme.example")
	hostile := func(method, target, body, host string, headers ...string) page {
		request, err := http.NewRequest(method, g.url+target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
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
