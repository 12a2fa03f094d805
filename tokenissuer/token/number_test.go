package token

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzV2CanonicalNumber compares canonicalNumber with the arithmetic of math/big. Two literals have one text if and
// only if they have one value, and the text has that value.
func FuzzV2CanonicalNumber(f *testing.F) {
	for _, pair := range [][2]string{
		{"1", "1.0"}, {"1e0", "10e-1"}, {"-0", "0"}, {"9007199254740993", "9007199254740992"}, {"1234567890123456789", "1.234567890123456789e18"},
		{"1e400", "1e401"}, {"0.1", "1e-1"}, {"123.450", "12345e-2"}, {"1e64", "1e63"}, {"1.5e64", "0.000000000000000000015"}, {"01", "+1"},
		{"1e9999", "1e10000"}, {"1e99999999999999999999", "0e99999999999999999999"}, {" 1", "1 "}, {"-1", "1"}, {"1e-64", "12e-65"}, {"1e-65", "123e-67"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 2000 {
			return
		}
		textA, okA := canonicalNumber(a)
		textB, okB := canonicalNumber(b)
		if okA {
			if again, ok := canonicalNumber(textA); !ok || again != textA {
				t.Fatalf("%q is %q, and that is %q", a, textA, again)
			}
			if !jsontext.Value(a).IsValid() || len(textA) > len(a)+maxPlainDigits+8 || rational(t, a).Cmp(rational(t, textA)) != 0 {
				t.Fatalf("%q is not %q", a, textA)
			}
		}
		if okA && okB && (textA == textB) != (rational(t, a).Cmp(rational(t, b)) == 0) {
			t.Fatalf("%q and %q are %q and %q", a, b, textA, textB)
		}
	})
}

// rational returns the value of a number. Its exponent is at most as long as the one that canonicalNumber has found.
func rational(t *testing.T, literal string) *big.Rat {
	t.Helper()
	if strings.Trim(strings.FieldsFunc(literal, func(r rune) bool { return r == 'e' || r == 'E' })[0], "-0.") == "" {
		return new(big.Rat) // big refuses exponents that a zero may have
	}
	value, ok := new(big.Rat).SetString(literal)
	if !ok {
		t.Fatalf("%q is no number", literal)
	}
	return value
}

// TestV2ANumberCostsNoMoreThanItsText: neither digits nor exponents cost more than their length, for us or for
// readers of what we forward.
func TestV2ANumberCostsNoMoreThanItsText(t *testing.T) {
	long := strings.Repeat("9", 1<<20)
	started := time.Now()
	for _, literal := range []string{"1e999999999", "1e-999999999", "1e" + long, "1e-" + long, "0." + strings.Repeat("0", 1<<20) + "1", long} {
		if got, ok := canonicalNumber(literal); ok {
			t.Errorf("%.20s… is %.20s…", literal, got)
		}
	}
	for literal, want := range map[string]string{
		"0e" + long: "0", "1" + strings.Repeat("0", 9999): "1e9999", "0." + strings.Repeat("0", 9998) + "1": "1e-9999",
		strings.Repeat("1", 200): strings.Repeat("1", 200), "1.5e9999": "1.5e9999", "1e63": "1" + strings.Repeat("0", 63), "1e64": "1e64",
	} {
		if got, ok := canonicalNumber(literal); !ok || got != want {
			t.Errorf("%.20s… is %.20s…, want %.20s…", literal, got, want)
		}
	}
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestV2NumbersInAnIntrospectionResponse checks that they are as exact as those in a token.
func TestV2NumbersInAnIntrospectionResponse(t *testing.T) {
	p := newPartner()
	said, err := ParseIntrospection([]byte(p.answer("account", "1234567890123456789", "list", "[9007199254740993,2.0]", "mixed", `[2,"2.0",true]`,
		"in", `{"side":-9007199254740993}`, "late", "1e99999999")), TrustedTokens{Issuer: otherIssuer})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, value string
		has         bool
	}{
		{"account", "1234567890123456789", true}, {"account", "1234567890123456789.0", true}, {"account", "1234567890123456800", false},
		{"list", "9007199254740993", true}, {"list", "9007199254740992", false}, {"list", "2", true}, {"list", "2.00", true},
		{"mixed", "2", true}, {"mixed", "2.0", true}, {"mixed", "true", true}, {"mixed", "2.00", false},
		{"in.side", "-9007199254740993", true}, {"in.side", "-9007199254740992", false}, {"late", "1e99999999", false},
		{"exp", said.token.Claim("exp")[0] + ".0", true}, {"sub", said.token.Subject + ".0", false},
	} {
		if got := said.token.HasClaim(test.name, []string{"x", test.value}); got != test.has {
			t.Errorf("%s has %s: %t", test.name, test.value, got)
		}
	}
}
