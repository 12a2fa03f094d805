package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestThreatsPage: docs/threats.md is up to date with the tests.
func TestThreatsPage(t *testing.T) {
	root := filepath.Join("..", "..")
	found, err := promises(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 300 {
		t.Errorf("only %d promises were found: is the pattern still right?", len(found))
	}
	written, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, render(found)) {
		t.Errorf("%s is not what the tests say: run make threats", page)
	}
}
