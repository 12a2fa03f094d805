package token

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// TestG35ClaimsAreReadStrictly: a payload that is not a JSON object, nested deeply, with doubled or case-varied
// claims, a BOM, bad UTF-8 → 401.
func TestG35ClaimsAreReadStrictly(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	members := strings.TrimSuffix(g.claims(), "}")
	exp := strconv.FormatInt(tokentest.Start.Unix()+3600, 10)
	for name, payload := range map[string]string{
		"text": "hello", "number": "1", "null": "null", "string": `"x"`, "array": "[" + g.claims() + "]", "empty array": "[]", "nothing": "",
		"empty object": "{}", "truncated": members, "trailing object": g.claims() + "{}", "trailing text": g.claims() + "x", "trailing comma": members + ",}",
		"leading space": " " + g.claims(), "BOM": "\ufeff" + g.claims(), "comment": members + "/**/}", "single quotes": `{'iss':'x'}`,
		"UTF-16": "\xff\xfe{\x00}\x00", "bad UTF-8 in a value": members + `,"x":"` + "\xff" + `"}`, "bad UTF-8 in a name": members + `,"` + "\xff" + `":1}`,
		"overlong UTF-8": members + `,"x":"` + "\xc0\xaf" + `"}`, "lone surrogate": members + `,"x":"\ud800"}`, "lone surrogate in sub": g.claims("sub", `"\ud800"`),
		"raw control character": members + `,"x":"` + "\x01" + `"}`,
		"exp twice":             members + `,"exp":` + exp + `}`, "sub twice": members + `,"sub":"user-1"}`, "scope twice": members + `,"scope":"admin"}`,
		"aud twice": members + `,"aud":"x"}`, "iss twice, escaped": members + `,"\u0069ss":"x"}`, "other name twice": members + `,"x":1,"x":2}`,
		"nested name twice": members + `,"x":{"a":1,"a":2}}`, "depth": members + `,"x":` + strings.Repeat("[", 2900) + "1" + strings.Repeat("]", 2800) + "}",
		"EXP instead of exp": g.claims("exp", "", "EXP", exp), "ſub instead of sub": g.claims("sub", "", "\u017fub", `"user-1"`),
		"Jti instead of jti": g.claims("jti", "", "Jti", `"token-1"`),
		"EXP beside exp":     g.claims("EXP", "99999999999"), "ſub beside sub": g.claims("\u017fub", `"admin"`), "Scope beside scope": g.claims("Scope", `"admin"`),
		"iſſ beside iss": g.claims("i\u017f\u017f", `"https://evil.example"`), "CLIENT_ID beside client_id": g.claims("CLIENT_ID", `"x"`), "ROLE without role": g.claims("role", "", "ROLE", `"admin"`),
	} {
		t.Run(name, func(t *testing.T) {
			g.refuses(t, testkeys.Sign(key, testkeys.Header(key), payload), "claims_malformed")
		})
	}
	g.accepts(t, testkeys.Sign(key, testkeys.Header(key), g.claims("x", `{"exp":1,"EXP":2}`, "scopes", `["a"]`, "nonce", "null")))
	g.accepts(t, testkeys.Sign(key, testkeys.Header(key), g.claims("x", strings.Repeat("[", strictjson.MaxDepth-1)+strings.Repeat("]", strictjson.MaxDepth-1), "y", `"\"`+strings.Repeat("[{", 99)+`"`)))
	g.refuses(t, testkeys.Sign(key, testkeys.Header(key), g.claims("x", strings.Repeat("[", strictjson.MaxDepth)+strings.Repeat("]", strictjson.MaxDepth))), "claims_malformed")
}

// TestG36ExpiryIsJudgedToTheSecond: TestG36Expiry covers values that are not times.
func TestG36ExpiryIsJudgedToTheSecond(t *testing.T) {
	token := newGate(t).good()
	for after, alive := range map[time.Duration]bool{
		-time.Second: true, 0: true, 5 * time.Second: true, 5*time.Second + 1: false, 6 * time.Second: false, time.Hour: false,
	} {
		g := newGate(t)
		g.wait(time.Hour + after)
		if alive {
			g.accepts(t, token)
		} else {
			g.refuses(t, token, "token_expired")
		}
	}
	g := newGate(t)
	for _, exp := range []string{"1800003600.0", "1.8000036e9", "9223372036854775807", "253402300800", "NaN", "01800003600", "0x6b49d200"} {
		t.Run("exp "+exp, func(t *testing.T) { g.refuses(t, g.good("exp", exp), "claims_malformed") })
	}
	g.refuses(t, g.good("exp", "0"), "token_expired")
}

// TestG37TimesOutOfReasonAreRefused: nbf or iat beyond the leeway, a life beyond five weeks → refused.
func TestG37TimesOutOfReasonAreRefused(t *testing.T) {
	g := newGate(t)
	at := func(d time.Duration) string { return strconv.FormatInt(tokentest.Start.Add(d).Unix(), 10) }
	g.accepts(t, g.good("nbf", at(-time.Hour)))
	g.accepts(t, g.good("nbf", at(5*time.Second)))
	g.refuses(t, g.good("nbf", at(6*time.Second)), "token_from_future")
	g.refuses(t, g.good("nbf", "253402300799"), "token_from_future")
	for _, nbf := range []string{"9223372036854775807", `"1"`, "1.5", "1e999", "[]", "-1", "9223372036854775808"} {
		t.Run("nbf "+nbf, func(t *testing.T) { g.refuses(t, g.good("nbf", nbf), "claims_malformed") })
	}
	g.accepts(t, g.good("iat", at(60*time.Second)))
	g.refuses(t, g.good("iat", at(61*time.Second)), "token_from_future")
	for _, iat := range []string{"", "null", `"1800000000"`, "1.5", "-1", "1e999", "9223372036854775807", "9223372036854775808"} {
		t.Run("iat "+iat, func(t *testing.T) { g.refuses(t, g.good("iat", iat), "claims_malformed") })
	}
	g.accepts(t, g.good("exp", at(store.MaxLifetime)))
	g.refuses(t, g.good("exp", at(store.MaxLifetime+time.Second)), "lifetime_too_long")
	g.refuses(t, g.good("iat", "0"), "lifetime_too_long")
	g.refuses(t, g.good("exp", "253402300799"), "lifetime_too_long")
	for _, at := range []string{"1e999", `"x"`, "9223372036854775808", "1.5"} {
		g.refuses(t, g.good("auth_time", at), "claims_malformed")
	}
	// A token that was issued after its expiry is invalid.
	g.refuses(t, g.good("iat", at(30*time.Second), "exp", at(-time.Minute)), "token_expired")
}

// TestG40OtherNamesAreTexts: TestG37To40Claims covers sub, client_id and jti.
func TestG40OtherNamesAreTexts(t *testing.T) {
	g := newGate(t)
	for _, name := range []string{"sid", "org", "role"} {
		for _, value := range []string{"1", `["x"]`, "{}", "true"} {
			g.refuses(t, g.good(name, value), "claims_malformed")
		}
	}
}
