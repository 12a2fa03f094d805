package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// searched is a table whose rows are found by terms, which are in another table.
type searched struct {
	// table has the things, as x, and columns are what is read of them.
	table, columns string
	// terms has the terms of the things by their id, which it calls id.
	terms, id string
}

// textTerm is the kind of the terms that begin with a text. A term is a letter for its kind, and the text.
const textTerm = "t"

// maxTerm is how much of a text is kept for searches. PostgreSQL has no longer entries than 2.7 KB in an index.
const maxTerm = 512

// textTerms returns the terms of texts.
func textTerms(texts []string) (terms []string) {
	for _, text := range texts {
		terms = append(terms, (textTerm + text)[:min(len(textTerm+text), maxTerm)])
	}
	return terms
}

// addTerms stores the terms of a thing that has none.
func (d searched) addTerms(ctx context.Context, tx session, id string, terms []string) error {
	args, rows := []any{id}, []string{}
	for _, term := range terms {
		args = append(args, []byte(term))
		rows = append(rows, fmt.Sprintf("($%d, $1)", len(args)))
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO `+d.terms+` (term, `+d.id+`) VALUES `+strings.Join(rows, ", "), args...)
	return err
}

// changeTerms replaces the terms of a thing that changed. The caller holds its row.
func (d searched) changeTerms(ctx context.Context, tx session, id string, before, after []string) error {
	if slices.Equal(before, after) {
		return nil
	}
	return d.replaceTerms(ctx, tx, id, after)
}

// replaceTerms replaces the terms of a thing, whatever they are. The caller holds its row.
func (d searched) replaceTerms(ctx context.Context, tx session, id string, terms []string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM `+d.terms+` WHERE `+d.id+` = $1`, id); err != nil {
		return err
	}
	return d.addTerms(ctx, tx, id, terms)
}

// addAllTerms stores the terms of all things, of which none has any. A select reads things of a table, and of returns the id and the terms of
// one.
func addAllTerms[T any](ctx context.Context, tx session, d searched, text, standIn string, scan func(scanner) (T, error), of func(T) (id string, terms []string)) error {
	const some = 500 // in memory at once
	for after := ""; ; {
		things, err := queryAll(ctx, tx, text+` WHERE id > $1 AND id <> $2 ORDER BY id LIMIT $3`, []any{after, standIn, some}, scan)
		if err != nil {
			return err
		}
		for _, thing := range things {
			id, terms := of(thing)
			if err := d.addTerms(ctx, tx, id, terms); err != nil {
				return err
			}
			after = id
		}
		if len(things) < some {
			return nil
		}
	}
}

// maxCandidates is how many things are looked at for a page, if it is not full before.
const maxCandidates = 1000

// search is a query for a page of things: candidates, in the order of an index, and the conditions that they have to meet.
type search struct {
	in         searched
	after      store.SearchPosition
	candidates string // empty: the things for which all holds
	all        string // empty: every thing
	conditions []string
	args       []any
	limit      int // of candidates
}

// newSearch returns a search that finds all things but the stand-in.
func newSearch(in searched, standIn string, after store.SearchPosition, limit int) *search {
	s := &search{in: in, after: after, limit: max(maxCandidates, limit+1)}
	s.conditions = append(s.conditions, `x.id <> `+s.arg(standIn))
	return s
}

// arg adds an argument and returns its placeholder.
func (s *search) arg(value any) string {
	s.args = append(s.args, value)
	return fmt.Sprintf("$%d", len(s.args))
}

// exists is EXISTS as a scalar, for which PostgreSQL does not read all rows that are in the table about anybody.
func exists(table, where string) string {
	return `COALESCE((SELECT TRUE FROM ` + table + ` WHERE ` + where + ` LIMIT 1), FALSE)`
}

// begins makes the things whose texts begin with a text the candidates. One with several such texts is found by the first.
func (s *search) begins(text string) {
	from := textTerm + possible(text)
	first, end := s.arg([]byte(from)), s.arg([]byte(from+"\xff")) // UTF-8 has no such byte
	at := s.arg([]byte(max(s.after.Found, from)))
	s.candidates = `SELECT term, ` + s.in.id + ` FROM ` + s.in.terms + ` WHERE term < ` + end + ` AND (term, ` + s.in.id + `) > (` + at + `, ` + s.arg(possible(s.after.ID)) + `)
		ORDER BY term, ` + s.in.id + ` LIMIT ` + s.arg(s.limit)
	// COALESCE keeps the database from reading all terms between the two for each candidate: only the index by the id is left.
	s.conditions = append(s.conditions, `NOT `+exists(s.in.terms, s.in.id+` = x.id AND COALESCE(term, term) >= `+first+` AND COALESCE(term, term) < c.term`))
}

// among makes the things of a table the candidates if there are none yet, and a condition otherwise.
func (s *search) among(table, where string) {
	if s.candidates != "" {
		s.conditions = append(s.conditions, exists(table, where+` AND `+s.in.id+` = x.id`))
		return
	}
	s.candidates = `SELECT DISTINCT CAST(NULL AS BYTEA) AS term, ` + s.in.id + ` FROM ` + table + ` WHERE ` + where + ` AND ` + s.in.id + ` > ` + s.arg(possible(s.after.ID)) +
		` ORDER BY ` + s.in.id + ` LIMIT ` + s.arg(s.limit)
}

// text returns the statement, and adds its last arguments.
func (s *search) text() string {
	selected := `x.id, (` + strings.Join(s.conditions, " AND ") + `), ` + s.in.columns + ` FROM `
	if s.candidates == "" {
		return `SELECT NULL, ` + selected + `(SELECT * FROM ` + s.in.table + ` WHERE (` + cmp.Or(s.all, `TRUE`) + `) AND id > ` + s.arg(possible(s.after.ID)) +
			` ORDER BY id LIMIT ` + s.arg(s.limit) + `) AS x ORDER BY x.id`
	}
	return `SELECT c.term, ` + selected + `(` + s.candidates + `) AS c JOIN ` + s.in.table + ` x ON x.id = c.` + s.in.id + ` ORDER BY c.term, c.` + s.in.id
}

// findPage reads a page of what a search finds.
func findPage[T any](ctx context.Context, db *database, s *search, limit int, scan func(scanner) (T, error)) (page []T, next store.SearchPosition, err error) {
	seen, text := 0, s.text()
	err = ask(ctx, db.text(text), s.args, func(rows *sql.Rows) error {
		for rows.Next() {
			var term []byte
			var id string
			var matches bool
			thing, err := scan(behind{rows, []any{&term, &id, &matches}})
			if err != nil {
				return err
			}
			if seen++; matches && len(page) == limit {
				return nil // next is there: a further thing follows
			}
			next = store.SearchPosition{Found: string(term), ID: id}
			if matches {
				page = append(page, thing)
			}
		}
		if seen < s.limit {
			next = store.SearchPosition{}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, store.SearchPosition{}, err
	}
	return page, next, nil
}

// behind is a row without its first columns, which are read into first.
type behind struct {
	row   scanner
	first []any
}

// Scan reads the row.
func (b behind) Scan(into ...any) error { return b.row.Scan(slices.Concat(b.first, into)...) }
