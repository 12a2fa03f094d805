package caddymodule

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// maxCaddyfile bounds what is read to see how a secret was written.
const maxCaddyfile = 4 << 20

// warnSubstituted warns of a secret that came through {$NAME}. Caddy puts the variable's value in before anybody reads the
// file, and so into the configuration that it keeps. Nothing but the file still shows how it was written. Argument says which
// word of the line the secret is, from 1.
func warnSubstituted(d *caddyfile.Dispenser, what, value string, argument int) {
	if isReference(value) {
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

// wordsOfLine returns the words of a line as they were written; none when the file cannot be read, as when there is none.
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
