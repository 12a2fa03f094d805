// Command site renders the documentation to dist/site: `make site`.
//
// The pages are the Markdown files of the root, of docs and of the folders below it, and each is written to one file. Links between pages, and to
// headings of pages, are checked on the way: a broken one fails the command. Files that pages link to, such as images, are copied. The result is
// static: it can be read from a disk as well as from a server.
package main

import (
	"errors"
	"log"
	"os"
	"path/filepath"
)

const output = "dist/site"

func main() {
	files, err := render(".")
	if err == nil {
		err = write(output, files)
	}
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%d files in %s", len(files), output)
}

// write replaces the directory by the files.
func write(directory string, files map[string][]byte) error {
	err := os.RemoveAll(directory)
	for name, content := range files {
		path := filepath.Join(directory, filepath.FromSlash(name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)) //lint:ignore gosec pages for everybody
	}
	return err
}
