package caddymodule

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
)

// readRequest parses a whole request as the server does.
func readRequest(t testing.TB, lines ...string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.Join(lines, "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestG47InboundIdentityIsReplacedByOurs(t *testing.T) {
	r := readRequest(t, "GET / HTTP/1.1", "Host: h", "X-Auth-Subject: mallory", "x-auth-subject: eve, ada", "X-AUTH-SUBJECT: m",
		"X-Auth-Role: admin", "X-Tenant: acme", "X-Request-Id: 7")
	newIdentityGuard([]string{"X-Tenant"}).clean(r.Header, true)
	if want := (http.Header{"X-Request-Id": {"7"}}); !reflect.DeepEqual(r.Header, want) {
		t.Errorf("left %v, want %v", r.Header, want)
	}
	r2 := forUpstream(r, []headerField{{headerSubject, "u-ada"}, {headerRole, "member"}})
	want := http.Header{"X-Request-Id": {"7"}, headerSubject: {"u-ada"}, headerRole: {"member"}}
	if !reflect.DeepEqual(r2.Header, want) {
		t.Errorf("sent %v, want %v", r2.Header, want)
	}
	if len(r.Header) != 1 {
		t.Errorf("the client's request now holds %v", r.Header)
	}
}

func TestG49ConnectionNamesOnlyItsOwnOptions(t *testing.T) {
	for name, test := range map[string]struct{ lines, want []string }{
		"absent":           {nil, nil},
		"one option":       {[]string{"keep-alive"}, []string{"keep-alive"}},
		"odd case":         {[]string{"cLoSe"}, []string{"cLoSe"}},
		"identity header":  {[]string{"close, X-Auth-Subject"}, []string{"close"}},
		"only that":        {[]string{"X-Auth-Subject"}, nil},
		"several lines":    {[]string{"X-Auth-Subject", "Keep-Alive , x-auth-ROLE", "close,close"}, []string{"keep-alive, close"}},
		"empty elements":   {[]string{",, ,", "\tte\t,"}, []string{"TE"}},
		"empty":            {[]string{""}, nil},
		"no lines":         {[]string{}, nil},
		"browser upgrade":  {[]string{"keep-alive, Upgrade"}, []string{"keep-alive, Upgrade"}},
		"other token byte": {[]string{"close\x0b, upgrade;q=1, Upgrade"}, []string{"Upgrade"}},
	} {
		h := http.Header{}
		if test.lines != nil {
			h["Connection"] = test.lines
		}
		newIdentityGuard(nil).clean(h, true)
		if got := h["Connection"]; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestG50NoHeaderOfOursCanBeDisconnected(t *testing.T) {
	r := readRequest(t, "GET /ws HTTP/1.1", "Host: h", "Connection: Authorization, X-Auth-Subject", "Connection: Upgrade, HTTP2-Settings",
		"Upgrade: websocket", "Authorization: Bearer t", "HTTP2-Settings: AAMAAABk")
	newIdentityGuard(nil).clean(r.Header, true)
	r2 := forUpstream(r, []headerField{{headerSubject, "u-ada"}})
	// This is what reverse_proxy does next.
	for _, line := range r2.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			r2.Header.Del(strings.TrimSpace(name))
		}
	}
	if r2.Header.Get("Authorization") != "Bearer t" || r2.Header.Get(headerSubject) != "u-ada" {
		t.Errorf("left %v", r2.Header)
	}
	if got := r.Header.Get("Connection"); got != "Upgrade" || r.Header.Get("Upgrade") != "websocket" {
		t.Errorf("the upgrade is lost: Connection %q", got)
	}
	if r.Header["Http2-Settings"] != nil {
		t.Error("HTTP2-Settings goes on, although Connection named it")
	}
}

// TestG51TrailersNeverReachTheUpstream tells of a client that announced a harmless trailer, or the identity header itself,
// and sent the identity header after the body: reverse_proxy forwards what it finds in Trailer once the body is read.
func TestG51TrailersNeverReachTheUpstream(t *testing.T) {
	for _, announced := range []string{"X-Auth-Subject", "Foo"} {
		r := readRequest(t, "POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", "Trailer: "+announced, "",
			"1", "a", "0", "Foo: bar", "X-Auth-Subject: mallory")
		r.Header.Set("Trailer", announced)
		r2 := forUpstream(r, []headerField{{headerSubject, "u-ada"}})
		if body, err := io.ReadAll(r2.Body); err != nil || string(body) != "a" {
			t.Fatalf("body %q, %v", body, err)
		}
		if r.Trailer.Get(headerSubject) != "mallory" {
			t.Fatalf("the attack did not happen: %v", r.Trailer)
		}
		if r2.Trailer != nil || r2.Header["Trailer"] != nil {
			t.Errorf("trailers %v, header %v", r2.Trailer, r2.Header)
		}
	}
}

func TestG54AClaimNeverSplitsAHeaderOrAList(t *testing.T) {
	for value, want := range map[string]string{
		"u-ada": "u-ada", "": "", "https://a.example/u?x=1&y#z": "https://a.example/u?x=1&y#z", `"q";<>\^|~`: `"q";<>\^|~`,
		"a\r\nX-Auth-Role: admin": "a%0D%0AX-Auth-Role:%20admin", "a\x00b": "a%00b", "a b": "a%20b", "a\tb": "a%09b",
		"a,b": "a%2Cb", "100%": "100%25", "%2C": "%252C", "Zoë": "Zo%C3%AB", "\xff\x7f": "%FF%7F",
	} {
		got := encodeIdentity(value)
		if got != want {
			t.Errorf("%q is encoded %q, want %q", value, got, want)
		}
		if back, err := url.PathUnescape(got); err != nil || back != value {
			t.Errorf("%q comes back as %q, %v", value, back, err)
		}
	}
	if got, want := encodeIdentityList([]string{"public", "", "two words", "a,b"}, ' '), "public two%20words a%2Cb"; got != want {
		t.Errorf("list %q, want %q", got, want)
	}
	if got := encodeIdentityList(nil, ' '); got != "" {
		t.Errorf("empty list %q", got)
	}
	if n := len(encodeIdentity(strings.Repeat("é", 4096))); n <= maxIdentityBytes {
		t.Errorf("8 KiB are encoded in %d bytes", n)
	}
	if n := allocations(0, func() { encodeIdentity("u-ada") }); n != 0 {
		t.Errorf("%v allocations for a plain value", n)
	}
}

func TestG55PlaceholdersStayLiteral(t *testing.T) {
	for _, value := range []string{"{env.DB_DSN}", "{http.request.header.X}", "{file./etc/passwd}", "{{.}}"} {
		if got := encodeIdentity(value); got != value {
			t.Errorf("%s became %s", value, got)
		}
	}
}

func TestG56ForwardingHeadersOfUntrustedPeers(t *testing.T) {
	guard := newIdentityGuard(nil)
	for _, name := range []string{"X-Forwarded-Prefix", "X-Forwarded-Port", "Forwarded", "X-Real-Ip", "x_forwarded_prefix", "X_REAL-IP", "FORWARDED"} {
		h := http.Header{name: {"/admin"}}
		guard.clean(h, true)
		if len(h) != 1 {
			t.Errorf("%s is taken from trusted peers too", name)
		}
		guard.clean(h, false)
		if len(h) != 0 {
			t.Errorf("%s is kept", name)
		}
	}
	for _, name := range overridingHeaders {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", ".")} {
			h := http.Header{spelling: {"/admin"}}
			if guard.clean(h, true); len(h) != 0 {
				t.Errorf("%s of a trusted peer is kept", spelling)
			}
			h = http.Header{spelling: {"/admin"}}
			guard.clean(h, true, name)
			if isKept := len(h) == 1; isKept != (spelling == name) {
				t.Errorf("%s is kept: %v, where %s is trusted", spelling, isKept, name)
			}
			if guard.clean(h, false, name); len(h) != 0 {
				t.Errorf("%s of an untrusted peer is kept", spelling)
			}
		}
	}
	h := http.Header{"X-Forwarded-For": {"::1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"h"}, "X-Request-Id": {"7"}}
	if guard.clean(h, false); len(h) != 4 { // reverse_proxy replaces the first three itself
		t.Errorf("left %v", h)
	}
}

func TestG57TheTokenIsRelayedOrStripped(t *testing.T) {
	type key struct{}
	r := readRequest(t, "GET / HTTP/1.1", "Host: h", "Authorization: Bearer t", "Accept: a", "Accept: b")
	r = r.WithContext(context.WithValue(r.Context(), key{}, "kept"))
	before := r.Header.Clone()
	(&Protect{UpstreamToken: relayToken}).keepBack(r, &decision{token: &accesstoken.AccessToken{}})
	if got := forUpstream(r, nil).Header.Get("Authorization"); got != "Bearer t" {
		t.Errorf("relayed %q", got)
	}
	stripped := readRequest(t, "GET / HTTP/1.1", "Host: h", "Authorization: Bearer t", "Accept: a", "Accept: b")
	(&Protect{}).keepBack(stripped, &decision{token: &accesstoken.AccessToken{}})
	if want := (http.Header{"Accept": {"a", "b"}}); !reflect.DeepEqual(forUpstream(stripped, nil).Header, want) {
		t.Errorf("stripped to %v, want %v", stripped.Header, want)
	}
	r2 := forUpstream(r, nil)
	r2.Header.Add("Accept", "c")
	r2.Header.Set("X", "y")
	r.Header.Add("Accept", "d")
	if !reflect.DeepEqual(r.Header["Accept"], []string{"a", "b", "d"}) || r2.Header["Accept"][2] != "c" {
		t.Errorf("the two requests write into one another: %v, %v", r.Header, r2.Header)
	}
	if r.Header.Get("Authorization") != before.Get("Authorization") || r2.Context().Value(key{}) != "kept" {
		t.Error("the client's request was changed, or the context was lost")
	}
}

func TestForUpstreamWithManyIdentityHeaders(t *testing.T) {
	var identity []headerField
	want := http.Header{}
	for _, name := range []string{"A", "B", "C", "D", "E", "F", "G"} {
		identity = append(identity, headerField{name, strings.ToLower(name)})
		want[name] = []string{strings.ToLower(name)}
	}
	r2 := forUpstream(&http.Request{Header: http.Header{"A": {"mallory", "eve"}}}, identity)
	if !reflect.DeepEqual(r2.Header, want) {
		t.Errorf("sent %v, want %v", r2.Header, want)
	}
	r2.Header.Add("A", "z")
	if r2.Header.Get("B") != "b" {
		t.Error("adding to one identity header overwrites the next")
	}
}

func TestG95TheProxyHeaderIsDropped(t *testing.T) {
	r := readRequest(t, "GET / HTTP/1.1", "Host: h", "Proxy: http://evil.example", "proxy: x")
	r.Header["PROXY"] = []string{"y"}
	if newIdentityGuard(nil).clean(r.Header, true); len(r.Header) != 0 {
		t.Errorf("left %v", r.Header)
	}
}

func ordinaryRequest(t testing.TB) *http.Request {
	return readRequest(t, "GET /api/orders/17 HTTP/1.1", "Host: h", "Authorization: Bearer eyJhbGciOiJFUzI1NiJ9", "Accept: application/json",
		"Accept-Encoding: gzip, br", "Accept-Language: en", "Connection: keep-alive", "Content-Type: application/json",
		"User-Agent: orders/1.0", "X-Request-Id: 7")
}

func TestAnOrdinaryRequestIsCleanedWithoutAllocation(t *testing.T) {
	r, guard := ordinaryRequest(t), newIdentityGuard([]string{"X-Tenant"})
	if n := allocations(0, func() { guard.clean(r.Header, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var identityOfAda = []headerField{
	{headerSubject, "u-ada"}, {headerClient, "portal"}, {headerScope, "public trusted"}, {headerOrganisation, "acme"}, {headerRole, "admin"},
}

func BenchmarkClean(b *testing.B) {
	r, guard := ordinaryRequest(b), newIdentityGuard(nil)
	b.ReportAllocs()
	for b.Loop() {
		guard.clean(r.Header, false)
	}
}

func BenchmarkCleanAndForUpstream(b *testing.B) {
	r, guard := ordinaryRequest(b), newIdentityGuard(nil)
	b.ReportAllocs()
	for b.Loop() {
		guard.clean(r.Header, true)
		forUpstream(r, identityOfAda)
	}
}
