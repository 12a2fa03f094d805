package tokenissuer

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// listItem matches the beginning of a list item, at the beginning of a line or after a sentence.
var listItem = regexp.MustCompile(`(?m)^(?:[-*+•]|\d+[.)]) |[.:;] - \S`)

// TestListsInDocComments: gofmt recognises a list only by its indentation. Other list items would be joined when a paragraph is rewrapped.
func TestListsInDocComments(t *testing.T) {
	documented := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			var doc *ast.CommentGroup
			switch n := node.(type) {
			case *ast.File:
				doc = n.Doc
			case *ast.GenDecl:
				doc = n.Doc
			case *ast.FuncDecl:
				doc = n.Doc
			case *ast.TypeSpec:
				doc = n.Doc
			case *ast.ValueSpec:
				doc = n.Doc
			case *ast.Field:
				doc = n.Doc
			}
			if doc == nil {
				return true
			}
			documented++
			var read comment.Parser
			var printer comment.Printer
			for _, block := range read.Parse(doc.Text()).Content {
				if paragraph, ok := block.(*comment.Paragraph); ok {
					text := string(printer.Comment(&comment.Doc{Content: []comment.Block{paragraph}}))
					if item := listItem.FindString(text); item != "" {
						t.Errorf("%s: %q begins an item of a list that gofmt does not know: indent the items", files.Position(doc.Pos()), item)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if documented < 1000 {
		t.Errorf("%d comments were read", documented)
	}
}
