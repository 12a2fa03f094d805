package configuration

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

// maxCaddyfile bounds the Caddyfiles that warnSubstituted reads.
const maxCaddyfile = 4 << 20

// warnSubstituted warns of a secret that was written as {$NAME}. Caddy replaces that before the file is parsed, so that the configuration
// holds the value. Only the file shows how the secret was written. Argument is the index of the secret among the arguments of its line,
// from 1.
func warnSubstituted(d *caddyfile.Dispenser, what, value string, argument int) {
	if setting.IsReference(value) {
		return // the variable held the name of another
	}
	words := wordsOfLine(d.File(), d.Line())
	if argument >= len(words) || !strings.Contains(strings.Join(words[argument:], " "), "{$") {
		return
	}
	caddy.Log().Named("oauth").Warn(fmt.Sprintf("%s:%d: the %s comes through {$…}, which Caddy replaces before the file is read: it is as good "+
		"as written out, and the configuration that Caddy saves and shows at its admin endpoint holds it (of a client's secret, "+
		"its SHA-256): write {env.…}, which is replaced when the server starts", d.File(), d.Line(), what))
}

// checkReference returns an error for a malformed reference to a secret, and warns of a secret that is written out. What is "password" or
// "secret".
func checkReference(d *caddyfile.Dispenser, owner, what, value string, argument int) error {
	reference, err := setting.Reference(d, owner, what, value)
	if err == nil && !reference {
		warnSubstituted(d, what+" of "+owner, value, argument)
		caddy.Log().Named("oauth").Warn("the "+what+" of "+owner+" stands in the configuration, which Caddy keeps in the clear "+
			"and shows at its admin endpoint: give it as {env.NAME} or {file./path}", zap.String("file", d.File()), zap.Int("line", d.Line()))
	}
	return err
}

// wordsOfLine returns the words of a line as they were written. It returns none if there is no file that can be read.
func wordsOfLine(file string, line int) []string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxCaddyfile {
		return nil
	}
	content, err := os.ReadFile(file) // Caddy has read it just now
	if err != nil {
		return nil
	}
	lines := bytes.SplitN(content, []byte("\n"), line+1)
	if line < 1 || len(lines) < line {
		return nil
	}
	return strings.Fields(string(lines[line-1]))
}

// leastSecretBits is the entropy that a client secret needs.
const leastSecretBits = 128

// isGuessable reports whether a secret has fewer than leastSecretBits even if its characters were drawn at random from all of their kinds.
func isGuessable(secret string) bool {
	kinds := []struct {
		size  float64
		holds func(c rune) bool
	}{
		{26, func(c rune) bool { return 'a' <= c && c <= 'z' }}, {26, func(c rune) bool { return 'A' <= c && c <= 'Z' }},
		{10, func(c rune) bool { return '0' <= c && c <= '9' }},
		{33, func(c rune) bool { return c < 0x80 && (c|0x20 < 'a' || 'z' < c|0x20) && (c < '0' || '9' < c) }},
		{math.MaxUint16, func(c rune) bool { return c >= 0x80 }},
	}
	drawnFrom := 0.0
	for _, kind := range kinds {
		if strings.ContainsFunc(secret, kind.holds) {
			drawnFrom += kind.size
		}
	}
	return drawnFrom == 0 || float64(utf8.RuneCountInString(secret))*math.Log2(drawnFrom) < leastSecretBits
}

// warnGuessable warns of a client secret that can be guessed. The warning reveals nothing about the secret.
func warnGuessable(logger *zap.Logger, source, client, secret string) {
	if !isGuessable(secret) {
		return
	}
	if source != "" {
		source += ": "
	}
	logger.Warn(fmt.Sprintf("%sthe secret of client %s can be guessed: it has fewer than %d bits at best. Make one with `openssl rand -hex 24`",
		source, client, leastSecretBits))
}
