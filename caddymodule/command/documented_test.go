package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

var (
	consoleBlock = regexp.MustCompile("(?ms)^ *```console\n(.*?)^ *```$")
	fencedBlock  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	aliased      = regexp.MustCompile(`^oauth `)
	codeSpan     = regexp.MustCompile("(?s)`([^`]+)`")
	oauthCommand = regexp.MustCompile(`(?:^|[ /(])(?:caddy|gatehouse) oauth ([^|;&<>)]*)`)
	commandWord  = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)
)

// TestDocumentedCommands checks that each `caddy oauth …` of the pages is a command, and that it has the flags.
func TestDocumentedCommands(t *testing.T) {
	pages := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/guides/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.SplitSeq(regexp.MustCompile(`\\\n *`).ReplaceAllString(block[1], " "), "\n") {
				if command, is := strings.CutPrefix(strings.TrimSpace(line), "$ "); is {
					lines = append(lines, aliased.ReplaceAllString(command, "caddy oauth "))
				}
			}
		}
		for _, span := range codeSpan.FindAllStringSubmatch(fencedBlock.ReplaceAllString(string(text), ""), -1) {
			lines = append(lines, strings.Join(strings.Fields(span[1]), " "))
		}
		for _, line := range lines {
			for _, command := range oauthCommand.FindAllStringSubmatch(line, -1) {
				found++
				if wrong := notThere(commandWord.FindAllString(command[1], -1)); wrong != "" {
					t.Errorf("%s: %s: there is no %s", filepath.Base(page), line, wrong)
				}
			}
		}
	}
	if found < 120 {
		t.Errorf("only %d commands were found: is the pattern still right?", found)
	}
}

// notThere returns the first word of `caddy oauth …` that is neither a command nor a flag of it; "": all are. A word with | stands for each of
// its parts; a page ends a command that it does not write out with … or a word in capitals.
func notThere(words []string) string {
	command := &cobra.Command{Use: "oauth"}
	caddycmd.Commands()["oauth"].CobraFunc(command)
	for _, word := range words {
		switch name, _, _ := strings.Cut(strings.TrimRight(word, ",.…"), "="); {
		case strings.HasPrefix(name, "--"):
			if command.Flags().Lookup(name[2:]) == nil && command.InheritedFlags().Lookup(name[2:]) == nil && command.PersistentFlags().Lookup(name[2:]) == nil && name != "--help" {
				return word + " of " + command.CommandPath()
			}
		case command.HasSubCommands() && name != "" && !strings.Contains(name, "/") && strings.ToLower(name) == name:
			for part := range strings.SplitSeq(name, "|") {
				next, _, err := command.Find([]string{part})
				if err != nil || next == command {
					return part + " of " + command.CommandPath()
				}
			}
			if !strings.Contains(name, "|") {
				command, _, _ = command.Find([]string{name})
			}
		}
	}
	return ""
}
