package caddymodule

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG34ForgedTokensFallAtTheirTag: a token that this issuer never issued → refused by its tag before the signature is verified.
func TestG34ForgedTokensFallAtTheirTag(t *testing.T) {
	g := startBoth(t, site)
	genuine, second := g.watched(g.token()), g.watched(g.token())
	own := g.signer()
	stranger := strangerTo(t, own)
	stranger.kid = own.kid
	asIssued := `{"jti":"` + oauth.NewID() + strings.Repeat("B", 12) + `",` + own.claims(map[string]any{"jti": nil})[1:]

	parts, others := strings.Split(genuine, "."), strings.Split(second, ".")
	payload := func(part string) string {
		text, err := base64.RawURLEncoding.DecodeString(part)
		check(t, err)
		return string(text)
	}
	edited := strings.Replace(payload(parts[1]), `"conf"`, `"root"`, 1)
	const tag = len(`{"jti":"`) + 22 // behind the id
	mixed := payload(parts[1])[:tag] + payload(others[1])[tag:]
	if edited == payload(parts[1]) || mixed == payload(parts[1]) {
		t.Fatalf("the payloads are %s and %s", edited, mixed)
	}
	const byTag, bySignature = "tag_wrong", "signature_wrong"
	g.passed(t, g.request("GET", "/any/x", bearer(genuine)))
	for _, c := range []struct{ name, token, reason string }{
		{"made up under our kid", stranger.good(), byTag},
		{"made up, with a tag that is guessed", stranger.token(own.header(nil), asIssued), byTag},
		{"signed with our key, and never issued", own.token(own.header(nil), asIssued), byTag},
		{"another payload", parts[0] + "." + b64([]byte(edited)) + "." + parts[2], byTag},
		{"another payload, signed with our key", own.token(payload(parts[0]), edited), byTag},
		{"another header", b64([]byte(own.header(map[string]any{"kid": "other"}))) + "." + parts[1] + "." + parts[2], byTag},
		{"the tag of another token", parts[0] + "." + b64([]byte(mixed)) + "." + parts[2], byTag},
		{"another signature", parts[0] + "." + parts[1] + "." + b64(stranger.sign(parts[0]+"."+parts[1])), bySignature},
		{"the signature of another token", parts[0] + "." + parts[1] + "." + others[2], bySignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := g.request("GET", "/any/x", bearer(g.watched(c.token)))
			g.refused(t, request, http.StatusUnauthorized)
			g.audited()
			status, _, _ := g.raw(request)
			if lines := g.audited(); status != http.StatusUnauthorized || len(lines) != 1 || lines[0]["reason"] != c.reason {
				t.Errorf("%d, audited as %v, want %s", status, lines, c.reason)
			}
		})
	}
	for _, token := range []string{genuine, second} {
		g.passed(t, g.request("GET", "/any/x", bearer(token)))
	}
}
