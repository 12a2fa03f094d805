package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestV11TwoSessionCookies: two different session cookies, however written → both are found; the same twice → one. With https the second is
// a cookie that a page has stored with Partitioned; on plain-HTTP loopback a sibling host has set it.
func TestV11TwoSessionCookies(t *testing.T) {
	for lines, want := range map[string]int{
		"s=own": 1, "s=own; s=own": 1, "theme=dark; s=own; s=x": 2, "s=x; s=own": 2, "s=own;\ts=x": 2, "s=own\n\ts=x": 2, `s=own; s="x"`: 2, `s=own; s="own"`: 1, "s=own;s=x": 2,
		"s=a; s=b; s=own": 3, "s=own; sx=x": 1, "s=own; xs=x": 1, "s=; s=own": 1, "s; s=own": 1, "theme=s=own": 0, "": 0,
	} {
		var room [maxCookies]string
		if n := find(http.Header{"Cookie": strings.Split(lines, "\n")}, "s", &room); n != want || want == 1 && room[0] != "own" {
			t.Errorf("%q: %d, %q; want %d", lines, n, room, want)
		}
	}
}

// TestS9TheWayBackStaysOnTheHost: a return path that names another host, by scheme, backslashes or CR LF → a path of the same host.
func TestS9TheWayBackStaysOnTheHost(t *testing.T) {
	host := oauth.Host{Scheme: "https", Authority: "app.example"}
	for path, want := range map[string]string{
		"/x?a=b": "/x?a=b", "//evil.example": "//evil.example", "/\\evil.example": "/\\evil.example", "https://evil.example": "/", "http:evil.example": "/", "\\\\evil.example": "/",
		"javascript:alert(1)": "/", "/x\r\nSet-Cookie:a=b": "/", "/\t/evil.example": "/", "": "/", "x": "/", "@evil.example": "/", ".evil.example": "/", "/ä": "/",
	} {
		w := httptest.NewRecorder()
		if goOn(w, host, path); w.Header().Get("Location") != "https://app.example"+want {
			t.Errorf("%q: %q", path, w.Header().Get("Location"))
		}
	}
	for cookie, want := range map[string]string{goingTo("/bye?x").Reveal(): "/bye?x", goingTo("/" + strings.Repeat("x", maxAfterSignOut)).Reveal(): "", goingTo("").Reveal(): ""} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Cookie", cookiesOf(host).signedOut+"="+cookie)
		if path, isBack := comingBackTo(r, host); path != want || !isBack {
			t.Errorf("%q: back to %q, %t", cookie, path, isBack)
		}
	}
	for _, cookie := range []string{"", "L2J5ZQ", ".!", ".L2J5ZQ; " + cookiesOf(host).signedOut + "=.eA"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Cookie", cookiesOf(host).signedOut+"="+cookie)
		if path, isBack := comingBackTo(r, host); isBack {
			t.Errorf("%q: back to %q", cookie, path)
		}
	}
}
