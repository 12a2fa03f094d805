package endpoint

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
)

// handlerAt returns a Handler with the paths of an issuer whose URL has a path.
func handlerAt(prefix string) *Handler {
	h := &Handler{site: site{prefix: prefix}, members: &memberTokens{prefix: prefix}, below: requests.SegmentsOf(prefix + "/oauth")}
	for _, at := range []string{wellKnownServer, wellKnownServer + prefix, prefix + wellKnownServer, WellKnownResource} {
		h.places = append(h.places, requests.SegmentsOf(at))
	}
	return h
}

// TestG97EverySpellingIsOurs: a path that some server behind us could read as one of ours → ours; another → the next handler's.
func TestG97EverySpellingIsOurs(t *testing.T) {
	for prefix, targets := range map[string]map[string]bool{
		"": {
			"/x/%2e%2e/oauth/token": true, "/%25256fauth/token": true, "/;%2fx/oauth/token": true, "/x/..;a=b/oauth/token": true, "/x/.%2e/oauth/token": true,
			"/a%2fb/../oauth/token": true, "/oauth%20/token": true, "/%09oauth/token": true, "/oauth%3f/token": true, "/oauth%23": true, "/a/b/../../../oauth/token": true,
			"//oauth/token": true, "///oauth//token": true, "/./oauth/token": true, "/x/../oauth/token": true, "/OAuth/Token": true, "/%6fauth/token": true, "/oauth%2ftoken": true,
			"/%2foauth/token": true, "/%2e/oauth/token": true, "/x%2f..%2foauth%2ftoken": true, "/%256fauth/token": true, "/oauth%252ftoken": true, "/\\oauth/token": true,
			"/%5coauth/token": true, "/x\\..\\oauth\\token": true, "/oauth;a=b/token": true, "/;x/oauth/token": true, "/oauth%3bx/token": true, "/x/..;/oauth/token": true,
			"/oauth%00/token": true, "/oauth./token": true, "http://h//oauth/token": true, "//.well-known/oauth-authorization-server": true,
			"/.well-known/./oauth-authorization-server": true, "/%2ewell-known/oauth-protected-resource": true,
			"//api/v1/organisations/me/users/1/access_tokens": true, "/api/v1/organisations/%252e/me/users/1/access_tokens": true,
			"/oauthx": false, "/login/oauth/authorize": false, "/a//oauth/token": false, "/x/../y": false, "/.well-known/x": false,
			"/oauth/..": true, "/x/oauth/../y": true, // servers differ in which segment the dots remove
			"/": false, "/x": false, "/oauth-callback": false, "/x/oauth/token": false, "/x//oauth/token": false, "/a%2foauth/token": false,
			"/.well-known/oauth-authorization-server/other": false, "/100%25": false, "/oaut%68x": false, "/o/auth/token": false, "/?/oauth/token": false,
		},
		"/auth": {
			"/auth//oauth/token": true, "//auth/oauth/token": true, "/auth/x/../oauth/token": true, "/%61uth/oauth/token": true, "/auth;x/oauth/token": true,
			"/.well-known//oauth-authorization-server/auth": true,
			"/Auth/oauth/token":                             true, "/oauth/token": false, "//oauth/token": false, "/x/auth/oauth/token": false, "/authoauth/token": false,
		},
	} {
		for target, want := range targets {
			u, err := url.ParseRequestURI(target)
			if err != nil {
				u = &url.URL{Path: target} // as a rewrite could leave it
			}
			if got := handlerAt(prefix).Owns(&http.Request{URL: u}); got != want {
				t.Errorf("issuer at %q, %s: %t, want %t", prefix, target, got, want)
			}
		}
	}
}

// FuzzOwnPaths compares the readings with servers that each apply some of the decoding steps.
func FuzzOwnPaths(f *testing.F) {
	for _, seed := range []string{
		"//oauth/token", "/x/..;/oauth/token", "/%256fauth/token", `/x\..\oauth`, "/a%2fb/../oauth/x", "/;%2fx/oauth/token", "/oauth%00/x", "/x", "x:oauth",
	} {
		f.Add(seed)
	}
	cut := regexp.MustCompile(`;[^/]*`)
	escaped := regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	decode := func(text string) string {
		return escaped.ReplaceAllStringFunc(text, func(escape string) string {
			c, _ := hex.DecodeString(escape[1:])
			return string(c)
		})
	}
	servers := map[string]func(raw, decoded string) string{
		"cleans":                func(_, p string) string { return path.Clean(p) },
		"cleans undecoded":      func(raw, _ string) string { return path.Clean(raw) },
		"cuts and cleans":       func(_, p string) string { return path.Clean(cut.ReplaceAllString(p, "")) },
		"cuts, decodes, cleans": func(raw, _ string) string { return path.Clean(decode(cut.ReplaceAllString(raw, ""))) },
		"decodes twice":         func(_, p string) string { return path.Clean(decode(p)) },
		"takes backslashes":     func(_, p string) string { return path.Clean(strings.ReplaceAll(p, `\`, "/")) },
		"ignores case":          func(_, p string) string { return strings.ToLower(path.Clean(p)) },
		"takes it as it comes":  func(_, p string) string { return p },
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Opaque != "" {
			return
		}
		for _, prefix := range []string{"", "/auth"} {
			owns := handlerAt(prefix).Owns(&http.Request{URL: u})
			for name, reads := range servers {
				p := reads(u.EscapedPath(), u.Path)
				if rest, ok := strings.CutPrefix(p, prefix+"/oauth"); ok && (rest == "" || rest[0] == '/') && !owns {
					t.Fatalf("a server that %s reads %q as %q", name, target, p)
				}
			}
			if regexp.MustCompile(`^(/[a-z0-9]+)+$`).MatchString(target) && owns != strings.HasPrefix(target+"/", prefix+"/oauth/") && !strings.Contains(target, "organisations") {
				t.Fatalf("%q is ours: %t", target, owns)
			}
		}
	})
}

// TestG97APathOfOthersCostsLittle: a path full of escapes that cannot be one of ours is not read in every way. Reading one took thousands
// of allocations, before any credential was checked.
func TestG97APathOfOthersCostsLittle(t *testing.T) {
	u, err := url.Parse("/%2525zz" + strings.Repeat("/%61", 1000))
	if err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(10, func() {
		if requests.MayMention(u, "oauth") {
			t.Error("it spells oauth")
		}
	})
	if allocations > 200 {
		t.Errorf("%.0f allocations", allocations)
	}
}
