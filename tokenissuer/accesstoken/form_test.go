package accesstoken

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func TestG22EncryptedNestedAndCompressedTokensAreRefused(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	inner := testkeys.Sign(key, testkeys.Header(key), g.claims())
	g.accepts(t, inner)
	g.refuses(t, tokentest.Encode(`{"alg":"RSA-OAEP-256","enc":"A256GCM","typ":"at+jwt","kid":"`+key.ID+`"}`)+"."+tokentest.Encode("key")+"."+tokentest.Encode("iv")+"."+tokentest.Encode("text")+"."+tokentest.Encode("tag"), "token_malformed")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key), inner), "claims_malformed")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "cty", `"JWT"`), inner), "header_unexpected")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "cty", `"JWT"`), g.claims()), "header_unexpected")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "zip", `"DEF"`), g.claims()), "header_unexpected")
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key, "enc", `"A256GCM"`), g.claims()), "header_unexpected")
}

func TestG23OtherSerialisationsAreRefused(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	token := testkeys.Sign(key, testkeys.Header(key), g.claims())
	parts := strings.Split(token, ".")
	for _, bad := range []string{
		"", ".", "..", "...", parts[0], parts[0] + "." + parts[1], token + ".", "." + token, token + "." + parts[2],
		parts[0] + ".." + parts[2], "." + parts[1] + "." + parts[2], parts[0] + "." + parts[1] + ".", "..", ".." + parts[2],
		`{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		`{"payload":"` + parts[1] + `","signatures":[{"protected":"` + parts[0] + `","signature":"` + parts[2] + `"}]}`,
	} {
		why := "token_malformed"
		if bad == parts[0]+".."+parts[2] {
			why = "claims_malformed" // an empty payload
		}
		g.refuses(t, bad, why)
	}
	// A good signature over an empty payload.
	g.refuses(t, testkeys.SignInput(key, parts[0]+"."), "claims_malformed")
}

func TestG31OneTokenHasOneSpelling(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	// Claims whose encoding leaves unused bits and holds both characters that differ between the alphabets.
	payload := g.claims("x", `"`+strings.Repeat("~?>", 3)+`ÿ"`)
	for len(payload)%3 != 1 {
		payload += " "
	}
	h := testkeys.Header(key)
	for len(h)%3 != 1 {
		h = strings.Replace(h, ",", ", ", 1)
	}
	token := testkeys.Sign(key, h, payload)
	g.accepts(t, token)
	parts := strings.Split(token, ".")
	if !strings.ContainsAny(parts[1], "-_") {
		t.Fatal("the payload has no character that differs")
	}
	join := func(i int, part string) string {
		p := slices.Clone(parts)
		p[i] = part
		return strings.Join(p, ".")
	}
	resign := func(token string) string {
		input, _ := cutLast(token)
		return testkeys.SignInput(key, input)
	}
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i, part := range parts {
		last := strings.IndexByte(alphabet, part[len(part)-1])
		for name, bad := range map[string]string{
			"padding": part + "=", "more padding": part + "==", "unused bits": part[:len(part)-1] + string(alphabet[last+1]),
			"newline at the end": part + "\n", "newline within": part[:4] + "\n" + part[4:], "carriage return within": part[:4] + "\r" + part[4:],
			"CRLF at the start": "\r\n" + part, "four newlines": part[:4] + "\n\n\n\n" + part[4:], "space": part[:4] + " " + part[4:],
			"tab": part + "\t", "NUL": part + "\x00", "bang": part[:4] + "!" + part[5:], "high byte": part[:4] + "\xff" + part[5:],
			"one left over": part + "AAA"[:(5-len(part)%4)%4], "plus and slash": strings.NewReplacer("-", "+", "_", "/").Replace(part),
		} {
			if bad == part {
				continue
			}
			if i == 2 && name == "one left over" {
				continue
			}
			t.Run(fmt.Sprintf("part %d/%s", i+1, name), func(t *testing.T) {
				g.refuses(t, join(i, bad), "token_malformed")
				if i < 2 {
					// Signed over the odd spelling, only the spelling itself can be what refuses it.
					g.refuses(t, resign(join(i, bad)), "token_malformed")
				}
			})
		}
	}
	for _, bad := range []string{token + "\n", " " + token, token + " ", "\ufeff" + token, token + "\x00"} {
		g.refuses(t, bad, "token_malformed")
	}
}

// sized returns a good token of exactly n bytes, with the claim that fills it up.
func (g *gate) sized(t *testing.T, n int) string {
	t.Helper()
	key := g.signing[oauth.EdDSA]
	for h := testkeys.Header(key); len(h) < 130; h = strings.Replace(h, ",", ", ", 1) {
		for _, fill := range []int{0, 1, 2} {
			empty := len(testkeys.Sign(key, h, g.claims("fill", `""`)))
			at := (n-empty)*3/4 + fill - 1
			if token := testkeys.Sign(key, h, g.claims("fill", `"`+strings.Repeat("x", at)+`"`)); len(token) == n {
				return token
			}
		}
	}
	t.Fatalf("no token of %d bytes", n)
	return ""
}

func TestG32TokensOf8KiBAreJudgedAndNoLonger(t *testing.T) {
	g := newGate(t)
	g.accepts(t, g.sized(t, 8192))
	g.refuses(t, g.sized(t, 8193), "token_too_long")
	g.refuses(t, g.sized(t, 15<<10), "token_too_long")
	// Even if it was somehow remembered.
	long := g.sized(t, 8193)
	g.verifier.Remember(long, &AccessToken{Audience: g.audiences, ExpiresAt: tokentest.Start.Add(time.Hour)})
	if _, err := g.verifier.Verify(long, g.audiences); err == nil {
		t.Error("a token of 8193 bytes was accepted from the cache")
	}
}

// allocatedBytes is what one call of f allocates, on average.
func allocatedBytes(f func()) int64 {
	const runs = 50
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc-before.TotalAlloc) / runs
}

func TestG33HostileFormsCostLittle(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	braces := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte("{"), 6000))
	nested := tokentest.Encode(testkeys.Header(key)) + "." + tokentest.Encode(`{"x":`+strings.Repeat("[", 5900)) + "." + tokentest.Encode("x")
	for name, v := range map[string]struct {
		token  string
		most   int64
		reason string
	}{
		"a million dots":       {strings.Repeat(".", 1_000_000), 16 << 10, "token_too_long"},
		"8 KiB of dots":        {strings.Repeat(".", MaxTokenBytes), 16 << 10, "token_malformed"},
		"a million letters":    {strings.Repeat("a", 1_000_000), 16 << 10, "token_too_long"},
		"8 KiB of braces":      {braces + "." + tokentest.Encode("{}") + "." + tokentest.Encode("x"), 16 << 10, "header_malformed"},
		"a header of brackets": {base64.RawURLEncoding.EncodeToString([]byte(`{"x":`+strings.Repeat("[", 6000))) + "." + tokentest.Encode("{}") + "." + tokentest.Encode("x"), 16 << 10, "header_malformed"},
		"a payload of arrays":  {nested, 16 << 10, "claims_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			g.refuses(t, v.token, v.reason)
			if n := allocatedBytes(func() { _, _ = g.verifier.Verify(v.token, g.audiences) }); n > v.most {
				t.Errorf("%d bytes allocated, want at most %d", n, v.most)
			}
		})
	}
}
