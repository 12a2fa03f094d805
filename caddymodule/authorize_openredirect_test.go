package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// TestA39OpenRedirectStrings: 559 open-redirect strings, raw and unescaped → none is accepted as redirect URI. It feeds what open
// redirects are found with to a browser that would be sent on at once.
func TestA39OpenRedirectStrings(t *testing.T) {
	g := startPeople(t)
	b := g.consented("ada@acme.example")
	lines := openRedirects("client.example")
	if len(lines) < 200 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		for _, clientID := range []string{"conf", "first"} {
			asked := requestOf(clientID)
			holdRefusal(t, b.ask(asked.with("redirect_uri", line)))
			if !strings.Contains(line, "&") { // which would end the parameter
				raw := asked.with("redirect_uri", "-").Encode() + "&redirect_uri=" + line
				holdRefusal(t, b.fetch(http.MethodPost, "/oauth/authorize", raw, "Content-Type", urlEncoded))
			}
			if t.Failed() {
				t.Fatalf("%s: %q", clientID, line)
			}
		}
	}
	r := requestOf("conf")
	b.codeToClient(t, b.open(r.path()), r)
}

// openRedirects are strings by which some reader of URLs takes another host for the trusted one.
func openRedirects(trusted string) []string {
	var lines []string
	for _, shape := range []string{
		"//EVIL", "///EVIL", "////EVIL", "/////EVIL", `/\EVIL`, `\/EVIL`, `\\EVIL`, `/\/EVIL`, `\/\/EVIL/`, `/.EVIL`, "/%09/EVIL", "/%5cEVIL", "/%2f%2fEVIL",
		"/%2fEVIL", "//%5cEVIL", "/%0d/EVIL", "/%0a/EVIL", "//EVIL/%2e%2e", "///EVIL/%2f..", "//EVIL/%2f%2e%2e", "/EVIL/%2f..", "//TRUSTED@EVIL", "//TRUSTED%40EVIL",
		"https:EVIL", "https:/EVIL", "https:///EVIL", `https:\EVIL`, `https:\\EVIL`, `https:/\EVIL`, "http:EVIL", "hTTps://EVIL", "https://EVIL/TRUSTED",
		"https://TRUSTED.EVIL/", "https://EVIL?TRUSTED", "https://EVIL#TRUSTED", `https://EVIL\TRUSTED`, "https://TRUSTED@EVIL/", "https://TRUSTED:443@EVIL/",
		"https://TRUSTED%2eEVIL/", "https://TRUSTED%00.EVIL/", "https://TRUSTED%0a.EVIL/", "https://TRUSTED%23.EVIL/", "https://TRUSTED%3f.EVIL/", "https://TRUSTED%5c@EVIL/",
		"https://TRUSTED%2f@EVIL/", "https://TRUSTED;@EVIL/", "https://TRUSTED&EVIL/", `https://EVIL\@TRUSTED/cb?x=1`, "https://EVIL%5c@TRUSTED/cb?x=1",
		"https://EVIL%2523@TRUSTED/cb?x=1", "https://EVIL:80#@TRUSTED/cb?x=1", "https://EVIL:80?@TRUSTED/cb?x=1", "https://[TRUSTED@EVIL", "https://[::EVIL]/",
		"https://TRUSTED/cb?x=1@EVIL", "https://TRUSTED/cb?x=1&redirect=https://EVIL", "https://TRUSTED/cb?x=1%26next=//EVIL", "https://TRUSTED/cb?x=1%0d%0aLocation:%20https://EVIL",
		"https://TRUSTED/cb?x=1%E5%98%8A%E5%98%8DLocation:EVIL", "https://TRUSTED//EVIL/cb?x=1", "https://TRUSTED/\\EVIL", "https://TRUSTED/..//EVIL", "https://TRUSTED/%2e%2e%2fEVIL",
		"%68ttps://EVIL", "https%3a//EVIL", "https%3a%2f%2fEVIL", "%2f%2fEVIL", "%5c%5cEVIL", "@EVIL", ".EVIL", ":EVIL", ";//EVIL", "?//EVIL", "#//EVIL", "x:EVIL", "0://EVIL",
		"〱EVIL", "〵EVIL", "ゝEVIL", "ーEVIL", "ｰEVIL", "/〱EVIL", "/ゝEVIL", "https://TRUSTED／EVIL", "https://TRUSTED＠EVIL", "https://TRUSTED？EVIL", "https://TRUSTED＃EVIL", "https:／／EVIL",
	} {
		for _, evil := range []string{"evil.tld", "evil。tld", "3221225985"} {
			lines = append(lines, strings.NewReplacer("EVIL", evil, "TRUSTED", trusted).Replace(shape))
		}
	}
	return append(lines,
		"javascript:alert(1)", "javascript://%0aalert(1)", "javascript://TRUSTED/%0aalert(1)", "jaVAscript:alert(1)", "java%0ascript:alert(1)", "java%09script:alert(1)",
		"\x01javascript:alert(1)", "%01javascript:alert(1)", `\j\av\a\s\cr\i\pt\:\a\l\ert\(1\)`, "javascript&colon;alert(1)", "data:text/html,<script>alert(1)</script>", "data:,evil",
		"https://"+trusted+"/cb?x=1\u2028", "https://"+trusted+"/cb?x=1\u2029", "https://"+trusted+"/cb?x=1\u200d", "https://"+trusted+"/cb?x=１", "https://"+trusted+"/ｃb?x=1",
	)
}
