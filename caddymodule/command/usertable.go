package command

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// userColumns are the columns of a table of people, each with what a user has there and what a row sets.
var userColumns = []struct {
	name string
	of   func(*admin.User) string // nil: it is never written
	set  func(*admin.UserToImport, string)
}{
	{"email", func(u *admin.User) string { return u.Email }, func(u *admin.UserToImport, text string) { u.Email = text }},
	{"name", func(u *admin.User) string { return u.Name }, func(u *admin.UserToImport, text string) { u.Name = text }},
	{"username", username, func(u *admin.UserToImport, text string) { u.Username = text }},
	{"organisation", func(u *admin.User) string { return u.Organisation }, func(u *admin.UserToImport, text string) { u.Organisation = text }},
	{"role", func(u *admin.User) string { return string(u.Role) }, func(u *admin.UserToImport, text string) { u.Role = text }},
	{"groups", func(u *admin.User) string { return strings.Join(u.Groups, ",") }, setGroups},
	{"status", func(u *admin.User) string { return string(u.Status) }, func(u *admin.UserToImport, text string) { u.Status = text }},
	{"password_hash", nil, func(u *admin.UserToImport, text string) { u.Hash = passwords.Canonical(oauth.NewSecret(text)).Reveal() }},
}

func username(u *admin.User) string {
	if u.Profile == nil {
		return ""
	}
	return u.PreferredUsername
}

// setGroups reads the names of groups, which have no commas.
func setGroups(u *admin.UserToImport, text string) {
	for group := range strings.SplitSeq(text, ",") {
		if group = strings.TrimSpace(group); group != "" {
			u.Groups = append(u.Groups, group)
		}
	}
}

// startsFormula reports whether a spreadsheet takes the text for a formula. Behind apostrophes it does not, and an apostrophe that was there
// before has to be told from one that was added.
func startsFormula(text string) bool {
	text = strings.TrimLeft(text, "'")
	return text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0]))
}

// toCell is the text as a cell that no spreadsheet runs, and fromCell is its inverse.
func toCell(text string) string {
	if startsFormula(text) {
		return "'" + text
	}
	return text
}

func fromCell(cell string) string {
	if text, quoted := strings.CutPrefix(cell, "'"); quoted && startsFormula(text) {
		return text
	}
	return cell
}

func userExport(api *apiClient) *cobra.Command {
	cmd := command("export", "Writes the users as CSV to standard output, without passwords and service accounts", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			out := csv.NewWriter(cmd.OutOrStdout())
			var header []string
			for _, column := range userColumns {
				if column.of != nil {
					header = append(header, column.name)
				}
			}
			_ = out.Write(header) // Flush keeps the error
			err := eachPage(api, admin.ListUsers, userFilter(cmd), func(users []admin.User) error {
				for i := range users {
					if users[i].Service {
						continue
					}
					var cells []string
					for _, column := range userColumns {
						if column.of != nil {
							cells = append(cells, toCell(column.of(&users[i])))
						}
					}
					_ = out.Write(cells)
				}
				out.Flush()
				return out.Error()
			})
			if out.Flush(); err == nil {
				err = out.Error()
			}
			return err
		})
	addUserFilter(cmd)
	return cmd
}

// maxRow is the longest line of a table. The longest user takes less.
const maxRow = 16 << 10

// errRow is what is wrong with one row.
type errRow struct{ error }

// rows reads a table line by line. A field cannot have a line break, because no member of a user can: so a quotation mark that is missing
// spoils one row and not the rest of the file.
type rows struct {
	in     *bufio.Reader
	comma  rune
	number int // of the line that was read last
}

// next returns the fields of the next line that is not empty, or io.EOF. The error is an errRow if only this row is wrong.
func (r *rows) next() ([]string, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !utf8.ValidString(line) {
			return nil, errRow{errors.New("it is not UTF-8: save the table as “CSV UTF-8”")}
		}
		reader := csv.NewReader(strings.NewReader(line))
		reader.Comma, reader.FieldsPerRecord = r.comma, -1
		fields, err := reader.Read()
		if err != nil {
			return nil, errRow{errors.New("a quotation mark stands alone; inside of a field it is written twice, and a field ends on its line")}
		}
		return fields, nil
	}
}

func (r *rows) line() (string, error) {
	r.number++
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.in.ReadSlice('\n')
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = errRow{fmt.Errorf("it has more than %d KiB", maxRow>>10)}
		}
		return "", err
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return "", err
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

