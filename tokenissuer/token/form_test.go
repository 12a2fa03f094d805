package token

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG31OneTokenHasOneSpelling: padding, whitespace or unused bits in any part → 401.
func TestG31OneTokenHasOneSpelling(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	// Claims whose encoding has unused bits and both characters that differ between the alphabets.
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
					// The signature covers the odd spelling, so only the spelling itself can be the reason.
					g.refuses(t, resign(join(i, bad)), "token_malformed")
				}
			})
		}
	}
	for _, bad := range []string{token + "\n", " " + token, token + " ", "\ufeff" + token, token + "\x00"} {
		g.refuses(t, bad, "token_malformed")
	}
}

// allocatedBytes returns the average number of bytes that a call of f allocates.
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

// TestG33HostileFormsCostLittle: a million dots, deep nesting in a header → 401 before any base64 or JSON, in bounded memory.
func TestG33HostileFormsCostLittle(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	braces := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte("{"), 6000))
	nested := tokentest.Encode(testkeys.Header(key)) + "." + tokentest.Encode(`{"x":`+strings.Repeat("[", 5900)) + "." + tokentest.Encode("x")
	for name, v := range map[string]struct {
		token   string
		peakLen int64
		reason  string
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
			if n := allocatedBytes(func() { _, _ = g.verifier.Verify(v.token, g.audiences) }); n > v.peakLen {
				t.Errorf("%d bytes allocated, want at most %d", n, v.peakLen)
			}
		})
	}
}
