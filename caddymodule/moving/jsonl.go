package moving

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
		row, err := rowOf(d.scanner.Bytes())
		if err != nil {
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

// rowOf reads a line. A number stays the text that it is, because an id may have more digits than a float holds.
func rowOf(line []byte) (Row, error) {
	var values map[string]jsontext.Value
	if err := json.Unmarshal(line, &values, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	row := make(Row, len(values))
	for column, value := range values {
		var err error
		if row[column], err = valueOf(value); err != nil {
			return nil, err
		}
	}
	return row, nil
}

func valueOf(value jsontext.Value) (any, error) {
	switch value.Kind() {
	case '0':
		return string(value), nil
	case '[':
		var elements []jsontext.Value
		if err := json.Unmarshal(value, &elements); err != nil {
			return nil, err
		}
		list := make([]any, len(elements))
		for i := range elements {
			var err error
			if list[i], err = valueOf(elements[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		var v any
		err := json.Unmarshal(value, &v, jsontext.AllowInvalidUTF8(true))
		return v, err
	}
}

// IsWhole returns false.
func (d *dump) IsWhole() bool { return false }

// Name returns "".
func (d *dump) Name() string { return "" }

// Close closes the file.
func (d *dump) Close() error {
	if d.file == nil {
		return nil
	}
	err := d.file.Close()
	d.file = nil
	return err
}
