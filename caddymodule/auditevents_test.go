package caddymodule

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryAuditEventIsDocumented checks that the table of docs/operations.md lists exactly the messages that the code can write to the
// audit log.
func TestEveryAuditEventIsDocumented(t *testing.T) {
	events := auditEvents(t)
	page, err := os.ReadFile("../docs/operations.md")
	check(t, err)
	_, table, _ := strings.Cut(string(page), "\n| `msg` | further fields |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := make(map[string]bool)
	for row := range strings.SplitSeq(table, "\n") {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, name := range regexp.MustCompile("`([a-z][^`]*)`").FindAllStringSubmatch(cell, -1) {
			documented[name[1]] = true
		}
	}
	for event, at := range events {
		if !documented[event] {
			t.Errorf("%s: %q is not in the table of docs/operations.md", at, event)
		}
		delete(documented, event)
	}
	for _, name := range []string{"role"} { // a field that the table names next to its message
		delete(documented, name)
	}
	if len(events) < 40 || len(documented) > 0 {
		t.Errorf("found %d events; the table has %q besides", len(events), slices.Sorted(maps.Keys(documented)))
	}
}

// TestAuditLinesNameTheHost checks that audit lines of the gate and of a host's sign-in name the request's host.
func TestAuditLinesNameTheHost(t *testing.T) {
	g := startHosts(t)
	v := g.signedIn(t, "ada@acme.example")
	v.navigate(g.at("wiki", "/pages/1"))
	v.send("GET", g.at("app", "/api/x"), "", "Authorization", "Bearer x")
	v.send("GET", g.at("wiki", "/pages/x"), "", "Cookie", "")
	logs := g.logs()
	for message, host := range map[string]string{
		"signed in": "auth", "signed in at a host": "app", "request refused at the gate": "app", "browser sent to the sign-in page": "wiki", "request passed the gate": "app",
	} {
		found := false
		for line := range strings.SplitSeq(logs, "\n") {
			found = found || strings.Contains(line, `"msg":"`+message+`"`) && strings.Contains(line, `"host":"`+strings.TrimPrefix(g.origin(host), "http://")+`"`) &&
				strings.Count(line, `"host"`) == 1
		}
		if !found {
			t.Errorf("no line %q has the host %s once", message, host)
		}
	}
}

// auditScan finds the messages of audit lines. A function that passes one of its parameters on as a message is itself a sink.
type auditScan struct {
	t         *testing.T
	files     *token.FileSet
	functions []auditFunction
	sinks     map[string]int  // index of the message argument, by package and name: a method of a sink's name is one
	returning map[string]bool // the functions that returned is in
	events    map[string]token.Position
}

type auditFunction struct {
	pkg  string
	decl *ast.FuncDecl
}

func newAuditScan(t *testing.T) *auditScan {
	return &auditScan{t: t, files: token.NewFileSet(), sinks: make(map[string]int), returning: make(map[string]bool), events: make(map[string]token.Position)}
}

func auditEvents(t *testing.T) map[string]token.Position {
	s := newAuditScan(t)
	for _, parsed := range productFiles(t, s.files) {
		for _, decl := range parsed.file.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok && function.Body != nil {
				s.functions = append(s.functions, auditFunction{filepath.Dir(parsed.path), function})
			}
		}
	}
	for known := -1; known != len(s.sinks); { // until a pass finds no further sinks
		known = len(s.sinks)
		for _, f := range s.functions {
			ast.Inspect(f.decl.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if i := s.messageOf(f, call); i >= 0 && i < len(call.Args) {
						s.message(f, call.Args[i])
					}
				}
				return true
			})
		}
	}
	s.declared()
	return s.events
}

// productFile is a file of the product's code.
type productFile struct {
	path string
	file *ast.File
}

// productFiles parses the code of the product, without its tests.
func productFiles(t *testing.T, files *token.FileSet) (all []productFile) {
	t.Helper()
	for _, root := range []string{".", "../tokenissuer"} {
		check(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() && entry.Name() == "testdata" {
				return fs.SkipDir
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			all = append(all, productFile{path, file})
			return nil
		}))
	}
	return all
}

