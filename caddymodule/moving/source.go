package moving

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Source has the tables of another server.
type Source interface {
	// Page returns rows of a table in the order of their keys: those after a row, or the first ones if it is nil. Fewer than PageRows rows
	// are the last ones.
	Page(ctx context.Context, table string, after Row) ([]Row, error)
	// IsWhole reports whether a row that the source does not have was deleted. A file may be a part of what there is.
	IsWhole() bool
	// Name returns a name that no other source has; empty: a file does not say what it is of.
	Name() string
	Close() error
}

// PageRows is how many rows are read at once.
const PageRows = 2000

// Open opens a source: postgres://…, mysql://… or a file with one row a line.
func Open(ctx context.Context, from string) (Source, error) {
	switch scheme, _, _ := strings.Cut(from, "://"); scheme {
	case "postgres", "postgresql":
		return openPostgres(ctx, from)
	case "mysql", "mariadb":
		return openMySQL(ctx, from)
	case from:
		return openDump(from)
	default:
		return nil, fmt.Errorf("%s:// is no source: use postgres://…, mysql://… or a file with one row a line", scheme)
	}
}

// Row is a row of a table by the names of its columns. A value is nil, or of one of the types of package database/sql/driver.
type Row map[string]any

// keyDigits is the length of a numeric key.
const keyDigits = 20

// Key returns the primary key in an order of bytes: numbers have leading zeros.
func (r Row) Key() string {
	key := r.Text("id")
	if _, err := strconv.ParseUint(key, 10, 63); err == nil && len(key) < keyDigits {
		return strings.Repeat("0", keyDigits-len(key)) + key
	}
	return key
}

// Before returns a text that sorts before a key, and behind every key of the same length that does.
func Before(key string) string {
	last := len(key) - 1
	if last < 0 || key[last] == 0 || key[last] > 0x7f {
		return key
	}
	return key[:last] + string(rune(key[last]-1)) + "\U0010ffff"
}

// Has reports whether the table has the column.
func (r Row) Has(column string) bool {
	_, has := r[column]
	return has
}

// Text returns the value of a column as text; NULL is empty.
func (r Row) Text(column string) string {
	switch value := r[column].(type) {
	case nil:
		return ""
	case string:
		return value
	case []byte:
		return string(value)
	case [16]byte: // a UUID of PostgreSQL
		return fmt.Sprintf("%x-%x-%x-%x-%x", value[:4], value[4:6], value[6:8], value[8:10], value[10:])
	default:
		return fmt.Sprint(value)
	}
}

// Flag returns the value of a boolean column, or otherwise if the table has none.
func (r Row) Flag(column string, otherwise bool) bool {
	switch r.Text(column) {
	case "":
		return otherwise
	case "true", "1", "t", "\x01":
		return true
	}
	return false
}

// Time returns the value of a column with a time; the zero time for NULL. One without a zone is in UTC, and one with the name of another zone
// is an error, because names are not unique.
func (r Row) Time(column string) (time.Time, error) {
	if at, is := r[column].(time.Time); is {
		return at, nil
	}
	text := r.Text(column)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999 UTC", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is no time: %.64q", column, text)
}

// List returns the elements of a list: a JSON array, an array of PostgreSQL, or names that commas separate.
func (r Row) List(column string) []string {
	if values, is := r[column].([]any); is { // of JSON
		var list []string
		for _, value := range values {
			list = append(list, fmt.Sprint(value))
		}
		return list
	}
	text := strings.TrimSpace(r.Text(column))
	var list []string
	if strings.HasPrefix(text, "[") && json.Unmarshal([]byte(text), &list) == nil {
		return list
	}
	if array, is := strings.CutPrefix(text, "{"); is {
		return elements(strings.TrimSuffix(array, "}"))
	}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.Trim(strings.TrimSpace(name), `"`); name != "" {
			list = append(list, name)
		}
	}
	return list
}

// elements returns the elements of an array of PostgreSQL without its braces: one in quotation marks may have commas, and backslashes before
// quotation marks and backslashes; NULL without them is none.
func elements(array string) (list []string) {
	var element strings.Builder
	quoted, within := false, false
	end := func() {
		if text := element.String(); quoted || text != "" && !strings.EqualFold(text, "NULL") {
			list = append(list, text)
		}
		element.Reset()
		quoted = false
	}
	for i := 0; i < len(array); i++ {
		switch c := array[i]; {
		case c == '\\' && i+1 < len(array):
			i++
			element.WriteByte(array[i])
		case c == '"':
			within, quoted = !within, true
		case c == ',' && !within:
			end()
		default:
			element.WriteByte(c)
		}
	}
	end()
	return list
}

// EachPage calls each with the pages of a table until there are no more. It fails if the rows are not in the order of their keys.
func EachPage(ctx context.Context, s Source, table string, each func(page []Row, last bool) error) error {
	var after Row
	key := ""
	for {
		page, err := s.Page(ctx, table, after)
		if err != nil {
			return fmt.Errorf("reading %s: %w", table, err)
		}
		for _, row := range page {
			next := row.Key()
			if next <= key {
				return fmt.Errorf("reading %s: the row with id %.64q comes after that with %.64q: the rows must be sorted by id, byte by byte", table, next, key)
			}
			key = next
		}
		last := len(page) < PageRows
		if err := each(page, last); err != nil || last {
			return err
		}
		after = page[len(page)-1]
	}
}
