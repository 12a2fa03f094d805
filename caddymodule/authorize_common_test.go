package caddymodule

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// The files authorize_*, signin_*, consent_* and session_*_test.go check attacks and faults as a browser meets them, through a whole Caddy,
// with one test for each row.

// consented returns a browser in which the user is signed in and has granted conf its usual scopes.
func (g *gatehouse) consented(email string) *browser {
	g.t.Helper()
	b := g.browser()
	b.toClient(g.t, b.authorize(requestOf("conf"), email), requestOf("conf"))
	return b
}

// toClient checks that an answer is a redirect to the client, and returns the parameters added to the registered URI.
func (b *browser) toClient(t *testing.T, p page, r request) url.Values {
	t.Helper()
	location := p.header.Get("Location")
	rest, ok := strings.CutPrefix(location, r.redirectURI)
	separator := "?"
	if strings.Contains(r.redirectURI, "?") {
		separator = "&"
	}
	if p.status != http.StatusSeeOther || !ok || !strings.HasPrefix(rest, separator) {
		t.Fatalf("%d %q, want 303 to %s: %s", p.status, location, r.redirectURI, p.body)
	}
	holdNoStore(t, p)
	if got := p.header.Values("Referrer-Policy"); !slices.Equal(got, []string{"no-referrer"}) {
		t.Errorf("Referrer-Policy: %q", got)
	}
	if strings.Contains(rest, "#") || strings.ContainsFunc(rest, func(c rune) bool { return c <= ' ' || c > '~' }) {
		t.Errorf("raw characters in the address: %q", rest)
	}
	query, err := url.ParseQuery(rest[1:])
	if err != nil {
		t.Fatalf("%v in %q", err, rest)
	}
	for name, values := range query {
		if len(values) != 1 {
			t.Errorf("%s is there %d times", name, len(values))
		}
	}
	if got, want := query.Get("iss"), b.app().settings.Issuer.URL; got != want {
		t.Errorf("iss %q, want %q", got, want)
	}
	if got := query.Get("state"); got != r.state || query.Has("state") != (r.state != "") {
		t.Errorf("state %q, want %q", got, r.state)
	}
	return query
}

// codeToClient requires a code and returns it.
func (b *browser) codeToClient(t *testing.T, p page, r request) string {
	t.Helper()
	query := b.toClient(t, p, r)
	code := query.Get("code")
	if want := len(query); code == "" || query.Has("error") || want > 3 {
		t.Errorf("no code, or more than that: %v", query)
	}
	return code
}

// errorToClient requires an error, with the documented description unless another one is given.
func (b *browser) errorToClient(t *testing.T, p page, r request, code, sentence string) {
	t.Helper()
	query := b.toClient(t, p, r)
	if sentence == "" {
		sentence = contract[code]
	}
	if query.Get("error") != code || sentence != "" && query.Get("error_description") != sentence {
		t.Errorf("%s: %q, want %s: %q", query.Get("error"), query.Get("error_description"), code, sentence)
	}
	if got := query.Get("error_description"); !description.MatchString(got) {
		t.Errorf("error_description %q", got)
	}
	if query.Has("code") {
		t.Error("an error with a code")
	}
}

