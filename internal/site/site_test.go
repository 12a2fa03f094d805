package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestSite: every link of a page, and of its navigation, leads to a file of the site and to an element there.
func TestSite(t *testing.T) {
	files, err := render(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	targets, links := map[string]bool{}, map[string][]string{}
	for name, content := range files {
		targets[name] = true
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		tree, err := html.Parse(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		for node := range tree.Descendants() {
			for _, attribute := range node.Attr {
				switch attribute.Key {
				case "id":
					if targets[name+"#"+attribute.Val] {
						t.Errorf("%s has two elements %q", name, attribute.Val)
					}
					targets[name+"#"+attribute.Val] = true
				case "href", "src":
					links[name] = append(links[name], attribute.Val)
				}
			}
		}
	}
	if len(links) < 90 {
		t.Errorf("only %d pages were rendered", len(links))
	}
	for name, all := range links {
		for _, link := range all {
			file, anchor, _ := strings.Cut(link, "#")
			switch {
			case strings.Contains(link, ":"): // another site
				continue
			case file == "":
				file = name
			default:
				file = path.Join(path.Dir(name), file)
			}
			if anchor != "" {
				file += "#" + anchor
			}
			if !targets[file] {
				t.Errorf("%s links to %s: there is no such file or element", name, link)
			}
		}
	}
}

// TestSiteRefusesBrokenLinks checks that a page, a heading or a file that does not exist fails the command, and so does a guide that is not listed.
func TestSiteRefusesBrokenLinks(t *testing.T) {
	for name, row := range map[string]struct{ guide, broken string }{
		"fine":               {"[a](../page.md#a-_b_-c) [b](#guide) [c](../../README.md) [d](../words.txt) [e](https://example.com/x#y)", ""},
		"no page":            {"[a](../missing.md)", "there is no such page"},
		"no heading":         {"[a](../page.md#b)", "there is no such heading"},
		"no heading here":    {"[a](#b)", "there is no such heading"},
		"no file":            {"![a](missing.png)", "there is no such page"},
		"out of the project": {"[a](../../../x)", "there is no such page"},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := render(project(t, "# Guides\n\n[one](one.md)\n", row.guide))
			if row.broken == "" && (err != nil || !strings.Contains(string(files["guides/one.html"]), `href="../page.html#a-_b_-c"`)) {
				t.Errorf("%v\n%s", err, files["guides/one.html"])
			}
			if row.broken != "" && (err == nil || !strings.Contains(err.Error(), "docs/guides/one.md links to") || !strings.Contains(err.Error(), row.broken)) {
				t.Error(err)
			}
		})
	}
	if _, err := render(project(t, "# Guides\n", "")); err == nil || !strings.Contains(err.Error(), "does not list docs/guides/one.md") {
		t.Error(err)
	}
}

// project returns the directory of a small project with one guide.
func project(t *testing.T, guides, guide string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"README.md": "# Project", "docs/page.md": "# Page\n\n## A `_b_`, c\n", "docs/words.txt": "words",
		"docs/guides/README.md": guides, "docs/guides/one.md": fmt.Sprintf("# Guide\n\n%s\n", guide),
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
