package configuration

import (
	"strings"
	"testing"
)

func TestGuessableSecrets(t *testing.T) {
	for secret, guessable := range map[string]bool{
		"": true, "secret123": true, "s3cr3t": true, strings.Repeat("1", 38): true, strings.Repeat("1", 39): false, strings.Repeat("a", 27): true,
		strings.Repeat("a", 28): false, "correct-horse-battery-staple": false, "0123456789abcdef0123456789abcdef": false, "Tr0ub4dor&3": true, "aB3$aB3$aB3$aB3$aB3": true,
		"aB3$aB3$aB3$aB3$aB3$": false, "пароль": true,
	} {
		if got := isGuessable(secret); got != guessable {
			t.Errorf("%q: %t", secret, got)
		}
	}
}
