package requestpath

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestExaminedPathIsTheOneSentUpstream(t *testing.T) {
	for name, test := range map[string]struct {
		u    url.URL
		want Exam
	}{
		"stale RawPath":          {url.URL{Path: "/a", RawPath: "/b%2fc"}, canonical},
		"RawPath left empty":     {url.URL{Path: "/a/../b"}, Exam{Ambiguous: true, Reason: "path_dot_segment"}},
		"RawPath not valid":      {url.URL{Path: "/a b", RawPath: "/a b"}, canonical},
		"rewritten, no slash":    {url.URL{Path: "a/b"}, Exam{Ambiguous: true, Reason: "path_relative"}},
		"rewritten to nothing":   {url.URL{}, passes},
		"opaque besides a path":  {url.URL{Path: "/a", Opaque: "//h/b"}, Exam{Ambiguous: true, Reason: "path_opaque"}},
		"escape only in RawPath": {url.URL{Path: "/ab", RawPath: "/%61b"}, passes},
	} {
		if got := Examine(&test.u); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func caddyMatches(t *testing.T, r *http.Request, patterns ...string) bool {
	t.Helper()
	m := caddyhttp.MatchPath(append([]string(nil), patterns...))
	if err := m.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	ok, err := m.MatchWithError(r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, caddy.NewReplacer())))
	return ok && err == nil
}

// TestPatternsMeanWhatTheyMeanInCaddy compares patterns with Caddy's own matcher. On a lower-case path the two agree,
// and a pattern that matches case-sensitively also matches without regard to case.
func TestPatternsMeanWhatTheyMeanInCaddy(t *testing.T) {
	patterns := []string{
		"*", "/", "/pub", "/pub/*", "/pub*", "*.css", "*/pub/*", "*b*", "**", "/pub/*/x", "/pub/?", "/[op]ub/a", "/p*/*", "/pub//*",
		"pub", "", "/*/a*", `/pu\b/a`, "/[", "/Pub/*", "/PUB/A", "*.CSS",
	}
	targets := []string{"/", "/pub", "/pub/", "/pub/a", "/pub/a/x", "/pubx", "/x.css", "/a/pub/b", "/pub/%C3%A9", "/Pub/a", "/PUB/A", "/X.CSS"}
	for _, pattern := range patterns {
		for _, target := range targets {
			r := readTarget(t, target)
			got, theirs := MatchesExactly([]string{pattern}, r.URL), caddyMatches(t, r, pattern)
			if lower := strings.ToLower(target+pattern) == target+pattern || target == "/pub/%C3%A9" && pattern != "/Pub/*"; got && !theirs || lower && got != theirs {
				t.Errorf("%q on %s: %v, Caddy says %v", pattern, target, got, theirs)
			}
		}
	}
	if MatchesExactly([]string{"/a%20b", "/{x}", "{path}"}, readTarget(t, "/a%20b").URL) {
		t.Error("a pattern with an escape or a placeholder matches")
	}
}

func FuzzPathGuard(f *testing.F) {
	for _, seed := range []string{
		"/api/orders/17", "/pub/..%2fapi", "/a%252e", "/%ef%bc%8e./", "/a//b", "/caf%C3%A9/", "/a;b", "/.%00/", "*", "x:y", "/a%2fb/c%20d", "K:8bc%",
	} {
		f.Add(seed, "")
	}
	f.Add("/a", "/b%2f..")
	f.Fuzz(func(t *testing.T, target, rawPath string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		if rawPath != "" {
			u.RawPath = rawPath
		}
		exam := Examine(u)
		if exam.Ambiguous != (exam.Reason != "") || exam.Canonical && (exam.Ambiguous || exam.EncodedSlash) {
			t.Fatalf("%q contradicts itself: %+v", target, exam)
		}
		sent := u.RequestURI()
		sent, _, _ = strings.Cut(sent, "?")
		unescaped, err := url.PathUnescape(sent)
		if err != nil {
			if exam.Ambiguous { // as it has a scheme and no path
				return
			}
			t.Fatalf("%q is sent as %q: %v", target, sent, err)
		}
		if exam.EncodedSlash != strings.Contains(strings.ToLower(sent), "%2f") {
			t.Fatalf("%q is sent as %q: %+v", target, sent, exam)
		}
		if exam.Ambiguous {
			return
		}
		if clean := path.Clean(unescaped); clean != unescaped && clean+"/" != unescaped {
			t.Fatalf("%q is accepted and cleaned to %q", unescaped, clean)
		}
		if strings.ContainsAny(unescaped, "\\;\x00") || strings.Contains(strings.ToLower(unescaped), "%2e") {
			t.Fatalf("%q is accepted", unescaped)
		}
		other := OtherReading(&http.Request{URL: u}).URL
		if strings.Count(other.Path, "/") != strings.Count(sent, "/") && u.Path != "" {
			t.Fatalf("%q has the other reading %q", sent, other.Path)
		}
	})
}

func BenchmarkExaminePath(b *testing.B) {
	for _, target := range []string{"/api/orders/17", "/.well-known/openid-configuration", "/files/caf%C3%A9%20menu.pdf", "/repos/a%2fb"} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(target[1:], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if Examine(u).Ambiguous {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkMatchesPathExactly(b *testing.B) {
	u, patterns := &url.URL{Path: "/pub/app/main.css"}, []string{"/favicon.ico", "/pub/*"}
	b.ReportAllocs()
	for b.Loop() {
		if !MatchesExactly(patterns, u) {
			b.Fatal("no match")
		}
	}
}
