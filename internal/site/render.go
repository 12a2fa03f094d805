package main

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

//go:embed look
var look embed.FS

var frame = template.Must(template.ParseFS(look, "look/page.html"))

// inside lists the pages for those who work on Gatehouse, or want to know why to trust it. What is no guide and not in this list is reference.
var inside = []string{
	"docs/how-it-works.md", "docs/reliability.md", "docs/threats.md", "docs/performance.md", "docs/decisions/README.md", "docs/openid-modules.md",
	"CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md",
}

const guides = "docs/guides/README.md"

// site is the documentation while it is rendered.
type site struct {
	root   string
	pages  map[string]*page // by source
	files  map[string][]byte
	broken []error
}

// render returns the files of the site by their paths in it. Its error names every broken link.
func render(root string) (map[string][]byte, error) {
	pages, err := load(root)
	if err != nil {
		return nil, err
	}
	s := &site{root: root, pages: make(map[string]*page), files: make(map[string][]byte)}
	for _, p := range pages {
		s.pages[p.source] = p
	}
	if s.pages[guides] == nil {
		return nil, fmt.Errorf("%s is missing", guides)
	}
	groups := s.groups(pages)
	for _, p := range pages {
		if err := s.render(p, groups); err != nil {
			return nil, fmt.Errorf("%s: %w", p.source, err)
		}
	}
	for _, name := range []string{"style.css", "search.js"} {
		s.files[name], err = look.ReadFile("look/" + name)
		s.broken = append(s.broken, err)
	}
	s.files["search-index.js"], err = index(pages)
	return s.files, errors.Join(append(s.broken, err)...)
}

// group is a part of the navigation.
type group struct {
	Title string
	Links []link
}

type link struct {
	Title, URL string
	Current    bool
	Sections   []link // the second level of the current page
}

// groups returns the navigation, with sources for URLs. Guides come in the order, and under the headings, of their index.
func (s *site) groups(pages []*page) (all []group) {
	listed := map[string]bool{guides: true, "README.md": true}
	index := s.pages[guides]
	all = append(all, group{Title: index.title, Links: []link{{Title: "All guides", URL: guides}}})
	_ = ast.Walk(index.tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			if node.Level == 2 {
				all = append(all, group{Title: plain(node, index.markdown)})
			}
		case *ast.Link:
			source, _, _ := strings.Cut(path.Join("docs/guides", string(node.Destination)), "#")
			if p := s.pages[source]; p != nil && !listed[source] && path.Dir(source) == "docs/guides" {
				listed[source] = true
				all[len(all)-1].Links = append(all[len(all)-1].Links, link{Title: p.title, URL: source})
			}
		}
		return ast.WalkContinue, nil
	})
	all = slices.DeleteFunc(all, func(g group) bool { return len(g.Links) == 0 })
	reference, within := group{Title: "Reference"}, group{Title: "Inside"}
	for _, p := range pages {
		switch {
		case listed[p.source] || slices.Contains(inside, p.source):
		case path.Dir(p.source) == "docs/guides":
			s.broken = append(s.broken, fmt.Errorf("%s does not list %s", guides, p.source))
		case path.Dir(p.source) == "docs":
			reference.Links = append(reference.Links, link{Title: p.title, URL: p.source})
		}
	}
	slices.SortFunc(reference.Links, func(a, b link) int { return cmp.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title)) })
	for _, source := range inside {
		if p := s.pages[source]; p != nil {
			within.Links = append(within.Links, link{Title: p.title, URL: source})
		}
	}
	return append(all, reference, within)
}

