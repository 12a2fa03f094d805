package moving

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-json-experiment/json"
)

// maxLine is the longest line of a dump.
const maxLine = 1 << 20

// dump is a file with one row a line: a JSON object with the columns, and the name of the table as the member table. The rows of a table
// are sorted by id. Every table is read from the beginning, so a dump of any size needs no memory.
type dump struct {
	path    string
	table   string // that is being read
	file    *os.File
	scanner *bufio.Scanner
	line    int
}

func openDump(path string) (Source, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return &dump{path: path}, nil
}

// Page goes on where the page before ended.
func (d *dump) Page(_ context.Context, table string, after Row) ([]Row, error) {
	if after == nil || d.table != table {
		if err := errors.Join(d.Close(), d.rewind(table)); err != nil {
			return nil, err
		}
	}
	var page []Row
	for len(page) < PageRows && d.scanner.Scan() {
		d.line++
		var row Row
		if err := json.Unmarshal(d.scanner.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("line %d of the dump: %w", d.line, err)
		}
		if row.Text("table") == table {
			page = append(page, row)
		}
	}
	if err := d.scanner.Err(); err != nil {
		return nil, fmt.Errorf("line %d of the dump: %w", d.line+1, err)
	}
	return page, nil
}

func (d *dump) rewind(table string) (err error) {
	d.table, d.line = table, 0
	if d.file, err = os.Open(d.path); err != nil {
		return err
	}
	d.scanner = bufio.NewScanner(d.file)
	d.scanner.Buffer(nil, maxLine)
	return nil
}

// Close closes the file.
func (d *dump) Close() error {
	if d.file == nil {
		return nil
	}
	err := d.file.Close()
	d.file = nil
	return err
}
