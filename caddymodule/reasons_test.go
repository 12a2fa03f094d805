package caddymodule

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDocumentedReasons checks that docs/guides/why-was-i-refused.md explains exactly the reasons that the code can give.
func TestDocumentedReasons(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/why-was-i-refused.md")
	check(t, err)
	_, list, found := strings.Cut(string(page), "\n## Every reason\n")
	if !found {
		t.Fatal("the page has no list")
	}
	documented := make(map[string]bool)
	for row := range strings.SplitSeq(list, "\n") {
		cell, is := strings.CutPrefix(row, "| ")
		if is {
			cell, _, _ = strings.Cut(cell, "|")
		}
		for _, name := range regexp.MustCompile("`([a-z]+(?:_[a-z]+)*)`").FindAllStringSubmatch(cell, -1) {
			documented[name[1]] = true
		}
	}
	reasons := givenReasons(t)
	for reason, at := range reasons {
		if !documented[reason] {
			t.Errorf("%s: %q is not explained", at, reason)
		}
		delete(documented, reason)
	}
	for _, name := range []string{"reason", "cause"} {
		delete(documented, name)
	}
	if len(reasons) < 250 || len(documented) > 0 {
		t.Errorf("found %d reasons; the page has %q besides", len(reasons), slices.Sorted(maps.Keys(documented)))
	}
}

// isReason reports whether a variable, a field or a result of this name holds a reason.
func isReason(name string) bool {
	name = name[strings.LastIndex(name, ".")+1:]
	return strings.HasPrefix(name, "reason") || strings.HasPrefix(name, "Reason") || name == "why" || name == "fault"
}

// reasonScan finds the reasons of the code: the string constants that reach oauth.NewError or oauth.Unavailable through parameters, or a
// variable, a field or a result that is named for it.
type reasonScan struct {
	files *token.FileSet
	// arguments and results are the indexes of reasons, by function. What stands before the argument is its value.
	arguments, results map[string]map[int]string
	found              map[string]token.Position
}

// within is the function that is being read.
type within struct {
	directory string
	decl      *ast.FuncDecl // nil: none
}

// key names a function: an exported one by its name alone, another one with its package.
func (w within) key(name string) string {
	name = name[strings.LastIndex(name, ".")+1:]
	if ast.IsExported(name) {
		return name
	}
	return w.directory + " " + name
}

func givenReasons(t *testing.T) map[string]token.Position {
	t.Helper()
	files := token.NewFileSet()
	s := reasonScan{
		files, map[string]map[int]string{"NewError": {1: ""}, "Unavailable": {0: ""}}, make(map[string]map[int]string), make(map[string]token.Position),
	}
	parsed := productFiles(t, files)
	for known := -1; known != len(s.arguments)+len(s.results); { // until a pass finds no further functions
		known = len(s.arguments) + len(s.results)
		for _, file := range parsed {
			directory := filepath.Dir(file.path)
			if filepath.Base(directory) == "storetest" {
				continue
			}
			for _, decl := range file.file.Decls {
				function, _ := decl.(*ast.FuncDecl)
				s.inspect(decl, within{directory, function})
			}
		}
	}
	for _, name := range []string{"path_unclear", "answer_not_used"} { // the first stands for all of a path, the second is in no log
		delete(s.found, name)
	}
	return s.found
}

func (s *reasonScan) inspect(node ast.Node, w within) {
	if w.decl != nil && w.decl.Type.Results != nil {
		for i, field := range w.decl.Type.Results.List {
			if len(field.Names) == 1 && isReason(field.Names[0].Name) {
				note(s.results, w.key(w.decl.Name.Name), i, "")
			}
		}
	}
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			for i, prefix := range s.arguments[w.key(source(node.Fun))] {
				if i < len(node.Args) {
					s.take(node.Args[i], w, prefix)
				}
			}
		case *ast.AssignStmt:
			for i, left := range node.Lhs {
				switch {
				case !isReason(source(left)):
				case len(node.Lhs) == len(node.Rhs):
					s.take(node.Rhs[i], w, "")
				default:
					s.called(node.Rhs[0], i, w)
				}
			}
		case *ast.ValueSpec:
			for i, name := range node.Names {
				if i < len(node.Values) && isReason(name.Name) {
					s.take(node.Values[i], w, "")
				}
			}
		case *ast.KeyValueExpr:
			if isReason(source(node.Key)) {
				s.take(node.Value, w, "")
			}
		case *ast.ReturnStmt:
			if w.decl != nil {
				for i := range s.results[w.key(w.decl.Name.Name)] {
					if i < len(node.Results) {
						s.take(node.Results[i], w, "")
					}
				}
			}
		}
		return true
	})
}

// take records a reason. If it is a parameter, or the result of a function, it notes where to look for it.
func (s *reasonScan) take(value ast.Expr, w within, prefix string) {
	switch value := value.(type) {
	case *ast.BasicLit:
		if reason, err := strconv.Unquote(value.Value); err == nil && reasonShape.MatchString(prefix+reason) {
			s.found[prefix+reason] = s.files.Position(value.Pos())
		}
	case *ast.BinaryExpr:
		if first, is := value.X.(*ast.BasicLit); is {
			text, _ := strconv.Unquote(first.Value)
			s.take(value.Y, w, prefix+text)
		}
	case *ast.CallExpr:
		if source(value.Fun) == "string" {
			s.take(value.Args[0], w, prefix)
			return
		}
		s.called(value, 0, w)
	case *ast.Ident:
		if w.decl == nil {
			return
		}
		i := 0
		for _, field := range w.decl.Type.Params.List {
			for _, name := range field.Names {
				if name.Name == value.Name {
					note(s.arguments, w.key(w.decl.Name.Name), i, prefix)
				}
				i++
			}
		}
	}
}

// called notes that a function returns a reason.
func (s *reasonScan) called(value ast.Expr, result int, w within) {
	if call, is := value.(*ast.CallExpr); is {
		note(s.results, w.key(source(call.Fun)), result, "")
	}
}

func note(where map[string]map[int]string, function string, i int, prefix string) {
	if where[function] == nil {
		where[function] = make(map[int]string)
	}
	where[function][i] = prefix
}

var reasonShape = regexp.MustCompile(`^[a-z]+(_[a-z]+)+$|^panic$`)