// messageOf returns the index of the argument that is the message of an audit line, or -1 if the call writes none.
func (s *auditScan) messageOf(f auditFunction, call *ast.CallExpr) int {
	name, receiver := "", ""
	switch callee := call.Fun.(type) {
	case *ast.Ident:
		name = callee.Name
	case *ast.SelectorExpr:
		name, receiver = callee.Sel.Name, source(callee.X)
	}
	switch {
	case receiver == "" && (name == "sent" || name == "failed"): // the results of Audit.Behind
		return 0
	case strings.HasSuffix(receiver, `Named("audit")`):
		return map[string]int{"Log": 1}[name]
	case name == "Check" && f.pkg == filepath.Join("..", "tokenissuer", "endpoint") && (strings.HasSuffix(receiver, "accepted") || receiver == "logger"):
		return 1
	case strings.HasSuffix(strings.ToLower(receiver), "audit"):
		if i, ok := s.sinks[filepath.Join("..", "tokenissuer", "endpoint")+"."+name]; ok {
			return i
		}
	}
	if i, ok := s.sinks[f.pkg+"."+name]; ok && !strings.HasSuffix(strings.ToLower(receiver), "counters") && !strings.HasSuffix(receiver, "passkeys") {
		return i
	}
	return -1
}

// message records the messages that an expression can evaluate to.
func (s *auditScan) message(f auditFunction, value ast.Expr) {
	switch value := value.(type) {
	case *ast.BasicLit:
		s.note(value)
	case *ast.Ident:
		i := 0
		for _, field := range f.decl.Type.Params.List {
			for _, name := range field.Names {
				if name.Name == value.Name {
					s.sinks[f.pkg+"."+f.decl.Name.Name] = i
					return
				}
				i++
			}
		}
		s.assigned(f, value.Name)
	default:
		s.t.Errorf("%s: what is the message? A function with the name of a sink in its package is taken for one: call it something else", s.files.Position(value.Pos()))
	}
}

// assigned records what a local variable may hold: strings, or the first result of a function called name.
func (s *auditScan) assigned(f auditFunction, name string) {
	found := false
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		assignment, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i, left := range assignment.Lhs {
			if source(left) != name {
				continue
			}
			if len(assignment.Rhs) == len(assignment.Lhs) {
				if text, ok := assignment.Rhs[i].(*ast.BasicLit); ok {
					s.note(text)
					found = true
				}
			} else if call, ok := assignment.Rhs[0].(*ast.CallExpr); ok && i == 0 {
				found = s.returned(call.Fun.(*ast.SelectorExpr).Sel.Name) || found
			}
		}
		return true
	})
	if !found {
		s.t.Errorf("%s: what is %s?", s.files.Position(f.decl.Pos()), name)
	}
}

// returned records what functions called name return first. Nothing is new in one that calls itself, or another one of its name.
func (s *auditScan) returned(name string) (found bool) {
	if s.returning[name] {
		return true
	}
	s.returning[name] = true
	defer delete(s.returning, name)
	for _, f := range s.functions {
		if f.decl.Name.Name != name {
			continue
		}
		ast.Inspect(f.decl.Body, func(n ast.Node) bool {
			result, ok := n.(*ast.ReturnStmt)
			if !ok || len(result.Results) < 2 {
				return true
			}
			switch first := result.Results[0].(type) {
			case *ast.BasicLit:
				if first.Value != `""` {
					s.note(first)
					found = true
				}
			case *ast.Ident:
				s.assigned(f, first.Name)
			}
			return true
		})
	}
	return found
}

// declared records the messages that package variables, such as the table of operations, pass to a sink.
func (s *auditScan) declared() {
	for name := range s.sinks {
		pkg, function, _ := strings.Cut(strings.TrimPrefix(name, ".."), ".")
		if strings.HasPrefix(name, "..") {
			pkg = ".." + pkg
		}
		paths, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		check(s.t, err)
		for _, path := range paths {
			file, err := parser.ParseFile(s.files, path, nil, parser.SkipObjectResolution)
			check(s.t, err)
			for _, decl := range file.Decls {
				if variables, ok := decl.(*ast.GenDecl); ok {
					ast.Inspect(variables, func(n ast.Node) bool {
						if call, ok := n.(*ast.CallExpr); ok && source(call.Fun) == function && s.sinks[name] < len(call.Args) {
							if text, ok := call.Args[s.sinks[name]].(*ast.BasicLit); ok {
								s.note(text)
							}
						}
						return true
					})
				}
			}
		}
	}
}

func (s *auditScan) note(text *ast.BasicLit) {
	if event, err := strconv.Unquote(text.Value); err == nil {
		s.events[event] = s.files.Position(text.Pos())
	}
}

// source formats an expression of names and calls.
func source(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return source(e.X) + "." + e.Sel.Name
	case *ast.BasicLit:
		return e.Value
	case *ast.CallExpr:
		arguments := make([]string, len(e.Args))
		for i, argument := range e.Args {
			arguments[i] = source(argument)
		}
		return source(e.Fun) + "(" + strings.Join(arguments, ",") + ")"
	case *ast.IndexExpr:
		return source(e.X) + "[]"
	}
	return "?"
}