// header reads the names of the columns: the index in userColumns of each.
func (r *rows) header() ([]int, error) {
	if start, _ := r.in.Peek(3); bytes.Equal(start, []byte("\xef\xbb\xbf")) { // the byte order mark that spreadsheets write
		_, _ = r.in.Discard(3)
	}
	line, _ := r.in.Peek(maxRow)
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if bytes.ContainsRune(line, ';') && !bytes.ContainsRune(line, ',') { // as spreadsheets write where the comma is for decimals
		r.comma = ';'
	}
	names, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the table is empty: its first line names the columns")
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", r.number, err)
	}
	var columns []int
	for _, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		column := -1
		for i := range userColumns {
			if userColumns[i].name == name {
				column = i
			}
		}
		for _, other := range columns {
			if other == column {
				return nil, fmt.Errorf("line %d: the column %q is there twice", r.number, name)
			}
		}
		if column < 0 {
			return nil, fmt.Errorf("line %d: unknown column %.64q: use email, name, username, organisation, role, groups, status and password_hash", r.number, name)
		}
		columns = append(columns, column)
	}
	for _, column := range columns {
		if userColumns[column].name == "email" {
			return columns, nil
		}
	}
	return nil, fmt.Errorf("line %d: there is no column email", r.number)
}

// userOf returns the user of a row.
func userOf(columns []int, cells []string) (u admin.UserToImport, err error) {
	if len(cells) != len(columns) {
		return u, errRow{fmt.Errorf("it has %d fields and the first line %d", len(cells), len(columns))}
	}
	for i, column := range columns {
		userColumns[column].set(&u, fromCell(strings.TrimSpace(cells[i])))
	}
	if u.Email == "" {
		return u, errRow{errors.New("it has no email")}
	}
	return u, nil
}

// importer sends rows in batches, and prints what became of each in the order of the table.
type importer struct {
	api     *apiClient
	out     io.Writer
	asJSON  bool
	request admin.UsersToImport
	// waiting are the results of the lines since the last batch. Those of the users of the request come with its answer.
	waiting []importedLine
	bytes   int
	counts  map[admin.Outcome]int
	// seen has the line of each address by a hash of it: a table can be longer than what fits into memory.
	seen map[uint64]int
	seed maphash.Seed
}

// importedLine is the result for a line of a table.
type importedLine struct {
	Line int `json:"line"`
	admin.Imported
}

// A request has at most 64 KiB, and ends in time.
const (
	batchUsers = 100
	batchBytes = 40 << 10
)

// add takes a row of the table, or what is wrong with it.
func (m *importer) add(line int, u admin.UserToImport, wrong error) error {
	var size int
	if wrong == nil {
		text, err := json.Marshal(u)
		if size = len(text); err != nil || size > batchBytes {
			wrong = errors.New("it is too long")
		}
	}
	if email, err := store.CanonicalEmail(u.Email); wrong == nil && err == nil {
		key := maphash.String(m.seed, email)
		if first, twice := m.seen[key]; twice {
			wrong = fmt.Errorf("the address is that of line %d", first)
		} else {
			m.seen[key] = line
		}
	}
	if wrong == nil && m.bytes+size > batchBytes || len(m.waiting) == batchUsers {
		if err := m.flush(); err != nil {
			return err
		}
	}
	result := importedLine{Line: line, Imported: admin.Imported{User: u.Email}}
	if wrong != nil {
		result.Result, result.Reason = admin.Refused, wrong.Error()
	} else {
		m.request.Users, m.bytes = append(m.request.Users, u), m.bytes+size
	}
	m.waiting = append(m.waiting, result)
	return nil
}

// flush sends the batch and prints the results.
func (m *importer) flush() error {
	var answers []admin.Imported
	if len(m.request.Users) > 0 {
		if err := m.api.call(admin.ImportUsers.For(), m.request, &answers); err != nil {
			return err
		}
		if len(answers) != len(m.request.Users) {
			return errors.New("the answer is not about the users of the request")
		}
	}
	for _, result := range m.waiting {
		if result.Result == "" {
			result.Imported, answers = answers[0], answers[1:]
		}
		m.counts[result.Result]++
		if err := m.print(result); err != nil {
			return err
		}
	}
	m.waiting, m.request.Users, m.bytes = m.waiting[:0], m.request.Users[:0], 0
	return nil
}

