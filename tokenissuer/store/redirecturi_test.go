package store

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// hostileURIs are redirect URIs, by row, that are refused for a client with https://client.example/cb?x=1 and
// https://client.example/other.
var hostileURIs = map[string][]string{
	"A06TrailingSlash": {"https://client.example/cb/?x=1", "https://client.example/cb?x=1/", "https://client.example/other/"},
	"A07LongerPath":    {"https://client.example/cb/extra?x=1", "https://client.example/cbX?x=1", "https://client.example/cb", "https://client.example/"},
	"A08CaseAndEncoding": {
		"https://client.example/CB?x=1", "https://client.example/%63b?x=1", "https://client.example/c%62?x=1", "https://client.example/cb?%78=1",
	},
	"A09HostCase":   {"https://CLIENT.example/cb?x=1", "https://client.EXAMPLE/cb?x=1", "HTTPS://client.example/cb?x=1"},
	"A10PlainHTTP":  {"http://client.example/cb?x=1", "http://client.example/other"},
	"A11Port":       {"https://client.example:443/cb?x=1", "https://client.example:8443/cb?x=1", "https://client.example:/cb?x=1"},
	"A12UserInfo":   {"https://client.example@evil.tld/cb?x=1", "https://client.example:pw@evil.tld/cb?x=1", "https://client.example%40evil.tld/cb?x=1"},
	"A13OwnUser":    {"https://evil@client.example/cb?x=1", "https://evil:pw@client.example/cb?x=1", "https://@client.example/cb?x=1"},
	"A14Backslash":  {`https://client.example\@evil.tld/cb`, `https:\\client.example\cb?x=1`, `https://client.example\cb?x=1`, `https://evil.tld\client.example/cb?x=1`},
	"A15Fragment":   {"https://client.example/cb?x=1#frag", "https://client.example/cb?x=1#", "https://client.example/cb?x=1%23", "https://client.example/other#x"},
	"A16DotSegment": {"https://client.example/cb/../evil", "https://client.example/x/../cb?x=1", "https://client.example/./cb?x=1", "https://client.example/cb/.?x=1", "https://client.example//cb?x=1"},
	"A17EncodedDots": {
		"https://client.example/cb/%2e%2e/?x=1", "https://client.example/cb%2f?x=1", "https://client.example/cb%252f?x=1",
		"https://client.example/%2e/cb?x=1", "https://client.example/cb%00?x=1",
	},
	"A18PathParameter": {"https://client.example/cb;p=1?x=1", "https://client.example/cb;?x=1", "https://client.example;/cb?x=1"},
	"A19Query": {
		"https://client.example/cb?x=1&y=2", "https://client.example/cb?x=2", "https://client.example/cb?", "https://client.example/cb?y=2&x=1",
		"https://client.example/cb?x=1&", "https://client.example/cb?&x=1", "https://client.example/cb??x=1", "https://client.example/other?",
	},
	"A20AnswerInQuery": {"https://client.example/cb?x=1&code=AAA&state=BBB", "https://client.example/cb?x=1&iss=evil"},
	"A21Controls": {
		"https://client.example/cb?x=1\t", "https://client.example/\tcb?x=1", "https://client.example/cb?x=1\n", "https://client.example/cb?x=1\r",
		"https://client.example/cb?x=1\r\nSet-Cookie: session=evil", "https://client.example/cb?x=1%0d%0aSet-Cookie:%20session=evil",
		"https://client.example/cb?x=1\x00", "https://client.example/cb\x00?x=1", "\x01https://client.example/cb?x=1", "java\tscript:alert(1)",
	},
	"A22Space":       {" https://client.example/cb?x=1", "https://client.example/cb?x=1 ", "https://client.example /cb?x=1", "https://client.example/cb?x=1+", "\u00a0https://client.example/cb?x=1", "\ufeffhttps://client.example/cb?x=1"},
	"A23TrailingDot": {"https://client.example./cb?x=1", "https://client.example../cb?x=1"},
	"A24Homographs": {
		"https://сlient.example/cb?x=1", "https://xn--lient-zze.example/cb?x=1", "https://client。example/cb?x=1", "https://client.ｅxample/cb?x=1",
		"https://clıent.example/cb?x=1", "https://client.example\u200b/cb?x=1", "https://cl\u00adient.example/cb?x=1", "https://client․example/cb?x=1",
	},
	"A25Lookalikes": {
		"https://client.example.evil.tld/cb?x=1", "https://evilclient.example/cb?x=1", "https://sub.client.example/cb?x=1",
		"https://evil.tld/client.example/cb?x=1", "https://evil.tld/?https://client.example/cb?x=1", "https://evil.tld/#https://client.example/cb?x=1",
	},
	"A26Relative": {
		"//client.example/cb?x=1", "/cb?x=1", "cb?x=1", "https:client.example/cb?x=1", "https:///client.example/cb?x=1",
		"https:/client.example/cb?x=1", "://client.example/cb?x=1", "///evil.tld", "?x=1", "https:", "https://",
	},
	"A27Schemes": {
		"javascript:alert(1)", "JaVaScRiPt:alert(1)", "javascript://client.example/cb?x=1%0aalert(1)", "data:text/html,<script>alert(1)</script>",
		"data:text/html;base64,PHNjcmlwdD4=", "vbscript:msgbox(1)", "file:///etc/passwd", "blob:https://client.example/1", "about:blank",
		"view-source:https://client.example/cb?x=1", "feed:https://client.example/cb?x=1", "mailto:a@client.example",
	},
	"A28Loopback":   {"http://127.0.0.1:53123/cb", "http://127.0.0.1/cb"},
	"A29LoopbackV6": {"http://[::1]:53123/cb", "http://[::1]/cb"},
	"A37OutOfBand":  {"urn:ietf:wg:oauth:2.0:oob", "urn:ietf:wg:oauth:2.0:oob:auto"},
	"A40OfAnother":  {"https://other.example/cb", "https://pub.example/cb", "https://first.example/cb", "com.example.app:/cb"},
}

