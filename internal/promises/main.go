// Command promises writes docs/threats.md from the tests: `make threats`.
//
// A promise is a test whose name contains a row, such as TestT29… or TestA28A29…, and whose comment begins with a sentence "input →
// outcome". The cases of tokenissuer/storetest are rows of tables: such a name, below such a comment. Further rows begin the comment: "T15: …".
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const page = "docs/threats.md"

const head = `# Threats

What Gatehouse must withstand: attacks, mistakes and faults, each with what has to happen then. Every line is a test and the first sentence of
its comment, *input → outcome*. ` + "`make threats`" + ` writes this page, so change the comments instead.

After every refusal this holds as well: the status is not 5xx unless the line says so, no credential is in the answer, a log or a metric, the
answer says ` + "`no-store`" + `, no input is reflected unescaped, the upstream has seen nothing, and the audit log has one line. Promises of the
gate hold over HTTP/1.1, HTTP/2 and HTTP/3; an IPv6 address counts as its /64. The machine, its operator, Caddy and the modules in the same
program are trusted.

The number in a test's name is its row. The letter says what it is about: T the token endpoint, A authorization and sign-in, M tokens for
members, DK imports from other servers, G the gate, S browser sessions at hosts, P identity providers, Q agents and programs, U the words and looks of pages, W second factors,
E mail and accounts, D devices, O the operator's console, X the kept audit log, the command line and the admin API, K keys, F faults, TM timing,
OT what is watched, V what reviews found. ` + "`go test -run '^TestT29' ./...`" + ` runs all tests of a row. Only the test that states a row is
listed here; others of that row prove it at other places.
`

// promise is a test that states an outcome.
type promise struct {
	path string // of its file, relative to the root
	name string
	rows []string
	says string // the first sentence of its comment, without the name
}

func main() {
	found, err := promises(".")
	if err == nil {
		err = os.WriteFile(page, render(found), 0o600)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// promises returns the tests below root that state a row: those whose comment contains "→", and for a row without one its first test.
func promises(root string) ([]promise, error) {
	var all []promise
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "dist" || strings.HasPrefix(entry.Name(), ".") && path != root):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go") && (filepath.Base(filepath.Dir(path)) != "storetest" || !strings.HasSuffix(path, ".go")):
			return nil
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		add := func(p promise) {
			if len(p.rows) > 0 {
				p.path = filepath.ToSlash(relative)
				all = append(all, p)
			}
		}
		comments := ast.NewCommentMap(positions, file, file.Comments)
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				add(stated(node))
			case *ast.CompositeLit:
				if above := comments[node]; len(above) > 0 {
					add(statedCase(node, above[0].Text()))
				}
			}
			return true
		})
		return err
	})
	slices.SortStableFunc(all, func(a, b promise) int { return cmp.Compare(a.path, b.path) })
	states := map[string]bool{}
	for _, p := range all {
		if strings.Contains(p.says, "→") {
			for _, row := range p.rows {
				states[row] = true
			}
		}
	}
	listed := slices.DeleteFunc(all, func(p promise) bool {
		if strings.Contains(p.says, "→") {
			return false
		}
		unstated := slices.DeleteFunc(p.rows, func(row string) bool { return states[row] })
		for _, row := range unstated {
			states[row] = true
		}
		return len(unstated) == 0
	})
	return listed, err
}

var (
	rowInName = regexp.MustCompile(`(?:^|[a-z0-9])(TM|DK|OT|[TADEMGKFSPQUVWXO])(\d+)(?:To(?:TM|DK|OT|[TADEMGKFSPQUVWXO])?(\d+))?`)
	rowInText = regexp.MustCompile(`\(((?:TM|DK|OT|[TADEMGKFSPQUVWXO])\d+(?:, (?:TM|DK|OT|[TADEMGKFSPQUVWXO])\d+)*)\)`)
	rowsAbove = regexp.MustCompile(`^(?:TM|DK|OT|[TADEMGKFSPQUVWXO])\d+(?:, (?:TM|DK|OT|[TADEMGKFSPQUVWXO])\d+)*: `)
	sentence  = regexp.MustCompile(`(?s)^.*?[.?!](?:\s|$)`)
	// A sentence ends before a capital letter, a quoted name or a digit.
	begins = regexp.MustCompile("^[A-Z`\"0-9(]")
)

// statedCase parses a row of a table of cases. It has no rows if it is something else.
func statedCase(literal *ast.CompositeLit, comment string) promise {
	if len(literal.Elts) == 0 {
		return promise{}
	}
	member, is := literal.Elts[0].(*ast.KeyValueExpr)
	if !is {
		return promise{}
	}
	name, is := member.Value.(*ast.BasicLit)
	if key, named := member.Key.(*ast.Ident); !is || !named || key.Name != "name" {
		return promise{}
	}
	p := promise{name: strings.Trim(name.Value, `"`), says: firstSentence(strings.Join(strings.Fields(comment), " "))}
	p.rows = rowsInName(p.name)
	if also := rowsAbove.FindString(p.says); also != "" {
		p.rows = append(p.rows, strings.Split(strings.TrimSuffix(also, ": "), ", ")...)
		p.says = strings.TrimPrefix(p.says, also)
	}
	p.says = " " + p.says
	return p
}

// stated parses a function's name and comment.
func stated(f *ast.FuncDecl) promise {
	if f.Recv != nil {
		return promise{}
	}
	p := promise{name: f.Name.Name, says: firstSentence(strings.Join(strings.Fields(f.Doc.Text()), " "))}
	named, isTest := strings.CutPrefix(p.name, "Test")
	if !isTest {
		named, isTest = strings.CutPrefix(p.name, "Fuzz")
	}
	if !isTest {
		return promise{}
	}
	p.rows = rowsInName(named)
	for _, rows := range rowInText.FindAllStringSubmatch(p.says, -1) {
		p.rows = append(p.rows, strings.Split(rows[1], ", ")...)
	}
	p.says = strings.TrimPrefix(strings.TrimPrefix(p.says, p.name), ":")
	return p
}

// rowsInName returns the rows that a name contains.
func rowsInName(name string) (rows []string) {
	for rest := name; ; {
		at := rowInName.FindStringSubmatchIndex(rest)
		if at == nil {
			return rows
		}
		letters, first, last := rest[at[2]:at[3]], number(rest[at[4]:at[5]]), 0
		if at[6] >= 0 {
			last = number(rest[at[6]:at[7]])
		}
		for row := first; row <= max(first, last); row++ {
			rows = append(rows, letters+strconv.Itoa(row))
		}
		rest = rest[at[1]-1:] // the last digit, which may stand before another row
	}
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // the pattern allows nothing else
	return n
}

func firstSentence(text string) string {
	for end := 0; ; {
		found := sentence.FindString(text[end:])
		if end += len(found); found == "" {
			return text
		}
		if begins.MatchString(text[end:]) {
			return strings.TrimSpace(text[:end])
		}
	}
}

// render formats the page: a heading for each package and file, a line for each promise.
func render(found []promise) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	room, file := "", ""
	for _, p := range found {
		if in := filepath.ToSlash(filepath.Dir(p.path)); in != room {
			room = in
			fmt.Fprintf(&b, "\n## %s\n", room)
		}
		if p.path != file {
			file = p.path
			fmt.Fprintf(&b, "\n**%s**\n\n", filepath.Base(file))
		}
		fmt.Fprintf(&b, "- `%s`:%s\n", p.name, p.says)
	}
	return b.Bytes()
}
