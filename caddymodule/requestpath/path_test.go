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

// refuses checks that each target is ambiguous, for the reason given, and so neither canonical nor anonymous.
func refuses(t *testing.T, reasons map[string]string) {
	t.Helper()
	for target, reason := range reasons {
		r := readTarget(t, target)
		exam := Examine(r.URL)
		if !exam.Ambiguous || exam.Reason != reason || exam.Canonical {
			t.Errorf("%s: %+v, want %s", target, exam, reason)
		}
		if MatchesExactly([]string{"*", "/pub/*", "/public/*", r.URL.Path}, r.URL) {
			t.Errorf("%s is anonymous", target)
		}
	}
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

func TestG59DotSegmentsAreRefused(t *testing.T) {
	refuses(t, map[string]string{
		"/pub/../api/x":              "path_dot_segment",
		"/pub/%2e%2e/api/x":          "path_dot_segment",
		"/pub/%2E./api/x":            "path_dot_segment",
		"/pub/..%2fapi/x":            "path_dot_segment",
		"/pub%2f..%2fapi/x":          "path_dot_segment",
		"/pub/..":                    "path_dot_segment",
		"/pub/%2e":                   "path_dot_segment",
		"/pub/.../api":               "path_dot_segment",
		"/pub/..%20/api/x":           "path_dot_segment",
		"/pub/.%e2%80%8b./api/x":     "path_dot_segment",
		"/pub/../api/x?a=/pub":       "path_dot_segment",
		"http://h/pub/../api/x":      "path_dot_segment",
		"/..":                        "path_dot_segment",
		"/api/%2e%2e%2f%2e%2e%2fpub": "path_dot_segment",
	})
	accepts(t, map[string]Exam{
		"/.well-known/openid-configuration": canonical, "/a/..b": canonical, "/a/b..": canonical, "/a.b/c.d/": canonical,
		"/a/%2ehidden": passes, "/v1/files/report.tar.gz": canonical, "/%20": canonical,
	})
}

func TestG60PathsThatCleaningWouldChangeAreRefused(t *testing.T) {
	refuses(t, map[string]string{
		"/api/%2e%2e/pub": "path_dot_segment",
		"/api/./x":        "path_dot_segment",
		"//api/x":         "path_empty_segment",
		"/api//x":         "path_empty_segment",
		"/api/x//":        "path_empty_segment",
		"//":              "path_empty_segment",
		"/%2fapi/x":       "path_empty_segment",
		"/api%2f%2fx":     "path_empty_segment",
		"/api%2F/x":       "path_empty_segment",
		"http://h//api/x": "path_empty_segment",
		"x:api/x":         "path_opaque", // reverse_proxy sends `GET api/x`, every matcher sees an empty path
		"*":               "path_asterisk",
	})
	accepts(t, map[string]Exam{
		"/": canonical, "/api": canonical, "/api/": canonical, "/api/orders/17": canonical, "http://h/api/x": canonical,
		"http://h": passes,
	})
}

func TestG61SemicolonsAreRefused(t *testing.T) {
	refuses(t, map[string]string{
		"/api;a/x":           "path_semicolon",
		"/pub/..;/api/x":     "path_semicolon",
		"/pub/..%3b/api/x":   "path_semicolon",
		"/pub/x%3Ba=b":       "path_semicolon",
		"/;/api/x":           "path_semicolon",
		"/pub/x;":            "path_semicolon",
		"/pub/..%ef%bc%9b/x": "path_semicolon",
	})
	accepts(t, map[string]Exam{"/api/x?a;b": canonical, "/api/a=b,c:d@e+f!$&'()*": canonical})
}

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

func TestG63BackslashesControlBytesAndDoubleEncodings(t *testing.T) {
	refuses(t, map[string]string{
		`/api%5cx`:                 "path_backslash",
		`/api%5Cx`:                 "path_backslash",
		`/api\x`:                   "path_backslash",
		"/pub%ef%bc%bc..":          "path_backslash",
		"/api/x%00":                "path_control_byte",
		"/api/x%0d%0a":             "path_control_byte",
		"/api/x%7f":                "path_control_byte",
		"/api/x%c2%85":             "path_control_byte",
		"/pub/%c0%ae%c0%ae/api":    "path_invalid_utf8",
		"/pub/%e0%80%ae":           "path_invalid_utf8",
		"/pub/\xc0\xae":            "path_invalid_utf8",
		"/pub/%ed%a0%80":           "path_invalid_utf8",
		"/pub/%ff":                 "path_invalid_utf8",
		"/pub/%252e%252e/api":      "path_double_encoding",
		"/pub/.%252e/api":          "path_double_encoding",
		"/pub/a%252eb":             "path_double_encoding",
		"/pub/%252fapi":            "path_double_encoding",
		"/pub/x%255capi":           "path_double_encoding",
		"/pub/x%253b":              "path_double_encoding",
		"/pub/x%2500":              "path_double_encoding",
		"/pub/%25252e%25252e/api":  "path_double_encoding",
		"/pub/%25%2532%2565/api":   "path_double_encoding",
		"/pub/%25c0%25ae/api":      "path_double_encoding",
		"/pub/%25u002e%25u002e/":   "path_double_encoding",
		"/pub/%ef%bc%852e/api":     "path_double_encoding",
		"/pub/%ef%bc%8e%ef%bc%8e/": "path_dot_segment",
		"/pub/．．/api":              "path_dot_segment",
		"/pub/.．/api":              "path_dot_segment",
		"/pub/%e2%80%a4%e2%80%a4/": "path_dot_segment",
		"/pub/%e2%80%a5/api":       "path_dot_segment",
		"/pub/…/api":               "path_dot_segment",
		"/pub／api":                 "path_lookalike_slash",
		"/pub%e2%88%95api":         "path_lookalike_slash",
		"/pub%e2%a7%b8api":         "path_lookalike_slash",
	})
	accepts(t, map[string]Exam{
		"/sale/50%25": canonical, "/sale/50%25-off": canonical, "/a%2520b": canonical, "/caf%25C3%25A9": canonical,
		"/a．b": canonical, "/etc…": canonical, "/日本/％": canonical,
	})
	for _, target := range []string{"/api/%", "/api/%2", "/api/%zz", "/%u002e", "/api/\x01", "/api/\x7f"} {
		if _, err := url.ParseRequestURI(target); err == nil {
			t.Errorf("%q: net/http does not refuse it any more", target)
		}
	}
}

func TestG64SegmentBoundaries(t *testing.T) {
	for target, want := range map[string]bool{
		"/pub": false, "/pubx": false, "/pub.": false, "/pu": false, "/x/pub/": false, "/": false, "/pub/": true, "/pub/a/b": true,
	} {
		if got := MatchesExactly([]string{"/pub/*"}, readTarget(t, target).URL); got != want {
			t.Errorf("%s: anonymous %v, want %v", target, got, want)
		}
	}
	accepts(t, map[string]Exam{"/api": canonical, "/apix": canonical, "/api/": canonical})
}

func TestG65QueryAndFragmentAreNeverLookedAt(t *testing.T) {
	accepts(t, map[string]Exam{
		"/pub/x?/../api": canonical, "/pub/x?a=//;%00%2f%5c": canonical, "/api?/pub/": canonical, "/api/x?": canonical,
		"/pub/x#/api": passes, "/pub/x%23/api": passes, "/pub/x%3f/api": passes, "/pub/x%3F": passes,
	})
	refuses(t, map[string]string{"/pub/x#/../api": "path_dot_segment", "/pub/x%3f/../api": "path_dot_segment"})
	for target, want := range map[string]bool{
		"/pub/x?/../api": true, "/api?/pub/": false, "/api?x=/pub/x.css": false, "/api/s#/x.css": false, "/api/s%23.css": false,
	} {
		if got := MatchesExactly([]string{"/pub/*", "*.css"}, readTarget(t, target).URL); got != want {
			t.Errorf("%s: anonymous %v, want %v", target, got, want)
		}
	}
}

func TestG98SpellingsThatPassCaddysMatchers(t *testing.T) {
	for _, target := range []string{
		`/..;/api/s`, `/x/..;/api/s`, `/;a/api/s`, `/api;a=b/s`, `/\api/s`, `/x\..\api/s`, `/x/%252e%252e/api/s`,
		`/.%00/api/s`, `/api%00/s`, `/public/..;/api/s`, `/public/%252e%252e/api/s`, `/public/..%5capi/s`,
		`/public/%2e%2e;x/api/s`, `/public/.%00./api/s`, `/api/s%2f..%2f..%2fpublic%2fa`, `/api/s/..%2f..%2fpublic/a`,
	} {
		u := readTarget(t, target).URL
		if exam := Examine(u); !exam.Ambiguous || exam.Canonical || MatchesExactly([]string{"/public/*", "*"}, u) {
			t.Errorf("%s: %+v", target, exam)
		}
	}
	if u := readTarget(t, "/api").URL; Examine(u) != canonical || MatchesExactly([]string{"/public/*"}, u) {
		t.Error("/api is refused or anonymous")
	}
}
