package identity

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
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
	NewGuard([]string{"X-Tenant"}).Clean(r.Header, true)
	if want := (http.Header{"X-Request-Id": {"7"}}); !reflect.DeepEqual(r.Header, want) {
		t.Errorf("left %v, want %v", r.Header, want)
	}
	r2 := new(Request).Copy(r, []Field{{Subject, "u-ada"}, {Role, "member"}})
	want := http.Header{"X-Request-Id": {"7"}, Subject: {"u-ada"}, Role: {"member"}}
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
		NewGuard(nil).Clean(h, true)
		if got := h["Connection"]; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestG50NoHeaderOfOursCanBeDisconnected(t *testing.T) {
	r := readRequest(t, "GET /ws HTTP/1.1", "Host: h", "Connection: Authorization, X-Auth-Subject", "Connection: Upgrade, HTTP2-Settings",
		"Upgrade: websocket", "Authorization: Bearer t", "HTTP2-Settings: AAMAAABk")
	NewGuard(nil).Clean(r.Header, true)
	r2 := new(Request).Copy(r, []Field{{Subject, "u-ada"}})
	// This is what reverse_proxy does next.
	for _, line := range r2.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			r2.Header.Del(strings.TrimSpace(name))
		}
	}
	if r2.Header.Get("Authorization") != "Bearer t" || r2.Header.Get(Subject) != "u-ada" {
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
		r2 := new(Request).Copy(r, []Field{{Subject, "u-ada"}})
		if body, err := io.ReadAll(r2.Body); err != nil || string(body) != "a" {
			t.Fatalf("body %q, %v", body, err)
		}
		if r.Trailer.Get(Subject) != "mallory" {
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
		got := Encode(value)
		if got != want {
			t.Errorf("%q is encoded %q, want %q", value, got, want)
		}
		if back, err := url.PathUnescape(got); err != nil || back != value {
			t.Errorf("%q comes back as %q, %v", value, back, err)
		}
	}
	if got, want := EncodeList([]string{"public", "", "two words", "a,b"}, ' '), "public two%20words a%2Cb"; got != want {
		t.Errorf("list %q, want %q", got, want)
	}
	if got := EncodeList(nil, ' '); got != "" {
		t.Errorf("empty list %q", got)
	}
	if n := len(Encode(strings.Repeat("é", 4096))); n <= MaxBytes {
		t.Errorf("8 KiB are encoded in %d bytes", n)
	}
	if n := testing.AllocsPerRun(100, func() { Encode("u-ada") }); n != 0 {
		t.Errorf("%v allocations for a plain value", n)
	}
}

func TestG55PlaceholdersStayLiteral(t *testing.T) {
	for _, value := range []string{"{env.DB_DSN}", "{http.request.header.X}", "{file./etc/passwd}", "{{.}}"} {
		if got := Encode(value); got != value {
			t.Errorf("%s became %s", value, got)
		}
	}
}

func TestG56ForwardingHeadersOfUntrustedPeers(t *testing.T) {
	guard := NewGuard(nil)
	for _, name := range []string{"X-Forwarded-Prefix", "X-Forwarded-Port", "Forwarded", "X-Real-Ip", "x_forwarded_prefix", "X_REAL-IP", "FORWARDED"} {
		h := http.Header{name: {"/admin"}}
		guard.Clean(h, true)
		if len(h) != 1 {
			t.Errorf("%s is taken from trusted peers too", name)
		}
		guard.Clean(h, false)
		if len(h) != 0 {
			t.Errorf("%s is kept", name)
		}
	}
	for _, name := range Overriding {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", ".")} {
			h := http.Header{spelling: {"/admin"}}
			if guard.Clean(h, true); len(h) != 0 {
				t.Errorf("%s of a trusted peer is kept", spelling)
			}
			h = http.Header{spelling: {"/admin"}}
			guard.Clean(h, true, name)
			if isKept := len(h) == 1; isKept != (spelling == name) {
				t.Errorf("%s is kept: %v, where %s is trusted", spelling, isKept, name)
			}
			if guard.Clean(h, false, name); len(h) != 0 {
				t.Errorf("%s of an untrusted peer is kept", spelling)
			}
		}
	}
	h := http.Header{"X-Forwarded-For": {"::1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"h"}, "X-Request-Id": {"7"}}
	if guard.Clean(h, false); len(h) != 4 { // reverse_proxy replaces the first three itself
		t.Errorf("left %v", h)
	}
}

func TestForUpstreamWithManyIdentityHeaders(t *testing.T) {
	var identity []Field
	want := http.Header{}
	for _, name := range []string{"A", "B", "C", "D", "E", "F", "G"} {
		identity = append(identity, Field{name, strings.ToLower(name)})
		want[name] = []string{strings.ToLower(name)}
	}
	r2 := new(Request).Copy(&http.Request{Header: http.Header{"A": {"mallory", "eve"}}}, identity)
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
	if NewGuard(nil).Clean(r.Header, true); len(r.Header) != 0 {
		t.Errorf("left %v", r.Header)
	}
}

func ordinaryRequest(t testing.TB) *http.Request {
	return readRequest(t, "GET /api/orders/17 HTTP/1.1", "Host: h", "Authorization: Bearer eyJhbGciOiJFUzI1NiJ9", "Accept: application/json",
		"Accept-Encoding: gzip, br", "Accept-Language: en", "Connection: keep-alive", "Content-Type: application/json",
		"User-Agent: orders/1.0", "X-Request-Id: 7")
}

func TestAnOrdinaryRequestIsCleanedWithoutAllocation(t *testing.T) {
	r, guard := ordinaryRequest(t), NewGuard([]string{"X-Tenant"})
	if n := testing.AllocsPerRun(100, func() { guard.Clean(r.Header, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var identityOfAda = []Field{
	{Subject, "u-ada"}, {Client, "portal"}, {Scope, "public trusted"}, {Organisation, "acme"}, {Role, "admin"},
}

func BenchmarkClean(b *testing.B) {
	r, guard := ordinaryRequest(b), NewGuard(nil)
	b.ReportAllocs()
	for b.Loop() {
		guard.Clean(r.Header, false)
	}
}

func BenchmarkCleanAndForUpstream(b *testing.B) {
	r, guard := ordinaryRequest(b), NewGuard(nil)
	b.ReportAllocs()
	for b.Loop() {
		guard.Clean(r.Header, true)
		new(Request).Copy(r, identityOfAda)
	}
}
