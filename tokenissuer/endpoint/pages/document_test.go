package pages

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// document is a page as a browser parses it.
type document struct{ elements []*html.Node }

func parse(t testing.TB, page string) document {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var d document
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			d.elements = append(d.elements, n)
		}
	}
	return d
}

// all returns the elements with a name.
func (d document) all(name string) []*html.Node {
	var found []*html.Node
	for _, n := range d.elements {
		if n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

// with returns the first element that has an attribute with that value.
func (d document) with(attribute, value string) *html.Node {
	for _, n := range d.elements {
		if got, has := attr(n, attribute); has && got == value {
			return n
		}
	}
	return nil
}

// find is like with, but fails if there is no such element.
func (d document) find(t testing.TB, attribute, value string) *html.Node {
	t.Helper()
	n := d.with(attribute, value)
	if n == nil {
		t.Fatalf("no element has %s=%q", attribute, value)
	}
	return n
}

func attr(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// text returns the text of an element, with white space collapsed.
func text(n *html.Node) string {
	var words strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			words.WriteString(c.Data)
		}
	}
	return strings.Join(strings.Fields(words.String()), " ")
}

// body returns the text of the page.
func (d document) body() string { return text(d.all("body")[0]) }

// inside reports whether an element is inside an element with a name.
func inside(n *html.Node, name string) bool {
	for up := range n.Ancestors() {
		if up.Data == name {
			return true
		}
	}
	return false
}

// unbalanced returns the first tag of a page that is not closed where it should be, or "". A parser repairs such a page, so parsing does
// not show it.
func unbalanced(page string) string {
	void := []string{"meta", "link", "input", "img"}
	var open []string
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			if len(open) > 0 {
				return open[0]
			}
			return ""
		case html.StartTagToken:
			if name, _ := z.TagName(); !slices.Contains(void, string(name)) {
				open = append(open, string(name))
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(name) {
				return "/" + string(name)
			}
			open = open[:len(open)-1]
		}
	}
}
