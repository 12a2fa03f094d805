package caddymodule

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// sample is a Caddyfile, or a part of one, from the documentation.
type sample struct{ place, text string }

// printedCaddyfiles returns all samples: those of the pages, and the examples.
func printedCaddyfiles(t *testing.T) (all []sample) {
	t.Helper()
	pages := []string{"../README.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/guides/*.md", "../docs/decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		check(t, err)
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check(t, err)
		for i, block := range regexp.MustCompile("(?ms)^( *)```caddyfile\n(.*?)^ *```$").FindAllStringSubmatch(string(text), -1) {
			all = append(all, sample{fmt.Sprintf("%s, block %d", filepath.Base(page), i+1), strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n")[1:]})
		}
	}
	examples, err := filepath.Glob("../examples/*/Caddyfile")
	check(t, err)
	for _, example := range append(examples, exampleFile) {
		text, err := os.ReadFile(example)
		check(t, err)
		all = append(all, sample{example, string(text)})
	}
	return all
}

// whole returns a Caddyfile with the sample in its place. It returns "" if the sample has no routes.
func (p sample) whole() string {
	const withOAuth = "{\n\toauth {\n\t\tissuer https://auth.example.com\n\t\tstore memory\n\t\tscope mcp:use \"Use the tools\"\n\t\tscope mcp:write \"Write\"\n\t}\n}\n\n"
	text := p.text
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	switch first, _, _ := strings.Cut(text, "\n"); {
	case strings.HasPrefix(first, "{"):
		return p.text
	case strings.HasPrefix(first, "handle "):
		text = "app.example.com {\n" + text + "}\n"
	case strings.HasPrefix(first, "\t"):
		proxy := ""
		if !strings.Contains(text, "reverse_proxy ") {
			proxy = "\treverse_proxy 127.0.0.1:3000\n"
		}
		text = "app.example.com {\n" + text + proxy + "}\n"
	case !strings.HasSuffix(strings.Fields(first)[0], ".example.com"):
		return "" // a part of an oauth block, or of a directive
	}
	return withOAuth + text
}

// alignment is space between words that makes columns of them.
var alignment = regexp.MustCompile(`(\S) {2,}`)

// TestV4PrintedCaddyfiles: every Caddyfile in pages and examples is formatted, valid, and warned of nothing that fails open. That a verdict
// is true of requests, TestG83WhatProtectsWhat checks, and of all spellings of their paths, the rows G59 to G66.
func TestV4PrintedCaddyfiles(t *testing.T) {
	key := filepath.Join(t.TempDir(), "kek")
	check(t, os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600))
	env := []string{"CORP_KEY=0123456789abcdef", "ADA_HASH=" + peopleHash(), "BEN_HASH=" + peopleHash(), "GATEHOUSE_DSN=postgres://gatehouse@127.0.0.1/gatehouse", "LDAP_PASSWORD=" + confSecret, "DEVISE_PEPPER=" + confSecret}
	for _, name := range []string{"BILLING", "PORTAL", "PARTNER", "SHOP", "ORDERS", "GOOGLE", "ENTRA", "KEYCLOAK", "GITHUB"} {
		env = append(env, name+"_SECRET="+confSecret)
	}
	found := 0
	for _, p := range printedCaddyfiles(t) {
		text := p.whole()
		if text == "" {
			continue
		}
		found++
		t.Run(p.place, func(t *testing.T) {
			if aligned := alignment.ReplaceAllString(p.text, "$1 "); strings.HasPrefix(p.text, "{") && string(caddyfile.Format([]byte(p.text))) != aligned {
				t.Errorf("format this:\n%s", p.text)
			}
			text := strings.NewReplacer("/run/secrets/kek", key, "/run/credentials/gatehouse.service/kek", key, "ca            /etc/ssl/certs/company-ca.pem", "", "logo /etc/gatehouse/logo.svg", "", "languages /etc/gatehouse/languages", "").Replace(text)
			for _, warning := range warnedOf(t, text, env...) {
				if !strings.Contains(warning, "signing keys are stored in the clear") && !strings.Contains(warning, "oauth_server") {
					t.Error(warning)
				}
			}
		})
	}
	if found < 30 {
		t.Errorf("only %d Caddyfiles were found: is the pattern still right?", found)
	}
}

var fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")

var tableRule = regexp.MustCompile(`^\|[-: |]+$`)

// TestDocumentedTables checks that each block of rows begins with a header and a rule. An empty line would cut a table in two.
func TestDocumentedTables(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		check(t, err)
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check(t, err)
		lines := append(strings.Split(fenced.ReplaceAllString(string(text), ""), "\n"), "")
		for i, line := range lines[:len(lines)-1] {
			if strings.HasPrefix(line, "|") && (i == 0 || !strings.HasPrefix(lines[i-1], "|")) && !tableRule.MatchString(lines[i+1]) {
				t.Errorf("%s: the table that begins with %q has no header", page, line)
			}
		}
	}
}