// render writes a page with the navigation around it.
func (s *site) render(p *page, groups []group) error {
	err := ast.Walk(p.tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch node := node.(type) {
			case *ast.Link:
				node.Destination = []byte(s.resolve(p, string(node.Destination)))
			case *ast.Image:
				node.Destination = []byte(s.resolve(p, string(node.Destination)))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	var body, whole bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.markdown, p.tree); err != nil {
		return err
	}
	around := make([]group, len(groups))
	for i, g := range groups {
		around[i].Title = g.Title
		for _, l := range g.Links {
			l.Current = l.URL == p.source
			l.URL = relative(p.output, outputOf(l.URL))
			if l.Current {
				for _, section := range p.sections {
					if section.level == 2 {
						l.Sections = append(l.Sections, link{Title: section.title, URL: "#" + section.id})
					}
				}
			}
			around[i].Links = append(around[i].Links, l)
		}
	}
	summary, _, _ := strings.Cut(p.sections[0].paragraphs.String(), "\n")
	page := template.HTML(wide(body.String())) //lint:ignore gosec our own pages, rendered without raw HTML
	err = frame.Execute(&whole, struct {
		Title, Summary, Root string
		Body                 template.HTML
		Groups               []group
	}{p.title, summary, relative(p.output, ""), page, around})
	s.files[p.output] = whole.Bytes()
	return err
}

// wide lets a table that is wider than the screen scroll by itself.
func wide(body string) string {
	return strings.NewReplacer("<table>", `<div class="table" tabindex="0"><table>`, "</table>", "</table></div>").Replace(body)
}

// resolve returns what a link of a page is in the site, and notes a link that leads nowhere. A file that is no page is copied.
func (s *site) resolve(p *page, destination string) string {
	to, err := url.Parse(destination)
	if err != nil || to.Scheme != "" || to.Host != "" {
		if err != nil {
			s.broken = append(s.broken, fmt.Errorf("%s: %w", p.source, err))
		}
		return destination
	}
	source := p.source
	if to.Path != "" {
		source = path.Join(path.Dir(p.source), to.Path)
	}
	target := s.pages[source]
	if target == nil {
		target = s.pages[path.Join(source, "README.md")]
	}
	switch {
	case target == nil:
		content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(source)))
		if err != nil || to.Fragment != "" || strings.HasPrefix(source, "../") {
			s.broken = append(s.broken, fmt.Errorf("%s links to %s: there is no such page", p.source, destination))
		}
		s.files[outputOf(source)] = content
		return relative(p.output, outputOf(source))
	case to.Fragment != "" && !target.has(to.Fragment):
		s.broken = append(s.broken, fmt.Errorf("%s links to %s: there is no such heading", p.source, destination))
	}
	link := ""
	if target != p || to.Fragment == "" {
		link = relative(p.output, target.output)
	}
	if to.Fragment != "" {
		link += "#" + to.Fragment
	}
	return link
}

// relative returns the link from a file of the site to another; to the root, it returns the path that stands before a name there.
func relative(from, to string) string {
	up := strings.Repeat("../", strings.Count(from, "/"))
	if directory := path.Dir(from); directory != "." && path.Dir(to) == directory {
		return path.Base(to)
	}
	return up + to
}

// entry is what the search knows of a section.
type entry struct {
	URL     string `json:"u"`
	Page    string `json:"p"`
	Heading string `json:"h"`
	Words   string `json:"w"` // each once
}

// index returns the script with the words of all sections. A script can be loaded where a page is read from a disk.
func index(pages []*page) ([]byte, error) {
	var all []entry
	for _, p := range pages {
		for _, s := range p.sections {
			link := p.output
			if s.level > 1 {
				link += "#" + s.id
			}
			all = append(all, entry{URL: link, Page: p.title, Heading: s.title, Words: words(p.title + " " + s.title + " " + s.paragraphs.String())})
		}
	}
	content, err := json.Marshal(all)
	return slices.Concat([]byte("const searchIndex = "), content, []byte(";\n")), err
}

// words returns the different words of a text that have three letters or more, in lower case.
func words(text string) string {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' })
	all = slices.DeleteFunc(all, func(word string) bool { return len(word) < 3 })
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}