// holdNoStore checks the headers that all our answers have.
func holdNoStore(t *testing.T, p page) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Pragma": "no-cache", "X-Content-Type-Options": "nosniff",
	} {
		if got := p.header.Values(name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// holdPage checks the status of a page and what holds for all pages: not stored, not framed, no script, no external resources.
func holdPage(t *testing.T, p page, status int) {
	t.Helper()
	if p.status != status || p.header.Get("Location") != "" {
		t.Fatalf("%d, Location %q, want a page with %d: %.300s", p.status, p.header.Get("Location"), status, p.body)
	}
	holdNoStore(t, p)
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
	} {
		if got := p.header.Values(name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	policies := p.header.Values("Content-Security-Policy")
	if len(policies) != 1 {
		t.Fatalf("Content-Security-Policy: %q", policies)
	}
	directives := strings.Split(policies[0], "; ")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !slices.Contains(directives, want) {
			t.Errorf("no %s in %q", want, policies[0])
		}
	}
	for _, bad := range []string{"unsafe", "script-src", "*", "img-src http"} {
		if strings.Contains(policies[0], bad) {
			t.Errorf("%s in %q", bad, policies[0])
		}
	}
	holdOwnResources(t, p)
}

// jwtInText finds an access token. The prefix eyJ alone occurs in sealed values by chance.
var jwtInText = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.eyJ`)

// holdOwnResources checks that a page has no element that runs or loads anything, no address but local paths and places on the page, and no access token.
func holdOwnResources(t *testing.T, p page) {
	t.Helper()
	if jwtInText.MatchString(p.body) {
		t.Error("a token is in the page")
	}
	for n := range nodes(t, p) {
		if n.Type != html.ElementNode || isEmbeddedIcon(n) {
			continue
		}
		if slices.Contains([]string{"script", "iframe", "object", "embed", "link", "base", "svg", "img", "math"}, n.Data) {
			t.Errorf("<%s> in the page", n.Data)
		}
		for _, a := range n.Attr {
			address := a.Key == "href" || a.Key == "action" || a.Key == "src" || a.Key == "formaction"
			if address && (!strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") || strings.HasPrefix(a.Val, "//")) || strings.HasPrefix(a.Key, "on") {
				t.Errorf("%s=%q in <%s>", a.Key, a.Val, n.Data)
			}
		}
	}
}

// isEmbeddedIcon reports whether an element is the icon that a page embeds.
func isEmbeddedIcon(n *html.Node) bool {
	return n.Data == "link" && len(n.Attr) == 2 && n.Attr[0] == html.Attribute{Key: "rel", Val: "icon"} &&
		n.Attr[1].Key == "href" && strings.HasPrefix(n.Attr[1].Val, "data:")
}

// holdAnswer checks the status of an answer, and that these words are in its body.
func holdAnswer(t *testing.T, what string, a answer, status int, words ...string) {
	t.Helper()
	a.is(t, status, what)
	holdWords(t, what, a.body, words...)
}

// holdWords checks that a text has all these words.
func holdWords(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, want := range words {
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q in %.600s", what, want, text)
		}
	}
}

// holdRefusal checks that an answer is an error page without Location, cookie or code.
func holdRefusal(t *testing.T, p page) {
	t.Helper()
	holdPage(t, p, http.StatusBadRequest)
	if got := p.header.Values("Set-Cookie"); got != nil {
		t.Errorf("cookies %q", got)
	}
	if strings.Contains(p.body, "code=") || strings.Contains(p.body, "evil") {
		t.Errorf("the page repeats the request: %s", p.body)
	}
}

// holdForbidden checks that an answer refuses a form, without a session or a redirect.
func holdForbidden(t *testing.T, p page) {
	t.Helper()
	holdPage(t, p, http.StatusForbidden)
	if set := cookiesIn(p); set["session"] != nil || set["accessToken"] != nil {
		t.Errorf("cookies %v", set)
	}
}

// cookiesIn returns the cookies that an answer sets, by name.
func cookiesIn(p page) map[string]*http.Cookie {
	set := make(map[string]*http.Cookie)
	for _, c := range (&http.Response{Header: p.header}).Cookies() {
		set[c.Name] = c
	}
	return set
}

// with returns the request's parameters with one set, or removed if the value is "-".
func (r request) with(name, value string) url.Values {
	values := r.values()
	if value == "-" {
		values.Del(name)
	} else {
		values.Set(name, value)
	}
	return values
}

// ask requests the authorization endpoint with parameters.
func (b *browser) ask(values url.Values) page { return b.open("/oauth/authorize?" + values.Encode()) }

// isSignedIn reports whether the account page is shown.
func (b *browser) isSignedIn() bool {
	b.t.Helper()
	return b.open("/oauth/account").status == http.StatusOK
}

// notLogged fails the test if the log contains any of the secrets.
func (g *gatehouse) notLogged(t *testing.T, secrets ...string) {
	t.Helper()
	logs := g.logs()
	for _, secret := range secrets {
		if i := strings.Index(logs, secret); secret != "" && i >= 0 {
			start := strings.LastIndexByte(logs[:i], '\n') + 1
			t.Errorf("logged: %.600s", logs[start:])
		}
	}
}

// openRedirects returns addresses that some URL parsers read as another host than the trusted one.
func openRedirects(trusted string) []string {
	return []string{
		"//evil.tld", "///evil.tld", `/\evil.tld`, `\/evil.tld`, "/%09/evil.tld", "/%5cevil.tld", "/%2f%2fevil.tld", "https:evil.tld", "https:///evil.tld", "hTTps://evil.tld", "//evil。tld", "https://3221225985",
		"https://" + trusted + "@evil.tld/", "https://" + trusted + ".evil.tld/", `https://evil.tld\@` + trusted, "https://" + trusted + "%0d%0aLocation:%20https://evil.tld", "javascript:alert(1)", "data:text/html,x",
	}
}
