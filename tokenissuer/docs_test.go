package tokenissuer

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedFile   = regexp.MustCompile(`(?:([a-z]+)/)?([a-z][a-z_*]*\.go)\b`)
	namedMethod = regexp.MustCompile(`\b([A-Z]\w+)\.(\w+)\(?`)
)

// TestDocumentationNamesWhatThereIs: the files and methods named in the documentation of the code exist. A file named without a package
// belongs to the package named last.
func TestDocumentationNamesWhatThereIs(t *testing.T) {
	for path, room := range map[string]string{
		filepath.Join("..", "docs", "how-it-works.md"): "", "doc.go": "tokenissuer",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, named := range namedFile.FindAllStringSubmatch(string(text), -1) {
			if named[1] != "" {
				room = named[1]
			}
			if !fileExists(t, room, named[2]) {
				t.Errorf("%s names %s: there is no %s/%s", path, named[0], room, named[2])
			}
		}
		for _, named := range namedMethod.FindAllStringSubmatch(string(text), -1) {
			if !methodExists(t, named[1], named[2]) {
				t.Errorf("%s names %s: there is no such method", path, named[0])
			}
		}
	}
}

func fileExists(t *testing.T, room, name string) bool {
	t.Helper()
	for path := range goList(t) {
		if ours, is := strings.CutPrefix(path, house); is && (ours == room || strings.HasSuffix(ours, "/"+room)) {
			found, err := filepath.Glob(filepath.Join("..", ours, name))
			return err == nil && len(found) > 0
		}
	}
	return false
}

// methodExists reports whether a type of the product, in any package, has a method.
func methodExists(t *testing.T, owner, method string) bool {
	t.Helper()
	for where, function := range ourFunctions(t) {
		if !strings.HasSuffix(where, " "+method) || function.Recv == nil {
			continue
		}
		receiver := function.Recv.List[0].Type
		if star, is := receiver.(*ast.StarExpr); is {
			receiver = star.X
		}
		if name, is := receiver.(*ast.Ident); is && name.Name == owner {
			return true
		}
	}
	return false
}
