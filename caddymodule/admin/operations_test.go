package admin

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestOperationsAreDocumented: operators find every operation in docs/operations.md, and none that there is not.
func TestOperationsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for _, found := range regexp.MustCompile("`((?:GET|POST|PATCH|DELETE) /oauth/[^`?]*)`").FindAllStringSubmatch(string(text), -1) {
		documented[found[1]] = true
	}
	there := operations()
	for route := range there {
		if !documented[strings.ReplaceAll(string(route), "{id}", "ID")] {
			t.Errorf("%s is not in docs/operations.md", route)
		}
	}
	for operation := range documented {
		if there[Route(strings.ReplaceAll(operation, "ID", "{id}"))].serve == nil {
			t.Errorf("docs/operations.md has %s, which is not there", operation)
		}
	}
}
