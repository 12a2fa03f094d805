package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestG91ATossedCookieDoesNotSwapTheSession: the name accessToken has no prefix that keeps it to one host, so another host of
// the domain can place its own user's token in it. Who is signed in here stays who they are.
func TestG91ATossedCookieDoesNotSwapTheSession(t *testing.T) {
	g := startPeople(t, "protect trusted", "protect trusted {\n\t\t\ttoken_from cookie accessToken\n\t\t}")
	ada, max := g.signedIn("ada@acme.example"), g.signedIn("max@acme.example")
	tossed := "session=" + ada.cookie("session") + "; accessToken=" + max.cookie("accessToken")
	status, header, body := g.do(http.MethodGet, "/api/x", "", "Cookie", tossed)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if subject := g.upstream.one(t).Header["X-Auth-Subject"]; len(subject) != 1 || subject[0] != "u-ada" {
		t.Errorf("the upstream is told %q", subject)
	}
	if !strings.Contains(strings.Join(header["Set-Cookie"], "\n"), "accessToken=") {
		t.Error("the browser keeps the other token")
	}
	// A token of one's own session passes as it is, and so does one of a program that has no session.
	for name, cookies := range map[string]string{
		"own":        "session=" + max.cookie("session") + "; accessToken=" + max.cookie("accessToken"),
		"no session": "accessToken=" + max.cookie("accessToken"),
	} {
		if status, header, body := g.do(http.MethodGet, "/api/x", "", "Cookie", cookies); status != http.StatusOK || header["Set-Cookie"] != nil {
			t.Errorf("%s: %d %v %s", name, status, header["Set-Cookie"], body)
		}
	}
}

// TestG123OfSeveralCookiesTheOwnOneCounts: another host of the domain places its tokens beside, before and behind the browser's
// own, and other applications on a plain-HTTP loopback host have a session cookie too. Nobody has to delete cookies to get in
// again, and nobody is somebody else.
func TestG123OfSeveralCookiesTheOwnOneCounts(t *testing.T) {
	g := startBoth(t, peopleSite("protect trusted", "protect trusted {\n\t\t\ttoken_from cookie accessToken\n\t\t\tchallenge browser\n\t\t}"))
	ada, max := g.signedIn("ada@acme.example"), g.signedIn("max@acme.example")
	of := func(b *browser, name string) string { return name + "=" + b.cookie(name) + "; " }
	session, token, named := of(ada, "session"), of(ada, "accessToken"), of(ada, "gatehouse_token")
	tossed, theirSession, theirName := of(max, "accessToken"), of(max, "session"), of(max, "gatehouse_token")
	if max.cookie("gatehouse_token") == "" || named == theirName {
		t.Fatalf("the token's session is named %q", named)
	}
	program, chromium, navigation := []string{}, []string{"User-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0"}, []string{"Sec-Fetch-Mode: navigate"}
	bearerOf := func(b *browser) []string {
		return []string{"User-Agent: Mozilla/5.0", bearer(b.cookie("accessToken"))}
	}
	for name, test := range map[string]struct {
		cookies string
		headers []string
		want    string // who passes; empty: nobody
	}{
		"tossed before":                             {tossed + token + session, chromium, "u-ada"},
		"tossed behind":                             {session + token + tossed, chromium, "u-ada"},
		"tossed behind, to a program":               {session + token + tossed, program, "u-ada"},
		"several tossed":                            {tossed + "accessToken=x; " + token + tossed + session, chromium, "u-ada"},
		"so many that the own is not looked at":     {strings.Repeat("accessToken=x; ", 40) + token + session, chromium, "u-ada"},
		"tossed alone beside the session":           {tossed + session, chromium, "u-ada"},
		"browser reopened":                          {token + named, chromium, "u-ada"},
		"browser reopened, tossed before":           {tossed + token + named, chromium, "u-ada"},
		"browser reopened, tossed behind":           {token + tossed + named, navigation, "u-ada"},
		"browser reopened, tossed alone":            {tossed + named, chromium, ""},
		"never signed in, tossed":                   {tossed, chromium, ""},
		"never signed in, tossed, a navigation":     {tossed, navigation, ""},
		"never signed in, several tossed":           {tossed + "accessToken=x; ", chromium, ""},
		"never signed in, a client's token tossed":  {"accessToken=" + g.token() + "; ", chromium, ""},
		"a program with a token":                    {tossed, program, "u-max"},
		"a header, tossed":                          {tossed, bearerOf(ada), "u-ada"},
		"a header, several tossed":                  {tossed + "accessToken=x; " + session, bearerOf(ada), "u-ada"},
		"another application's session":             {"session=theirs; " + session, chromium, "u-ada"},
		"another application's session behind":      {session + token + named + "session=" + strings.Repeat("A", 65) + "; ", chromium, "u-ada"},
		"two sessions of ours, one named":           {theirSession + session + named, chromium, "u-ada"},
		"two sessions of ours, neither named":       {theirSession + session, chromium, ""},
		"two sessions of ours, both named":          {theirSession + session + named + theirName, chromium, ""},
		"a session beats the name of another":       {session + tossed + theirName, chromium, "u-ada"},
		"a long session cookie beside":              {"session=" + strings.Repeat("a", 5000) + "; " + session, chromium, "u-ada"},
		"a name alone is no proof":                  {named, chromium, ""},
		"a name and a token of the name's own make": {"accessToken=x.y.z; " + named, chromium, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lines := append([]string{"Cookie: " + strings.TrimSuffix(test.cookies, "; ")}, test.headers...)
			status, _, body := g.asked(t, g.request("GET", "/api/x", lines...))
			if test.want == "" {
				g.upstream.none(t)
				if status != http.StatusUnauthorized && status != http.StatusSeeOther {
					t.Errorf("%d %s", status, body)
				}
				return
			}
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			if subject := g.upstream.one(t).Header["X-Auth-Subject"]; len(subject) != 1 || subject[0] != test.want {
				t.Errorf("the upstream is told %q", subject)
			}
		})
	}
}

// TestF31APasswordInTheAddressFieldIsNotLogged: people type it there, and some passwords look like addresses.
func TestF31APasswordInTheAddressFieldIsNotLogged(t *testing.T) {
	g := startPeople(t)
	b := g.browser()
	p := b.signIn(b.open("/oauth/login"), "Hunter2@Summer-2026!", "x")
	b.signIn(p, "ada@acme.example", "wrong")
	if logs := strings.ToLower(g.logs()); strings.Contains(logs, "hunter2") || !strings.Contains(logs, `"account":"ada@acme.example"`) {
		t.Error("the log holds what was typed, or lacks the account that exists")
	}
}
