package console

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// said are the keys of texts that the console uses.
type said struct {
	keys map[string]string // with the file
	// prefixes begin keys that are made of a name.
	prefixes []string
}

var (
	consoleKey = regexp.MustCompile(`^console\.[a-z0-9_.]*[a-z0-9_]$`)
	templateOf = regexp.MustCompile(`\.Text "(console\.[^"]+)"`)
)

// read adds the keys in a file. The names of an action make two.
func (s *said) read(t *testing.T, file string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			of, is := n.Type.(*ast.MapType)
			if !is {
				break
			}
			if value, is := of.Value.(*ast.Ident); !is || value.Name != "action" {
				break
			}
			for _, entry := range n.Elts {
				name := literal(entry.(*ast.KeyValueExpr).Key)
				s.keys["console.do."+name], s.keys["console.do."+name+".words"] = file, file
			}
		case *ast.BasicLit:
			switch text := literal(n); {
			case consoleKey.MatchString(text):
				s.keys[text] = file
			case strings.HasPrefix(text, "console.") && strings.HasSuffix(text, ".") && !strings.Contains(text, " "):
				s.prefixes = append(s.prefixes, text)
			}
		}
		return true
	})
}

// literal returns the text of an expression, or "" if it is none.
func literal(e ast.Expr) string {
	l, is := e.(*ast.BasicLit)
	if !is || l.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(l.Value)
	return text
}

// TestO61EveryTextOfTheConsoleIsUsed: each text `console.*` → some page says it; and each that a page says → it is there.
func TestO61EveryTextOfTheConsoleIsUsed(t *testing.T) {
	s := said{keys: make(map[string]string)}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	const pages = "../../tokenissuer/endpoint/pages/"
	for _, file := range append(files, pages+"console.go") {
		if !strings.HasSuffix(file, "_test.go") {
			s.read(t, file)
		}
	}
	template, err := os.ReadFile(pages + "console.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range templateOf.FindAllStringSubmatch(string(template), -1) {
		s.keys[found[1]] = "console.html"
	}
	for _, p := range places {
		s.keys["console.place."+p.name] = "routes.go"
	}
	for _, state := range store.UserStates() {
		s.keys["console.state."+state] = "store"
	}
	all, err := words.Load("")
	if err != nil {
		t.Fatal(err)
	}
	_, texts := all.In(words.Default)
	for key, file := range s.keys {
		if _, is := texts[key]; !is {
			t.Errorf("%s says %s, and there is no such text", file, key)
		}
	}
	for key := range texts {
		_, is := s.keys[key]
		of, helps := strings.CutSuffix(key, ".help")
		_, helped := texts[of]
		if !strings.HasPrefix(key, "console.") || is || helps && helped {
			continue
		}
		named := func(prefix string) bool {
			return prefix != "console.do." && prefix != "console.place." && strings.HasPrefix(key, prefix)
		}
		if !slices.ContainsFunc(s.prefixes, named) {
			t.Errorf("nothing says %s", key)
		}
	}
	if len(s.keys) < 100 || len(s.prefixes) < 4 {
		t.Errorf("only %d keys and the prefixes %q were found", len(s.keys), s.prefixes)
	}
}
