package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// page is a Markdown file of the documentation.
type page struct {
	source   string // its path, relative to the root, with slashes
	output   string // its path in the site
	markdown []byte
	tree     ast.Node
	title    string
	sections []section
}

// section is a heading of a page and what follows it, up to the next heading.
type section struct {
	level      int
	id, title  string
	paragraphs strings.Builder
}

// load reads and parses all pages below root.
func load(root string) (pages []*page, err error) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			source, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			p, err := parse(filepath.ToSlash(source), content)
			if err != nil {
				return nil, err
			}
			pages = append(pages, p)
		}
	}
	p, err := parse("docs/decisions/README.md", listDecisions(pages))
	return append(pages, p), err
}

// listDecisions returns the page that stands for the folder of decisions.
func listDecisions(pages []*page) []byte {
	var list bytes.Buffer
	list.WriteString("# Decisions\n\nHard choices: what was chosen, why, what was measured, and what else was considered.\n\n")
	for _, p := range pages {
		if path.Dir(p.source) == "docs/decisions" {
			fmt.Fprintf(&list, "- [%s](%s)\n", p.title, path.Base(p.source))
		}
	}
	return list.Bytes()
}

func parse(source string, content []byte) (*page, error) {
	p := &page{source: source, output: outputOf(source), markdown: content}
	p.tree = markdown.Parser().Parse(text.NewReader(content), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	err := ast.Walk(p.tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if heading, is := node.(*ast.Heading); is {
			id, _ := heading.AttributeString("id")
			name, _ := id.([]byte)
			p.sections = append(p.sections, section{level: heading.Level, id: string(name), title: plain(heading, content)})
			return ast.WalkSkipChildren, nil
		}
		if len(p.sections) > 0 && node.Type() == ast.TypeBlock {
			p.sections[len(p.sections)-1].paragraphs.WriteString(ownText(node, content))
		}
		return ast.WalkContinue, nil
	})
	if err != nil || len(p.sections) == 0 || p.sections[0].level != 1 {
		return nil, fmt.Errorf("%s does not begin with a heading", source)
	}
	p.title = p.sections[0].title
	return p, nil
}

// outputOf returns the path in the site of a file of the repository. The pages of docs stand at the root; README.md is the index of its folder.
func outputOf(source string) string {
	source = strings.TrimPrefix(source, "docs/")
	if name, is := strings.CutSuffix(source, ".md"); is {
		if path.Base(name) == "README" {
			return path.Join(path.Dir(name), "index.html")
		}
		return name + ".html"
	}
	return source
}

// ownText returns the text of a block that contains no other blocks.
func ownText(node ast.Node, source []byte) string {
	if child := node.FirstChild(); child != nil && child.Type() == ast.TypeBlock {
		return ""
	}
	if node.Kind() == ast.KindFencedCodeBlock || node.Kind() == ast.KindCodeBlock {
		return string(node.Lines().Value(source)) + "\n"
	}
	return plain(node, source) + "\n"
}

// plain returns the text of a node without its marks.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.Text:
			b.Write(child.Segment.Value(source))
			if child.SoftLineBreak() || child.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(child.Value)
		default:
			b.WriteString(plain(child, source))
		}
	}
	return b.String()
}

// anchors names headings as GitHub does, so that the links of a page work there too. Its keys are the names in use.
type anchors map[string]bool

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// Generate implements parser.IDs.
func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	first := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(string(heading)), ""), " ", "-")
	name := first
	for n := 1; a[name]; n++ {
		name = fmt.Sprint(first, "-", n)
	}
	a[name] = true
	return []byte(name)
}

// Put implements parser.IDs.
func (a anchors) Put(name []byte) { a[string(name)] = true }

func (p *page) has(anchor string) bool {
	return slices.ContainsFunc(p.sections, func(s section) bool { return s.id == anchor })
}
