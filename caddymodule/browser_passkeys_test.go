package caddymodule

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net"
	"strings"
	"testing"
)

// TestW72ToW74BrowserPasskeys: Chromium with an authenticator at an issuer and two hosts over TLS, one of another registrable domain: a passkey
// added under a rule, used alone by button and from the field for the address, as a second factor, renamed, removed; a security key without
// user verification; no script → signed in with one touch, at the page asked for, on every host.
func TestW72ToW74BrowserPasskeys(t *testing.T) {
	certificate, key := certificateFiles(t)
	callback := freeAddr(t)
	changes := append(vaultHosts("totp\nsecond_factor required everybody"), "wiki.localhost", "wiki.another.test", "reverse_proxy UPSTREAM", saysWho,
		"http://", "https://", "\tadmin ADMIN\n", "\tadmin ADMIN\n\tauto_https disable_redirects\n", "TCPPORT {\n", "TCPPORT {\n\ttls "+certificate+" "+key+"\n")
	g := startHosts(t, changes...)
	g.url = "https://" + g.addr
	_, port, _ := net.SplitHostPort(g.addr)
	block, _ := pem.Decode([]byte(testCertificate()["certificate"]))
	parsed, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	digest := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	person := func(name string) map[string]string {
		return map[string]string{"id": "u-" + name, "email": name + "@acme.example", "password": peoplePassword}
	}
	g.runBrowser(t, "browser-passkeys.mjs", callback, map[string]any{
		"issuer": g.origin("auth"), "applications": map[string]string{"app": g.origin("app"), "wiki": "https://wiki.another.test:" + port},
		"ada": person("ada"), "ben": person("ben"),
		"flags": []string{
			"--host-resolver-rules=MAP * 127.0.0.1", "--ignore-certificate-errors-spki-list=" + base64.StdEncoding.EncodeToString(digest[:]),
		},
	})
	if logs := g.logs(); !strings.Contains(logs, `"kind":"passkey"`) || strings.Contains(logs, "clientDataJSON") {
		t.Error("the log has no line about the passkey, or an answer")
	}
}
