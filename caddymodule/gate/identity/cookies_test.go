package identity

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestG57OurCookiesAreTakenOut: our cookies between others, twice, with spaces, nameless or on two lines → gone, every other byte stays.
func TestG57OurCookiesAreTakenOut(t *testing.T) {
	for lines, want := range map[string]string{
		"accessToken=x": "", "a=1; accessToken=x; b=2": "a=1; b=2", "accessToken=x;a=1": "a=1", "browser=s; theme=dark": "theme=dark", "a=1;  accessToken =x": "a=1",
		"my_accessToken=x": "my_accessToken=x", "accessToken=x; accessToken=y; z=1": "z=1", "browser=s; accessToken=x; s=": "s=", "a=1\naccessToken=x\nb=2; accessToken=y": "a=1\nb=2",
		"=accessToken=x; b=2": "b=2", "a=accessToken; b=2": "a=accessToken; b=2", "accesstoken=x": "accesstoken=x",
	} {
		h := http.Header{"Cookie": strings.Split(lines, "\n")}
		removed := WithoutCookies(h, "accessToken", "browser")
		if got := strings.Join(h["Cookie"], "\n"); got != want || (len(removed) > 0) != (lines != want) {
			t.Errorf("%q: %q, removed %q; want %q", lines, got, removed, want)
		}
	}
}

// TestG85AnAnswerToACookieIsPrivate: an answer to a token in a cookie → private, unless the upstream sets a policy for shared caches. They
// treat an answer as private by themselves if the request has an Authorization header (RFC 9111 §3.5), but not if it has a cookie.
func TestG85AnAnswerToACookieIsPrivate(t *testing.T) {
	for said, want := range map[string]string{
		"": "private", "max-age=60": "max-age=60, private", "max-age=60, Private": "max-age=60, Private", "PUBLIC, max-age=60": "PUBLIC, max-age=60",
		"s-maxage=60": "s-maxage=60", "no-store": "no-store", "must-revalidate": "must-revalidate", "no-cache": "no-cache, private",
	} {
		h := http.Header{}
		if said != "" {
			h.Set("Cache-Control", said)
		}
		if KeepPrivate(h); strings.Join(h["Cache-Control"], ", ") != want {
			t.Errorf("%q: %q, want %q", said, h["Cache-Control"], want)
		}
	}
}

// TestG49ConnectionNamesIdentity: `Connection: close, X-Auth-Subject` → the options that proxies understand, no name of a header.
func TestG49ConnectionNamesIdentity(t *testing.T) {
	for lines, want := range map[string]string{
		"close, X-Auth-Subject": "close", "X-Auth-Subject": "", "x-auth-subject,X-AUTH-CLIENT , x-auth-scope": "", "close\nX-Auth-Subject": "close",
		"X-Auth-Subject\nX-Auth-Client\nkeep-alive": "keep-alive", "keep-alive, X-Auth-Scope, close": "keep-alive, close", "Authorization, X-Auth-Subject": "",
		"\tX-Auth-Subject\t,\tclose": "close", ",,X-Auth-Subject,,": "", `"X-Auth-Subject"`: "", "close;X-Auth-Subject": "", "UPGRADE, X-Auth-Subject": "Upgrade", "te, X-Auth-Subject": "TE",
		"Connection, X-Auth-Subject": "", "Host, Via, X-Forwarded-For": "", "close, close": "close", "Keep-Alive": "Keep-Alive", "close": "close",
	} {
		h := http.Header{"Connection": strings.Split(lines, "\n")}
		NewGuard(nil).Clean(h, false)
		if got := strings.Join(h["Connection"], "|"); got != want {
			t.Errorf("%q: %q, want %q", lines, got, want)
		}
	}
}

// TestG47G95ClientNamesItself: identity headers, `Proxy` and headers of this configuration, in any spelling → dropped from any peer; names
// that belong to others → kept.
func TestG47G95ClientNamesItself(t *testing.T) {
	guard := NewGuard([]string{"X-Who"})
	for _, trusted := range []bool{false, true} {
		h := http.Header{}
		for _, name := range []string{
			"X-Auth-Subject", "x-auth-subject", "X_Auth_Groups", "x.auth-GROUPS", "X-Auth_Role", "X~Auth~Subject", "X-Auth!Subject", "X'Auth|Role", "X-Auth-Issuer", "Proxy", "pROXY",
			"HTTP2-Settings", "X_Who", "x-who", "X-Http-Method-Override", "X_Original.URL",
		} {
			h[name] = []string{"admin"}
		}
		kept := []string{"X--Auth-Subject", "X-Auth-Subjects", "XAuth-Subject"}
		for _, name := range kept {
			h[name] = []string{"kept"}
		}
		guard.Clean(h, trusted)
		var left []string
		for name := range h {
			left = append(left, name)
		}
		if slices.Sort(left); !slices.Equal(left, kept) {
			t.Errorf("trusted %t: left are %q", trusted, left)
		}
	}
}

// TestG54ClaimsThatWouldSplitAHeader: a claim with CR LF, NUL, commas or letters beyond ASCII → encoded, never splits a header.
func TestG54ClaimsThatWouldSplitAHeader(t *testing.T) {
	for value, want := range map[string]string{
		"acme\r\nX-Auth-Role: admin": "acme%0D%0AX-Auth-Role:%20admin", "a\x00b": "a%00b", "Müller": "M%C3%BCller", "a, admin": "a%2C%20admin", " a\t": "%20a%09",
		"%0d%0a": "%250d%250a", `"quoted"; a=b`: `"quoted";%20a=b`, "{env.HOME}": "{env.HOME}", strings.Repeat("a", 4096): strings.Repeat("a", 4096),
	} {
		if got := Encode(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	if got := EncodeList([]string{"x y", "", "1", "a,b"}, ' '); got != "x%20y 1 a%2Cb" {
		t.Errorf("a list: %q", got)
	}
}