// hostileNativeURIs are refused for a native client, which may choose a port and nothing else.
var hostileNativeURIs = map[string][]string{
	"A30Port": {
		"http://127.0.0.1:99999/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:abc/cb", "http://127.0.0.1:-1/cb",
		"http://127.0.0.1:080/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:+80/cb", "http://127.0.0.1: 80/cb", "http://127.0.0.1:80:80/cb",
		"http://127.0.0.1:0x50/cb", "http://127.0.0.1:8e1/cb", "http://127.0.0.1:٨٠/cb", "http://[::1]:0/cb", "http://[::1]:99999/cb",
		"http://127.0.0.1:18446744073709551696/cb",
	},
	"A31Localhost": {"http://localhost:80800/cb", "http://localhost:/cb", "http://localhost:080/cb", "http://LOCALHOST:8080/cb", "http://localhost.:8080/cb", "http://localhost:8080/cb/", "http://localhost.evil.tld/cb", "http://localhost:1@evil.tld/cb", "https://localhost:8080/cb"},
	"A32Spellings": {
		"http://127.1/cb", "http://127.1:80/cb", "http://0x7f.1/cb", "http://0x7f.0.0.1/cb", "http://2130706433/cb", "http://127.000.000.001/cb",
		"http://[::ffff:127.0.0.1]/cb", "http://[0:0:0:0:0:0:0:1]/cb", "http://[::1%25lo]/cb", "http://127.0.0.2/cb", "http://0.0.0.0/cb",
		"http://[::]/cb", "http://127。0。0。1/cb", "http://127.0.0.1./cb", "http://[0::1]:80/cb", "http://０127.0.0.1/cb",
	},
	"A33UserInfo": {
		"http://u@127.0.0.1:1/cb", "http://u:p@127.0.0.1/cb", "http://127.0.0.1:80@evil.tld/cb", "http://127.0.0.1@evil.tld/cb", "http://127.0.0.1:80@evil.tld:80/cb",
		"http://127.0.0.1.evil.tld/cb", "http://127.0.0.1:80.evil.tld/cb", "http://127.0.0.1:1\\@evil.tld/cb", "http://[::1]@evil.tld/cb",
		"http://[::1].evil.tld/cb", "http://[::1]:80@evil.tld/cb", "http://127.0.0.1#@evil.tld/cb", "http://127.0.0.1?@evil.tld/cb",
	},
	"A34Path": {
		"http://127.0.0.1:1/Cb", "http://127.0.0.1:1/cb?z=1", "http://127.0.0.1:1/x/../cb", "http://127.0.0.1:1/cb/", "http://127.0.0.1:1//cb",
		"http://127.0.0.1:1/cb#", "http://127.0.0.1:1", "http://127.0.0.1:1/", "http://127.0.0.1:1/%63b", "http://127.0.0.1:1cb", "http://127.0.0.1:1?/cb",
	},
	"A35HTTPS": {"https://127.0.0.1/cb", "https://127.0.0.1:53123/cb", "https://[::1]:1/cb", "HTTP://127.0.0.1:1/cb"},
	"A36PrivateScheme": {
		"COM.example.app:/cb", "com.example.app://cb", "com.example.app:/cb/", "com.example.app:cb", "com.example.app:/CB", "com.example.app:/cb?x=1",
		"com.example.app:80/cb", "com.example.app2:/cb", "xcom.example.app:/cb", "com.example.app:///cb",
	},
	"A37OutOfBand": {"urn:ietf:wg:oauth:2.0:oob"},
	"A40OfAnother": {"https://pub.example/cb", "https://client.example/cb?x=1"},
}

