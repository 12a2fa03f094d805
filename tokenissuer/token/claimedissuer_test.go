package token

import (
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
)

func TestClaimedIssuer(t *testing.T) {
	p := newPartner()
	good := p.token("at+jwt", p.marked())
	parts := strings.Split(good, ".")
	with := func(payload string) string { return parts[0] + "." + tokentest.Encode(payload) + "." + parts[2] }
	const deep = 2900
	for name, v := range map[string]struct {
		token, issuer string
		isJWT         bool
	}{
		"an access token":      {good, otherIssuer, true},
		"without signature":    {parts[0] + "." + parts[1] + ".", "", true},
		"unsigned":             {testkeys.Sign(p.key, `{"alg":"none"}`, `{"iss":"x"}`), "x", true},
		"header with a space":  {tokentest.Encode(`{ "alg":"x"}`) + "." + parts[1] + "." + parts[2], otherIssuer, true},
		"header with a break":  {tokentest.Encode("{\n\"crit\":[]}") + "." + parts[1] + "." + parts[2], "", true},
		"iss twice":            {with(`{"iss":"a","iss":"b"}`), "", true},
		"iss twice, escaped":   {with(`{"iss":"a","\u0069ss":"b"}`), "", true},
		"other claim twice":    {with(`{"iss":"a","x":1,"x":2}`), "", true},
		"ISS":                  {with(`{"ISS":"a"}`), "", true},
		"iss an array":         {with(`{"iss":["a"]}`), "", true},
		"iss a number":         {with(`{"iss":1}`), "", true},
		"no iss":               {with(`{}`), "", true},
		"payload an array":     {with(`[{"iss":"a"}]`), "", true},
		"payload null":         {with(`null`), "", true},
		"payload a JWT":        {with(good), "", true},
		"a depth bomb":         {with(`{"iss":"a","x":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + "}"), "", true},
		"a header bomb":        {tokentest.Encode(`{"x":`+strings.Repeat("[", deep)) + "." + parts[1] + "." + parts[2], "", true},
		"encrypted":            {parts[0] + ".a.b.c.d", "", true},
		"too long":             {good + strings.Repeat("A", MaxTokenBytes), "", true},
		"padded":               {good + "=", "", true},
		"opaque":               {"2YotnFZFEjr1zCsicMWpAA", "", false},
		"opaque with a prefix": {"ory_at_fGQ.x-Y_z", "", false},
		"opaque with dots":     {"v1.local.abc.def", "", false},
		"opaque, by chance":    {"eyJzdWIiOiJhbGljZSJ9", "", false},
		"opaque, one dot":      {"eyJ.abc", "", false},
		"nothing":              {"", "", false},
		"dots":                 {"...", "", false},
		"a million dots":       {strings.Repeat(".", 1_000_000), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if issuer, isJWT := ClaimedIssuer(v.token); issuer != v.issuer || isJWT != v.isJWT {
				t.Errorf("got %q, %t, want %q, %t", issuer, isJWT, v.issuer, v.isJWT)
			}
		})
	}
}

// TestG33HostileFormsCostLittleBeforeTheIssuerIsKnown: anyone can send such tokens, and nothing has been checked at
// that point.
func TestG33HostileFormsCostLittleBeforeTheIssuerIsKnown(t *testing.T) {
	part := func(text string) string { return tokentest.Encode(text) }
	for name, token := range map[string]string{
		"a million dots":       strings.Repeat(".", 1_000_000),
		"a million letters":    strings.Repeat("a", 1_000_000),
		"a long JWT":           part(`{"alg":"x"}`) + "." + strings.Repeat("A", 1_000_000) + ".AA",
		"8 KiB of dots":        strings.Repeat(".", MaxTokenBytes),
		"a header of brackets": part(`{"x":`+strings.Repeat("[", 5900)) + "." + part("{}") + ".AA",
		"braces":               part(strings.Repeat("{", 5900)) + "." + part("{}") + ".AA",
		"a payload of arrays":  part(`{"alg":"x"}`) + "." + part(`{"x":`+strings.Repeat("[", 5900)) + ".AA",
		"white space":          part("{"+strings.Repeat(" ", 5900)+"}") + "." + part("{}") + ".AA",
	} {
		t.Run(name, func(t *testing.T) {
			if n := allocatedBytes(func() { _, _ = ClaimedIssuer(token) }); n > 24<<10 {
				t.Errorf("%d bytes allocated", n)
			}
		})
	}
}
