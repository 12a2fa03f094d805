package tokenissuer

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// provers are the functions that verify credentials, and how each compares. A comparison that takes the same time for a wrong first byte as
// for a wrong last byte does not reveal how much of a guess is correct.
var provers = map[string]string{
	"token/jtimac.go check":               "subtle.ConstantTimeCompare",
	"keys/credential.go readMAC":          "hmac.Equal",                 // codes, sessions and refresh tokens
	"oauth/pkce.go VerifierMatches":       "subtle.ConstantTimeCompare", // digests
	"passwords/password.go Verify":        "subtle.ConstantTimeCompare", // argon2id; bcrypt compares in constant time itself
	"passwords/imported.go verify":        "subtle.ConstantTimeCompare", // scrypt and PBKDF2
	"signin/sealedstate.go OpenFormToken": "hmac.Equal",
	"store/client.go SecretMatches":       "subtle.ConstantTimeCompare", // digests
}

// comparedOpenly lists the places that compare a credential as ordinary text, and why that reveals nothing.
var comparedOpenly = map[string]string{
	"tokenissuer/endpoint/links.go typedPassword":       "both come from the same form",
	"caddymodule/gate/credential.go find":               "both come from the same request",
	"tokenissuer/store/clientchange.go RotateSecret":    "both are digests, and one is of a secret that we have just made",
	"tokenissuer/store/client.go Equal":                 "both are stored",
	"tokenissuer/store/clientchange.go LearnSecret":     "both are stored hashes",
	"tokenissuer/families/imported.go Access":           "the store has found the token by the same digest",
	"tokenissuer/families/imported.go Refresh":          "the store has found the token by the same digest",
	"tokenissuer/passwords/imported.go VerifyTruncated": "bcrypt compares in constant time itself",
	"tokenissuer/store/store.go Apply":                  "both are hashes of one user's record",
}

// TestTM4NothingComparesACredentialByteForByte: a credential wrong in its first or last byte → compared in constant time or found by
// digest. The test analyses the sources: a received credential is compared in constant time, or looked up by a digest. Measurements would
// show less, because a difference of nanoseconds disappears in the noise of any machine.
func TestTM4NothingComparesACredentialByteForByte(t *testing.T) {
	found := make(map[string]bool)
	for where, function := range ourFunctions(t) {
		for _, c := range comparisonsIn(function.Body) {
			if comparedOpenly[where] == "" {
				t.Errorf("%s compares a credential: %s", where, c)
			}
			found[where] = true
		}
	}
	for where := range comparedOpenly {
		if !found[where] {
			t.Errorf("%s compares nothing any more: take it off the list", where)
		}
	}
}

// TestTM4ProversTakeTheSameTime: each function that verifies credentials calls one of the two constant-time comparisons.
func TestTM4ProversTakeTheSameTime(t *testing.T) {
	functions := ourFunctions(t)
	for where, comparison := range provers {
		function := functions["tokenissuer/"+where]
		if function == nil {
			t.Errorf("there is no %s", where)
			continue
		}
		if !slices.Contains(callsIn(function.Body), comparison) {
			t.Errorf("%s does not call %s", where, comparison)
		}
	}
}

// ourFunctions returns the functions of the product by file and name.
func ourFunctions(t *testing.T) map[string]*ast.FuncDecl {
	t.Helper()
	functions, err := parseOnce()
	if err != nil {
		t.Fatal(err)
	}
	return functions
}

var parseOnce = sync.OnceValues(func() (map[string]*ast.FuncDecl, error) {
	functions := make(map[string]*ast.FuncDecl)
	files := token.NewFileSet()
	for _, root := range []string{"tokenissuer", "caddymodule"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "storetest"): // a suite of tests
				return filepath.SkipDir
			case entry.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, declaration := range file.Decls {
				if function, is := declaration.(*ast.FuncDecl); is && function.Body != nil {
					functions[strings.TrimPrefix(filepath.ToSlash(path), "../")+" "+function.Name.Name] = function
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return functions, nil
})

// comparisonsIn lists where a credential, or a value that proves one, is compared with another text: by ==, by !=, in a switch and in calls
// of comparers. Comparing with the empty text is allowed.
func comparisonsIn(body *ast.BlockStmt) (all []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		var sides []ast.Expr
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				sides = []ast.Expr{n.X, n.Y}
			}
		case *ast.SwitchStmt:
			sides = []ast.Expr{n.Tag}
		case *ast.CallExpr:
			if slices.Contains(comparers, nameOf(n.Fun)) {
				sides = n.Args
			}
		}
		if slices.ContainsFunc(sides, isCredential) && !slices.ContainsFunc(sides, isEmptyText) {
			all = append(all, fmt.Sprintf("%T", n))
		}
		return true
	})
	return all
}

// comparers are the functions that stop at the first difference.
var comparers = []string{"bytes.Equal", "bytes.Compare", "slices.Equal", "slices.Contains", "strings.EqualFold", "strings.Compare", "strings.HasPrefix", "strings.HasSuffix"}

// isCredential reports whether an expression is a revealed Secret, a digest or a MAC. Its length and the result of a constant-time
// comparison do not count.
func isCredential(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		name := nameOf(e.Fun)
		if name == "len" || name == "subtle.ConstantTimeCompare" || name == "hmac.Equal" {
			return false
		}
		last := name[strings.LastIndexByte(name, '.')+1:]
		return slices.Contains([]string{"Reveal", "Digest", "MAC", "formMAC", "Sum", "Sum256"}, last) || slices.ContainsFunc(e.Args, isCredential)
	case *ast.SelectorExpr:
		return e.Sel.Name == "Digest"
	case *ast.SliceExpr:
		return isCredential(e.X)
	case *ast.ParenExpr:
		return isCredential(e.X)
	}
	return false
}

func isEmptyText(e ast.Expr) bool {
	literal, is := e.(*ast.BasicLit)
	return is && literal.Value == `""`
}

func callsIn(body *ast.BlockStmt) (names []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is {
			names = append(names, nameOf(call.Fun))
		}
		return true
	})
	return names
}

// nameOf returns the name of a called function, qualified by the package or the last part of the receiver.
func nameOf(function ast.Expr) string {
	switch f := function.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, is := f.X.(*ast.Ident); is {
			return x.Name + "." + f.Sel.Name
		}
		return "." + f.Sel.Name
	}
	return ""
}