// holdURIs checks whether the client has these redirect URIs, also with one percent-encoding too many.
func holdURIs(t *testing.T, c *Client, want bool, uris ...string) {
	t.Helper()
	for _, uri := range uris {
		if c.HasRedirectURI(uri) != want || c.HasRedirectURI(url.QueryEscape(uri)) {
			t.Errorf("%q is accepted: %t", uri, !want)
		}
	}
}

// TestA05ToA40RedirectURIsThatAreNotTheClients: a redirect URI that differs by a byte: slash, case, port, userinfo, fragment, dots,
// encodings, IDN twins, CRLF, schemes, IP spellings → an error page; for native clients the port of a registered loopback URI may vary.
func TestA05ToA40RedirectURIsThatAreNotTheClients(t *testing.T) {
	registered := []string{"https://client.example/cb?x=1", "https://client.example/other"}
	web := &Client{Type: ConfidentialClient, RedirectURIs: registered}
	holdURIs(t, web, true, registered...)
	for row, uris := range hostileURIs {
		t.Run(row, func(t *testing.T) { holdURIs(t, web, false, uris...) })
	}
	native := &Client{Type: NativeClient, RedirectURIs: []string{"http://127.0.0.1/cb", "http://[::1]/cb", "com.example.app:/cb", "http://localhost:8080/cb"}}
	holdURIs(t, native, true, "http://127.0.0.1:53123/cb", "http://127.0.0.1/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:65535/cb", "http://[::1]:53123/cb",
		"http://[::1]/cb", "com.example.app:/cb", "http://localhost:8080/cb", "http://localhost/cb", "http://localhost:53123/cb")
	for row, uris := range hostileNativeURIs {
		t.Run("native "+row, func(t *testing.T) { holdURIs(t, native, false, uris...) })
	}
	public := &Client{Type: PublicClient, RedirectURIs: []string{"http://127.0.0.1/cb", "http://[::1]:8080/cb"}}
	holdURIs(t, public, true, public.RedirectURIs...)
	holdURIs(t, public, false, "http://127.0.0.1:53123/cb", "http://[::1]:53123/cb", "http://[::1]/cb", "http://127.0.0.1:80/cb")
}

// TestA39OpenRedirectStrings: 559 open-redirect strings, raw and unescaped → none is accepted as redirect URI.
func TestA39OpenRedirectStrings(t *testing.T) {
	for host, c := range map[string]*Client{
		"client.example": {Type: ConfidentialClient, RedirectURIs: []string{"https://client.example/cb?x=1", "https://client.example/other"}},
		"127.0.0.1":      {Type: NativeClient, RedirectURIs: []string{"http://127.0.0.1/cb"}},
	} {
		lines := openRedirects(host)
		if len(lines) < 200 {
			t.Fatalf("%d lines", len(lines))
		}
		for _, line := range lines {
			if unescaped, err := url.QueryUnescape(line); err == nil && !slices.Contains(c.RedirectURIs, line) {
				holdURIs(t, c, false, line, unescaped)
			}
		}
	}
}

// openRedirects returns strings in which some URL parsers mistake another host for the trusted one.
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
