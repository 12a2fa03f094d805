package requestpath

import (
	"bufio"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
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

// accepts checks that each target yields exactly this Exam.
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

// trimmedPaths have a segment that some servers read without a dot or space at its end, or a space at its beginning.
var trimmedPaths = []string{
	"/admin.", "/admin./x", "/admin../x", "/a/b..", "/admin%2e/x", "/admin.%2fx", "/admin%2Fx.%20", "/x%2fadmin.", "/.admin./x",
	"/admin%20/x", "/admin%20", "/%20", "/%20/x", "/admin%20%20/", "/admin.%20/x", "/admin%20./x", "/%20admin/x", "/x%2f%20admin",
	"/admin%e1%9a%80/x", "/%e2%80%a8admin/x", "/admin%e2%80%a9/x", "/https:%2fx./a",
}

// lookalikePaths have characters that become, or yield, ASCII in NFKC or in another case.
var lookalikePaths = []string{
	"/%ef%ac%81les/x", "/ﬁles/x", "/u%c5%bfers/x", "/uſers/x", "/%e2%84%aaeys", "/\u212aeys", "/ａｄｍｉｎ/x", "/admi%ef%bd%8e/x", "/𝐚dmin", "/ⓐdmin", "/admin²",
	"/adm%c4%b1n/x", "/adm%c4%b0n/x", "/acce%c3%9f/x", "/acceẞ/x", "/adm𝚤n/x", "/ǰ", "/ẖ", "/ª", "/№", "/™", "/ℹ️", "/½", "/a．b", "/etc…", "/日本/％",
	"/admin%c2%a0/x", "/%c2%a0admin", "/a%e3%80%80b", "/a%e2%80%afb", "/a%c2%b4", "/ŉ", "/℀", "/Å/ﬀ", "/admin‚/ǆ",
}

// ignorablePaths have characters that some servers drop.
var ignorablePaths = []string{
	"/ad%C2%ADmin/x", "/ad\xc2%ADmin/x", "/ad%C2\xadmin/x", "/ad\u00admin/x", "/ad%e2%80%8bmin", "/admin%e2%80%8d/x", "/%ef%bb%bfadmin", "/admin%ef%b8%8f/x",
	"/ad%cd%8fmin", "/ad%e2%80%aemin", "/ad%e2%81%a0min", "/ad%e1%a0%8bmin", "/ad%e3%85%a4min", "/ad%f3%a0%84%80min", "/ad%f3%a0%81%ad/x", "/adm%d8%9cin",
	"/é%c2%ad", "/é%ef%b8%8f", "/1%ef%b8%8f", "/❤%c2%ad/x",
	"/\u200cمی", "/می\u200c", "/می\u200c/x", "/می\u200cx", "/x\u200cمی", "/می\u200c\u200cخ", "/می\u200c%20خ", "/क्\u200d", "/क्\u200d.", "/é\u200cé", "/漢\u200d字", "/1\u200c٢", "/می\u200bخ",
}

// ambiguousPaths are paths with two possible readings, by the reason for the audit log.
var ambiguousPaths = map[string][]string{
	"path_backslash": {
		"/api%5cx", `/api\x`, "/public/..%5c..%5capi", `/\api/s`, `/x\..\api/s`, "/public/..%5capi/s", "/api%5Cx", "/public%ef%bc%bc..",
	},
	"path_control_byte": {
		"/api/x%00", "/api/x%0a", "/api/x%0d%0aX:y", "/api/%01", "/api/x%7f", "/.%00/api/s", "/api%00/s", "/public/.%00./api/s", "/api/x%0d%0a",
		"/api/x%c2%85",
	},
	"path_dot_segment": {
		"/public/../api/x", "/public/%2e%2e/api/x", "/public/..%2fapi/x", "/public/%2E%2E/api/x", "/public/.%2e/api/x", "/api/%2e%2e/public", "/api/./x",
		"/./api/x", "/api/..", "/api/.", "/../api/x", "/api/x/..", "/public/../../api/x", "/public/%2e/x", "/public/x%2f..%2f..%2fapi",
		"/public/%EF%BC%8E%EF%BC%8E/api/x", "/public/%e2%80%a5/api/x", "/public/%c2%a0..%c2%a0/x", "/public/.%e2%80%8b./api",
		"/api/s%2f..%2f..%2fpublic%2fa", "/api/s/..%2f..%2fpublic/a", "/public/%2E./api/x", "/public%2f..%2fapi/x", "/public/..", "/public/%2e",
		"/public/.../api", "/public/..%20/api/x", "/public/.%e2%80%8b./api/x", "/public/../api/x?a=/public", "/..", "/api/%2e%2e%2f%2e%2e%2fpub",
		"/public/%ef%bc%8e%ef%bc%8e/", "/public/．．/api", "/public/.．/api", "/public/%e2%80%a4%e2%80%a4/", "/public/%e2%80%a5/api", "/public/…/api",
		"/public/x#/../api", "/public/x%3f/../api",
	},
	"path_double_encoding": {
		"/api%252e/x", "/api%2520/x", "/ap%25C2%25ADi/x", "/%25ef%25bd%2581pi/x",
		"/public/%252e%252e/api/x", "/api/%252fx", "/public/%25%32%65%25%32%65/api/x", "/public/%25255c", "/x/%252e%252e/api/s",
		"/public/%252e%252e/api/s", "/public/%252e%252e/api", "/public/.%252e/api", "/public/a%252eb", "/public/%252fapi", "/public/x%255capi",
		"/public/x%253b", "/public/x%2500", "/public/%25252e%25252e/api", "/public/%25%2532%2565/api", "/public/%25c0%25ae/api",
		"/public/%25u002e%25u002e/", "/public/%ef%bc%852e/api",
	},
	"path_empty_segment": {
		"//api/x", "/api//x", "///", "/public//../api/x", "/api/x//", "//", "/%2fapi/x", "/api%2f%2fx", "/api%2F/x",
	},
	"path_invalid_utf8": {
		"/api/%c0%ae%c0%ae/x", "/public/%c0%ae%c0%ae/api/x", "/api/%ff", "/public/%ed%a0%80", "/public/%c0%ae%c0%ae/api", "/public/%e0%80%ae",
		"/public/%ff",
	},
	"path_ignorable": {
		"/ap%C2%ADi/x", "/api%e2%80%8b/x", "/api\u00ad/x", "/ap\xc2%ADi/x", "/%ef%bb%bfapi/x", "/public/%e2%81%a0x", "/api%f3%a0%81%a9",
	},
	"path_lookalike": {
		"/%ef%bd%81pi/x", "/ap%c4%b1/x", "/ap\u0131/x", "/ap%e2%85%b0/x", "/ⓐpi/x", "/public/%ef%ac%81les", "/public/pa%c3%9f", "/api%c2%a0/x",
		"/u%c5%bfers", "/public/%e2%84%aa", "/public/a…",
	},
	"path_lookalike_slash": {
		"/public/..%EF%BC%8Fapi/x", "/public／api", "/public%e2%88%95api", "/public%e2%a7%b8api",
	},
	"path_semicolon": {
		"/api;a/x", "/public/..;/api/x", "/api;/x", "/public/x;y", "/public;/x", "/api/x;jsessionid=1", "/api/x;", "/api%3bx/y", "/..;/api/s",
		"/x/..;/api/s", "/;a/api/s", "/api;a=b/s", "/public/..;/api/s", "/public/%2e%2e;x/api/s", "/public/..%3b/api/x", "/public/x%3Ba=b", "/;/api/x",
		"/public/x;", "/public/..%ef%bc%9b/x",
	},
	"path_trimmed_segment": {
		"/api./x", "/api%2e/x", "/api.%2fx", "/api%20/x", "/api.%20/x", "/api%20./x", "/%20api/x", "/api.", "/api%20", "/public/x.", "/public/x%20/",
		"/api%e1%9a%80/x",
	},
}

// TestG59To61G63G98AmbiguousPaths: paths with dot segments, `..;`, double slashes, backslashes, NUL, overlong or
// double encodings, before or behind an anonymous prefix → 400. Routes for upstreams that need odd paths accept them
// under all rules.
func TestG59To61G63G98AmbiguousPaths(t *testing.T) {
	for reason, targets := range ambiguousPaths {
		for _, target := range targets {
			if got := Examine(readTarget(t, target).URL); !got.Ambiguous || got.Reason != reason || got.Canonical {
				t.Errorf("%s: %+v, want %s", target, got, reason)
			}
		}
	}
}

// TestV5PathLetters: a path with trailing dots, NFKC or case-folding letters, ignorable characters → 400; letters of other languages →
// pass.
func TestV5PathLetters(t *testing.T) {
	for reason, targets := range map[string][]string{
		"path_trimmed_segment": trimmedPaths, "path_lookalike": lookalikePaths, "path_ignorable": ignorablePaths,
		"path_double_encoding": {"/admin%2520/x", "/admin%252e/x", "/ad%25C2%25ADmin", "/u%25c5%25bfers", "/%25ef%25ac%2581les", "/admin%25u0020/x", "/%25u017fx", "/%2561dmin", "/adm%25%36%39n", "/%25%34%31dmin"},
		"path_invalid_utf8":    {"/ad%c1%ad", "/ad%c1%a1min", "/%e0%81%a1dmin", "/%f0%80%81%a1dmin", "/ad%C2min", "/ad%ADmin", "/%c0%a0admin", "/admin%c0%ae/x"},
		"path_dot_segment":     {"/%20.%20/x", "/.%ef%b8%8f/x", "/．%20/x"},
	} {
		for _, target := range targets {
			got := Examine(readTarget(t, target).URL)
			if !got.Ambiguous || got.Reason != reason || got.Canonical {
				t.Errorf("%s: %+v, want %s", target, got, reason)
			}
		}
	}
	accepts(t, map[string]Exam{
		"/.well-known/x": canonical, "/a.b/x": canonical, "/a/..b/.c/d.e.f": canonical, "/a%20b": canonical, "/a.%20b": canonical, "/a%20.b": canonical,
		"/admin.x/": canonical, "/a%2fb.c": encodedSlash, "/café": canonical, "/cafe%CC%81": canonical, "/漢字/かな/カナ": canonical, "/Ωμέγα/Я": canonical,
		"/ÅÄÖ/øþ": canonical, "/😀": canonical, "/❤️/x": canonical, "/👩🏽‍💻/x": canonical, "/👨‍👩‍👧": canonical, "/🏴󠁧󠁢󠁥󠁮󠁧󠁿": canonical, "/1️⃣": canonical, "/🇩🇪": canonical, "/x😀": canonical,
		"/น้ำ": canonical, "/한국": canonical, "/©️2026": canonical, "/שלום/سلام": canonical, "/ｶﾅ": canonical, "/a_b-c~d": canonical,
		"/می\u200cخواهم": canonical, "/%d9%85%db%8c%e2%80%8c%d8%ae%d9%88%d8%a7%d9%87%d9%85": canonical, "/क्\u200dष": canonical, "/क्\u200cष/x": canonical, "/ശ്രീ/ന്\u200dമ": canonical,
	})
}

// TestV5NoOtherCharacterBecomesASCII applies every mapping to every assigned character until no new one appears.
func TestV5NoOtherCharacterBecomesASCII(t *testing.T) {
	mappings := []func(string) string{
		cases.Fold().String, cases.Upper(language.Und).String, cases.Lower(language.Und).String, cases.Title(language.Und).String,
		strings.ToUpper, strings.ToLower, strings.ToTitle, norm.NFKC.String, norm.NFC.String,
	}
	for c := rune(unicode.MaxASCII + 1); c <= unicode.MaxRune; c++ {
		if !unicode.IsGraphic(c) && !unicode.In(c, unicode.Cc, unicode.Cf) { // no mapping has unassigned characters
			continue
		}
		forms := []string{string(c)}
		for i := 0; i < len(forms); i++ {
			for _, mapping := range mappings {
				if form := mapping(forms[i]); !slices.Contains(forms, form) {
					forms = append(forms, form)
				}
			}
		}
		isLookalike := slices.ContainsFunc(forms, func(form string) bool {
			return strings.ContainsFunc(form, func(c rune) bool { return c <= unicode.MaxASCII })
		})
		if refused := Examine(&url.URL{Path: "/a" + string(c) + "a"}).Ambiguous; isLookalike && !refused {
			t.Errorf("%U %q passes, and becomes %q", c, c, forms)
		}
	}
}

// TestPathsThatAreReadInOneWay: these paths look ambiguous but are not.
func TestPathsThatAreReadInOneWay(t *testing.T) {
	accepts(t, map[string]Exam{
		"/.well-known/openid-configuration": canonical, "/a/..b": canonical, "/a.b/c.d/": canonical,
		"/a/%2ehidden": passes, "/v1/files/report.tar.gz": canonical,
		"/": canonical, "/api": canonical, "/api/": canonical, "http://h/api/x": canonical, "http://h": passes, "/apix": canonical,
		"/api/x?a;b": canonical, "/api/a=b,c:d@e+f!$&'()*": canonical,
		"/sale/50%25": canonical, "/sale/50%25-off": canonical, "/a%2520b": canonical, "/caf%25C3%25A9": canonical,
		"/pub/x?/../api": canonical, "/pub/x?a=//;%00%2f%5c": canonical, "/api?/pub/": canonical, "/api/x?": canonical,
		"/pub/x#/api": passes, "/pub/x%23/api": passes, "/pub/x%3f/api": passes, "/pub/x%3F": passes,
	})
	for _, target := range []string{"/api/%", "/api/%2", "/api/%zz", "/%u002e", "/api/\x01", "/api/\x7f"} {
		if _, err := url.ParseRequestURI(target); err == nil {
			t.Errorf("%q: net/http does not refuse it any more", target)
		}
	}
}
