package tokenissuer

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A struct has at most a dozen fields and a type at most two dozen methods, including promoted ones. Fields with a tag do not count: they
// are settings or columns, whose number is given.
const (
	maxFields  = 12
	maxMethods = 24
)

// size is the number of fields and methods of a type.
type size struct{ fields, methods int }

// TestTypesAreSmall checks every type of the product against these bounds.
func TestTypesAreSmall(t *testing.T) {
	for name, found := range typeSizes(t) {
		if found.fields > maxFields || found.methods > maxMethods {
			t.Errorf("%s has %d fields and %d methods: it is more than one thing", name, found.fields, found.methods)
		}
	}
}

// typeSizes returns the size of each type declared in the packages of the product.
func typeSizes(t *testing.T) map[string]size {
	t.Helper()
	exports, dirs := exportedTypes(t)
	files := token.NewFileSet()
	compiled := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("no export data of " + path)
		}
		return os.Open(exports[path])
	})
	sizes := map[string]size{}
	for name, p := range dirs {
		var parsed []*ast.File
		for _, file := range p.GoFiles {
			tree, err := parser.ParseFile(files, filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, tree)
		}
		checked, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, files, parsed, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range checked.Scope().Names() {
			named, ok := checked.Scope().Lookup(declared).(*types.TypeName)
			if !ok || named.IsAlias() {
				continue
			}
			sizes[name+"."+declared] = sizeOf(named.Type())
		}
	}
	return sizes
}

func sizeOf(t types.Type) size {
	var s size
	methods := types.NewMethodSet(types.NewPointer(t))
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for i := range u.NumFields() {
			if u.Tag(i) == "" {
				s.fields++
			}
		}
	case *types.Interface:
		methods = types.NewMethodSet(t)
	}
	for method := range methods.Methods() {
		if p := method.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), house) { // types of other modules may promote any number
			s.methods++
		}
	}
	return s
}

// builtPackage is the output of `go list -export` for a package.
type builtPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// exportedTypes builds the packages of this module. It returns the export data of everything that they import, and the packages of the
// product by their names within the module.
func exportedTypes(t *testing.T) (exports map[string]string, product map[string]builtPackage) {
	t.Helper()
	command := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	command.Dir = ".."
	command.Env = append(command.Environ(), "CGO_ENABLED=0") // as ./xcaddy.sh builds, so that nothing is compiled for this test alone
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports, product = map[string]string{}, map[string]builtPackage{}
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p builtPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return exports, product
		} else if err != nil {
			t.Fatal(fmt.Errorf("reading what go list says: %w", err))
		}
		exports[p.ImportPath] = p.Export
		if name, ours := strings.CutPrefix(p.ImportPath, house); ours && (floorOf(name) < 0 || !rooms[floorOf(name)].tests) {
			product[name] = p
		}
	}
}
