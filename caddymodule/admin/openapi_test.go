package admin

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// documentFile is the document as it is kept in the tree.
const documentFile = "../../docs/openapi.json"

// TestX50TheDocumentHasEveryRoute: a route of the API → it is in the document, which has no other, and docs/openapi.json is that document.
func TestX50TheDocumentHasEveryRoute(t *testing.T) {
	text := Document()
	if kept, err := os.ReadFile(documentFile); err != nil || !bytes.Equal(kept, text) {
		t.Errorf("docs/openapi.json is not what the routes are (%v): run `go run ./internal/openapi`", err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	described, ids, served := make(map[Route]bool), make(map[string]Route), operations()
	for path, methods := range document.Paths {
		for method, op := range methods {
			route := Route(strings.ToUpper(method) + " " + path)
			described[route] = true
			if served[route].serve == nil {
				t.Errorf("the document has %s, which is not served", route)
			}
			if other, twice := ids[op.OperationID]; twice || op.OperationID == "" {
				t.Errorf("%s and %s are both %q", route, other, op.OperationID)
			}
			ids[op.OperationID] = route
		}
	}
	for route, op := range served {
		if !described[route] || op.summary == "" {
			t.Errorf("%s is not described", route)
		}
	}
	for _, route := range declaredRoutes(t) {
		if served[route].serve == nil {
			t.Errorf("%s is a route that nothing serves", route)
		}
	}
}

// declaredRoutes are the constants of route.go.
func declaredRoutes(t *testing.T) (routes []Route) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "route.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		constant, is := node.(*ast.ValueSpec)
		if !is {
			return true
		}
		for _, value := range constant.Values {
			text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			routes = append(routes, Route(text))
		}
		return false
	})
	if len(routes) < 40 {
		t.Fatalf("found %d routes", len(routes))
	}
	return routes
}

// TestX50AMergePatchHasTheDocumentedMembers: null for each member that a request may reset → the type takes it.
func TestX50AMergePatchHasTheDocumentedMembers(t *testing.T) {
	for _, p := range properties(operations()[UpdateUser].body) {
		user := store.User{Profile: new(store.Profile)}
		if err := (store.Patch{p.name: []byte("null")}).Apply(&user); p.resets && err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}

// TestX51APathIsMadeOfItsRoute: ids with slashes, dots and brackets → one segment of the path each.
func TestX51APathIsMadeOfItsRoute(t *testing.T) {
	for _, test := range []struct {
		request Request
		want    string
	}{
		{ListUsers.For(), "GET /oauth/users"},
		{ShowUser.For("a/b c"), "GET /oauth/users/a%2Fb%20c"},
		{RemoveFactor.For("..", "{factor}"), "DELETE /oauth/users/%2E%2E/factors/%7Bfactor%7D"},
		{ShowUser.For("").With(map[string][]string{"a": {"b c"}}), "GET /oauth/users/?a=b+c"},
	} {
		if got := test.request.Method + " " + test.request.Path; got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}