func (m *importer) print(result importedLine) error {
	if m.asJSON {
		text, err := json.Marshal(result)
		if err == nil {
			_, err = fmt.Fprintf(m.out, "%s\n", text)
		}
		return err
	}
	_, err := fmt.Fprintf(m.out, "line %d: %s\n", result.Line, resultInWords(result.Imported))
	return err
}

// resultInWords words what became of a user.
func resultInWords(i admin.Imported) string {
	words := fmt.Sprintf("%s %s", i.User, i.Result)
	switch {
	case i.Reason != "":
		words += ": " + i.Reason
	case i.Result == admin.Differs:
		words += ": " + strings.Join(i.Members, ", ") + " (--update changes it)"
	case len(i.Members) > 0:
		words += ": " + strings.Join(i.Members, ", ")
	}
	return strings.TrimSpace(words)
}

// outcomes are counted in this order.
var outcomes = []admin.Outcome{admin.Added, admin.Updated, admin.Unchanged, admin.Differs, admin.Refused}

// countsInWords words how often each outcome was.
func countsInWords(counts map[admin.Outcome]int) string {
	var parts []string
	for _, outcome := range outcomes {
		if n := counts[outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "no users")
}

// newImporter returns an importer of users.
func newImporter(api *apiClient) *importer {
	return &importer{api: api, counts: make(map[admin.Outcome]int), seen: make(map[uint64]int), seed: maphash.MakeSeed()}
}

// run opens a file, adds its users, and says what was done.
func (m *importer) run(cmd *cobra.Command, name string, add func(io.Reader) error) error {
	in, closes, err := openInput(cmd, name)
	if err != nil {
		return err
	}
	defer closes()
	m.out = cmd.OutOrStdout()
	if err := add(in); err != nil {
		return err
	}
	if err := m.flush(); err != nil {
		return m.stopped("the last line", err)
	}
	words := countsInWords(m.counts)
	if m.request.DryRun {
		words = "nothing was stored; it would be: " + words
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), words)
	if n := m.counts[admin.Refused]; n > 0 {
		return fmt.Errorf("%d lines were refused", n)
	}
	return nil
}

// stopped is the error of an import that ends before the end of the table. Without a line printed nothing is known to be done.
func (m *importer) stopped(before string, err error) error {
	if len(m.counts) == 0 {
		return err
	}
	if m.request.DryRun {
		return fmt.Errorf("before %s: %w; nothing was stored", before, err)
	}
	return fmt.Errorf("before %s: %w; the lines printed above are done, and the same table can be imported again", before, err)
}

// flags are those of every command that adds the users of a file.
func (m *importer) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&m.request.DryRun, "dry-run", false, "Store nothing, and say what would be done")
	cmd.Flags().BoolVar(&m.request.Update, "update", false, "Change users who exist; another role, status, organisation or other groups end every token and session")
	cmd.Flags().BoolVar(&m.asJSON, "json", false, "Print JSON, one line for each of the table")
}

func userImport(api *apiClient) *cobra.Command {
	m := newImporter(api)
	cmd := command("import FILE|- [--dry-run] [--update]", "Adds the users of a CSV table, and says line by line what was done", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string) error { return m.run(cmd, args[0], m.addTable) })
	cmd.Long = `Adds the users of a CSV table, and says line by line what was done. "-" is
standard input.

The first line names the columns, in any order: email, and as they are needed
name, username, organisation, role, groups (separated by commas), status and
password_hash (bcrypt, argon2id, scrypt or PBKDF2). A user who exists is left as it is, unless
--update is given; an empty cell changes nothing, and no password that a user
has is replaced. The same table can be imported again.`
	cmd.ValidArgsFunction = nil // a file
	m.flags(cmd)
	return cmd
}

// addTable adds the users of a CSV table.
func (m *importer) addTable(in io.Reader) error {
	table := rows{in: bufio.NewReaderSize(in, maxRow), comma: ','}
	columns, err := table.header()
	if err != nil {
		return err
	}
	for {
		cells, err := table.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var u admin.UserToImport
		if err == nil {
			u, err = userOf(columns, cells)
		}
		if err != nil && !errors.As(err, new(errRow)) {
			return err
		}
		if err := m.add(table.number, u, err); err != nil {
			return m.stopped(fmt.Sprint("line ", table.number), err)
		}
	}
}

// openInput opens a file, or standard input for "-".
func openInput(cmd *cobra.Command, name string) (io.Reader, func(), error) {
	if name == "-" {
		return cmd.InOrStdin(), func() {}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return file, func() { _ = file.Close() }, nil
}
