package token

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxExponent bounds numbers to those below 10^10000, and their reciprocals: a short text must not stand for a number that
	// nothing behind us can compute with.
	maxExponent = 9999
	// maxPlainDigits is how many digits a number may have to be written without an exponent.
	maxPlainDigits = 64
)

// canonicalNumber returns the one text that stands for the value of a JSON number, however it is spelled: 1.0, 10e-1 and 1 are "1". It
// returns false for a text that is not a JSON number, and for numbers beyond maxExponent. Its cost is linear in the length of the text.
func canonicalNumber(literal string) (string, bool) {
	if value := jsontext.Value(literal); value.Kind() != '0' || !value.IsValid() || strings.ContainsAny(literal, " \t\r\n") {
		return "", false
	}
	unsigned, negative := strings.CutPrefix(literal, "-")
	mantissa, power := unsigned, ""
	if i := strings.IndexAny(unsigned, "eE"); i >= 0 {
		mantissa, power = unsigned[:i], unsigned[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0", true
	}
	exponent := 0 // of the last digit
	if power != "" {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil || max(exponent, -exponent) > maxExponent+len(literal) {
			return "", false
		}
	}
	exponent -= len(fraction)
	significant := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	first := exponent + len(significant) - 1 // the exponent of the first digit
	if max(first, -first) > maxExponent {
		return "", false
	}
	return sign(negative) + decimal(significant, exponent, first), true
}

func sign(negative bool) string {
	if negative {
		return "-"
	}
	return ""
}

// decimal writes digits, the last of which has the exponent and the first of which has the other one.
func decimal(digits string, exponent, first int) string {
	switch {
	case exponent >= 0 && (exponent == 0 || first < maxPlainDigits):
		return digits + strings.Repeat("0", exponent)
	case exponent < 0 && first >= 0:
		return digits[:first+1] + "." + digits[first+1:]
	case exponent < 0 && -exponent <= maxPlainDigits:
		return "0." + strings.Repeat("0", -first-1) + digits
	case len(digits) == 1:
		return digits + "e" + strconv.Itoa(first)
	}
	return digits[:1] + "." + digits[1:] + "e" + strconv.Itoa(first)
}
