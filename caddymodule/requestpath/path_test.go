package requestpath

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// readTarget parses a request target as the server does: from the bytes of a request line.
func readTarget(t *testing.T, target string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
	if err != nil {
		t.Fatalf("GET %q: %v", target, err)
	}
	return r
}

// accepts checks that each target is exactly this.
func accepts(t *testing.T, exams map[string]Exam) {
	t.Helper()
	for target, want := range exams {
		if got := Examine(readTarget(t, target).URL); got != want {
			t.Errorf("%s: %+v, want %+v", target, got, want)
		}
	}
}

var canonical, passes, encodedSlash = Exam{Canonical: true}, Exam{}, Exam{EncodedSlash: true}

func TestG62EveryOtherSpellingIsNotCanonical(t *testing.T) {
	accepts(t, map[string]Exam{
		"/%61pi/x": passes, "/ap%69/x": passes, "/%70ub/x": passes, "/pub/%7ex": passes, "/pub/x%2Dy": passes,
		"/API/x": canonical, "/PUB/x": canonical, "/pub/caf%C3%A9": canonical, "/pub/caf%c3%a9": canonical,
		"/pub/café": canonical, "/pub/100%25": canonical, "/pub/a%20b": canonical, "/pub/a[1]": canonical,
		"/api%2fx": encodedSlash, "/pub%2fx": encodedSlash, "/pub/a%2Fb": encodedSlash, "/pub/%70%2fx": encodedSlash,
		"/pub/x%2f": encodedSlash,
	})
	pub := []string{"/pub/*"}
	for _, target := range []string{"/%70ub/x", "/PUB/x", "/Pub/x", "/pub%2fx", "/pub/a%2fb", "/pub/%61", "*", "http://h"} {
		if MatchesExactly(pub, readTarget(t, target).URL) {
			t.Errorf("%s is anonymous", target)
		}
	}
	for _, target := range []string{"/pub/x", "/pub/X", "/pub/caf%C3%A9", "/pub/caf%c3%a9", "/pub/", "http://h/pub/x"} {
		if !MatchesExactly(pub, readTarget(t, target).URL) {
			t.Errorf("%s is not anonymous", target)
		}
	}
	connect, err := http.ReadRequest(bufio.NewReader(strings.NewReader("CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n")))
	if err != nil || Examine(connect.URL) != passes || MatchesExactly([]string{"*"}, connect.URL) {
		t.Errorf("authority form: %+v, %v", Examine(connect.URL), err)
	}
}

func TestG62BothReadingsOfAnEncodedSlash(t *testing.T) {
	r := readTarget(t, "/files/a%2fb%20%41/meta?q=%2f")
	other := OtherReading(r)
	if got, want := other.URL.Path, "/files/a\ufffdb A/meta"; got != want {
		t.Errorf("decoded %q, want %q", got, want)
	}
	if got, want := other.URL.EscapedPath(), "/files/a%EF%BF%BDb%20%41/meta"; got != want {
		t.Errorf("escaped %q, want %q", got, want)
	}
	if r.URL.Path != "/files/a/b A/meta" || r.URL.RawPath != "/files/a%2fb%20%41/meta" || other.URL.RawQuery != "q=%2f" {
		t.Error("the request was changed, or its query was")
	}
	for pattern, want := range map[string][2]bool{ // the reading that decodes, the other one
		"/files/a/*":    {true, false},
		"/files/*/meta": {false, true},
		"/files/*":      {true, true},
		"/api/*":        {false, false},
	} {
		if got := [2]bool{caddyMatches(t, r, pattern), caddyMatches(t, other, pattern)}; got != want {
			t.Errorf("%s: %v, want %v", pattern, got, want)
		}
	}
	for _, target := range []string{"/files/a/b", "/files/a%252fb", "/files/a%20b"} {
		if r := readTarget(t, target); OtherReading(r) != r {
			t.Errorf("%s was copied", target)
		}
	}
}

// TestPathsThatAreReadInOneWay: what looks like an ambiguous path, and is none.
func TestPathsThatAreReadInOneWay(t *testing.T) {
	accepts(t, map[string]Exam{
		"/.well-known/openid-configuration": canonical, "/a/..b": canonical, "/a/b..": canonical, "/a.b/c.d/": canonical,
		"/a/%2ehidden": passes, "/v1/files/report.tar.gz": canonical, "/%20": canonical,
		"/": canonical, "/api": canonical, "/api/": canonical, "http://h/api/x": canonical, "http://h": passes, "/apix": canonical,
		"/api/x?a;b": canonical, "/api/a=b,c:d@e+f!$&'()*": canonical,
		"/sale/50%25": canonical, "/sale/50%25-off": canonical, "/a%2520b": canonical, "/caf%25C3%25A9": canonical,
		"/a．b": canonical, "/etc…": canonical, "/日本/％": canonical,
		"/pub/x?/../api": canonical, "/pub/x?a=//;%00%2f%5c": canonical, "/api?/pub/": canonical, "/api/x?": canonical,
		"/pub/x#/api": passes, "/pub/x%23/api": passes, "/pub/x%3f/api": passes, "/pub/x%3F": passes,
	})
	for _, target := range []string{"/api/%", "/api/%2", "/api/%zz", "/%u002e", "/api/\x01", "/api/\x7f"} {
		if _, err := url.ParseRequestURI(target); err == nil {
			t.Errorf("%q: net/http does not refuse it any more", target)
		}
	}
}
