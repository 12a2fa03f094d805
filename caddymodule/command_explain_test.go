package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestG134T148CommandTokenExplainSaysWhatItIs: `token explain` of good, expired, revoked, forged, altered or unknown tokens and of garbage
// → what it is and what is wrong, unverified claims escaped under a heading, never the token; with a token as argument → an error that does
// not repeat it.
func TestG134T148CommandTokenExplainSaysWhatItIs(t *testing.T) {
	clock := setClock(t)
	g := startGatehouse(t, staffed)
	mint := func(args ...string) string {
		return strings.TrimSpace(g.ok(append([]string{"token", "mint", "--client", "conf"}, args...)...))
	}
	expired := mint("--lifetime", "1s")
	clock.advance(time.Minute)
	access, refresh := g.staffTokens("ada@acme.example", adaPassword)
	parts := strings.Split(access, ".")
	revoked, unsigned := mint(), b64([]byte(`{"alg":"none","typ":"at+jwt"}`))+"."+parts[1]+"."
	g.ok("token", "revoke", "--jti", decodedID(t, g, revoked))
	forged := parts[0] + "." + parts[1] + "." + strings.Split(revoked, ".")[2]
	for _, token := range []string{expired, revoked, forged, unsigned} {
		if g.gate(token) != http.StatusUnauthorized {
			t.Errorf("the gate accepts %s", token)
		}
	}
	foreign := b64([]byte(`{"alg":"RS256","typ":"JWT","kid":"k-7"}`)) + "." +
		b64([]byte(`{"iss":"https://login.example","sub":"ada","exp":1795347703,"realm_access":{"roles":["a","b"]},"evil":"\u001b[2Jx\u202ey"}`)) + ".c2lnbmF0dXJl"
	const head, unverified = "The gate refuses this token.\n", "It says, and nobody has verified it:\n"
	for name, test := range map[string]struct {
		text, verdict string
		says          []string
		lacks         []string
	}{
		"a good token":         {access, gateAccepts, []string{"signature   passed"}, []string{"It is ", unverified}},
		"Bearer":               {"Bearer " + access, gateAccepts, []string{"It is the token of an Authorization header: Bearer was left out.\n", "signature   passed", "\nsubject  u-ada\n"}, []string{unverified}},
		"a header":             {"authorization:  bearer  " + access + "\r\n", gateAccepts, []string{"Bearer was left out"}, []string{unverified}},
		"Bearer and a foreign": {"Bearer " + foreign, head, []string{"Bearer was left out; a JWT (typ JWT, alg RS256, kid k-7).\n", unverified}, nil},
		"nothing":              {"", head, []string{"It is nothing: there was no input.\n"}, []string{unverified}},
		"Bearer alone":         {"Bearer ", head, []string{"It is no JWT, but opaque text of 6 bytes"}, []string{unverified}},
		"words":                {"no token at all", head, []string{"It is no token: it has characters that no token has.\n"}, []string{unverified}},
		"expired":              {expired, head, []string{"time failed token_expired", "signature passed", "subject conf"}, []string{unverified}},
		"revoked":              {revoked, head, []string{"signature passed", "revocation failed token_revoked", "subject conf"}, []string{unverified}},
		"forged":               {forged, head, []string{"signature failed", "revocation passed", "time passed"}, []string{"\nsubject", "\nscope "}},
		"unsigned":             {unsigned, head, []string{"form failed"}, []string{"\nsubject", "\nscope "}},
		"opaque": {"c4ca4238a0b923820dcc509a6f75849b", head, []string{
			"It is no JWT, but opaque text of 32 bytes", "tag not reached", "form failed", "key not reached", "signature not reached", "revocation not reached",
		}, []string{unverified}},
		"too long":               {strings.Repeat("a", 9000), head, []string{"It is a text of 9000 bytes: no token may have more than 8192.\n"}, []string{unverified}},
		"a refresh token":        {refresh, head, []string{"It is a refresh token of this issuer, which the gate never takes.\n", "\nfamily  "}, []string{unverified}},
		"a client's credentials": {"Basic Y29uZjp4", head, []string{"It is the credentials of a client in an Authorization header (Basic), and no token.\n"}, []string{unverified}},
		"an answer":              {`{"access_token":"` + access + `"}`, head, []string{"It is JSON: give the token alone"}, []string{unverified, "u-ada"}},
		"cut":                    {access[1:], head, []string{"It is no JWT"}, []string{unverified}},
		"without its signature":  {parts[0] + "." + parts[1] + ".", head, []string{"It is a JWT (typ at+jwt, alg ES256, kid ", unverified, `claim   sub        "u-ada"`}, []string{"\nsubject"}},
		"altered":                {parts[0] + "." + b64([]byte(`{"iss":"`+g.url+`","sub":"root"}`)) + "." + parts[2], head, []string{unverified, `"root"`}, []string{"\nsubject"}},
		"broken claims":          {parts[0] + ".e30e30." + parts[2], head, []string{"whose claims cannot be read.\n", unverified, "header  alg"}, nil},
		"claims there twice":     {parts[0] + "." + b64([]byte(`{"sub":"a","sub":"b"}`)) + "." + parts[2], head, []string{"whose claims cannot be read.\n"}, []string{`"a"`, `"b"`}},
		"encrypted":              {b64([]byte(`{"alg":"RSA-OAEP","enc":"A256GCM"}`)) + ".a.b.c.d", head, []string{"It is an encrypted JWT (JWE, RFC 7516)", `header  enc  "A256GCM"`}, nil},
		"a foreign token": {foreign, head, []string{
			"It is a JWT (typ JWT, alg RS256, kid k-7).\n", "issuer_unknown; needed: iss is an issuer that is known here: " + g.url, unverified,
			`"https://login.example"`, `1795347703 (2026-11-22T`, `{"roles":["a","b"]}`, `\u001b[2Jx\u202ey`,
		}, []string{"\x1b", "\u202e", "\nsubject"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := g.run(test.text, "token", "explain")
			check(t, err)
			if !strings.HasPrefix(out, test.verdict) {
				t.Errorf("it says\n%s", out)
			}
			for _, want := range test.says {
				if !strings.Contains(out, want) && !hasLine(out, strings.Fields(want)) {
					t.Errorf("it lacks %q:\n%s", want, out)
				}
			}
			for _, other := range test.lacks {
				if strings.Contains(out, other) {
					t.Errorf("it says %q:\n%s", other, out)
				}
			}
			if text := strings.TrimSpace(test.text); len(text) > 20 && strings.Contains(out, text) {
				t.Errorf("it repeats the text:\n%s", out)
			}
		})
	}
	if out, err := g.run(access, "token", "explain", "--audience", "https://other.example"); err != nil || !strings.Contains(out, "audience_wrong;") {
		t.Errorf("for another audience: %v\n%s", err, out)
	}
	for _, args := range [][]string{{access}, {"Bearer", access}, {"--json", access}} {
		out, err := g.run("", append([]string{"token", "explain"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), "give the token on standard input") || strings.Contains(out+err.Error(), access) {
			t.Errorf("as an argument: %.20q: %s, %v", args, out, err)
		}
	}
	body := g.must(http.StatusOK, "POST", "/oauth/tokens/explain", `{"token":"`+foreign+`"}`)
	if !strings.Contains(body, `"what":"a JWT (typ JWT, alg RS256, kid k-7)","unverified":{"header":{"alg":"RS256","typ":"JWT","kid":"k-7"},"claims":{"iss":"https://login.example",`) ||
		!strings.Contains(body, `"accepted":false`) {
		t.Errorf("explained %s", body)
	}
}

// TestCommandTokenExplainOfAnIDToken checks that `token explain` identifies an ID token and does not report failed checks of access tokens.
func TestCommandTokenExplainOfAnIDToken(t *testing.T) {
	g := startOpenID(t)
	signed := g.userTokens(openIDRequestOf("conf", "openid"), "ada@acme.example")
	g.explained(t, signed.IDToken, gateRefuses, "It is an ID token of this issuer", "type failed header_unexpected", "subject u-ada", "client conf")
	out, err := g.run(signed.IDToken, "token", "explain")
	if check(t, err); hasLine(out, []string{"tag"}) || hasLine(out, []string{"aud"}) {
		t.Errorf("it says\n%s", out)
	}
	g.explained(t, signed.AccessToken, gateAccepts, "aud "+g.url)
}
