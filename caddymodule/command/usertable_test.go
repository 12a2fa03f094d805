package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

// TestX60RowsOfATable: a table as spreadsheets write it, with a byte order mark, CRLF, semicolons, quotes → its users; a row with a broken
// quote, too many fields, another encoding, or of 1 MB → an error with its number, and the rows behind it are read.
func TestX60RowsOfATable(t *testing.T) {
	for name, test := range map[string]struct{ table, want string }{
		"plain":        {"email,name\na@x,Ada\n", "2 a@x Ada"},
		"spreadsheet":  {"\ufeffEmail;Name\r\na@x;\"Ada; L\"\"x\"\"\"\r\n\r\nb@x;Bob", `2 a@x Ada; L"x"|4 b@x Bob`},
		"order":        {"name, email \n Ada , a@x \n", "2 a@x Ada"},
		"broken quote": {"email,name\na@x,\"Ada\nb@x,B\"ob\nc@x,Cy\n", "2 a quotation mark|3 a quotation mark|4 c@x Cy"},
		"fields":       {"email,name\na@x\nb@x,Bob,x\nc@x,Cy\n", "2 it has 1 fields|3 it has 3 fields|4 c@x Cy"},
		"long":         {"email,name\na@x," + strings.Repeat("x", 1<<20) + "\nb@x,Bob\n", "2 it has more than 16 KiB|3 b@x Bob"},
		"long at end":  {"email,name\na@x," + strings.Repeat("x", 1<<20), "2 it has more than 16 KiB"},
		"encoding":     {"email,name\na@x,Zo\xeb\nb@x,Zoë\n", "2 it is not UTF-8|3 b@x Zoë"},
		"no address":   {"email,name\n,Ada\n", "2 it has no email"},
		"formula":      {"email,name\na@x,'=1+1\nb@x,'Bob\n", "2 a@x =1+1|3 b@x 'Bob"},
		"no rows":      {"email", ""},
		"empty":        {"", "the table is empty"},
		"blank":        {"\n\n", "the table is empty"},
		"unknown":      {"email,colour\n", `line 1: unknown column "colour"`},
		"twice":        {"email,name,Name\n", `line 1: the column "name" is there twice`},
		"without":      {"name\n", "line 1: there is no column email"},
		"UTF-16":       {"\xff\xfee\x00m\x00", "line 1: it is not UTF-8"},
	} {
		table := rows{in: bufio.NewReaderSize(strings.NewReader(test.table), maxRow), comma: ','}
		columns, err := table.header()
		var got []string
		for err == nil {
			var cells []string
			if cells, err = table.next(); errors.Is(err, io.EOF) {
				break
			}
			var u admin.UserToImport
			if err == nil {
				u, err = userOf(columns, cells)
			}
			says := u.Email + " " + u.Name
			if errors.As(err, new(errRow)) {
				says, err = err.Error(), nil
			}
			got = append(got, fmt.Sprint(table.number, " ", says))
		}
		if err != nil && !errors.Is(err, io.EOF) {
			got = append(got, err.Error())
		}
		want := strings.Split(test.want, "|")
		if test.want == "" {
			want = nil
		}
		if len(got) != len(want) {
			t.Errorf("%s: %q, want %q", name, got, want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%s: %q, want %q", name, got[i], want[i])
			}
		}
	}
}

// TestX61NoCellIsAFormula: a name that a spreadsheet would run → a cell that it does not, and the name comes back from it.
func TestX61NoCellIsAFormula(t *testing.T) {
	for _, text := range []string{"", "Ada", "=1+1", "+49", "-1", "@x", "\tx", "\rx", "'", "''", "'Ada", "'=1", "''=1", "a=1", "=", "'+"} {
		cell := toCell(text)
		if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) || fromCell(cell) != text {
			t.Errorf("%q becomes %q, and that %q", text, cell, fromCell(cell))
		}
	}
}

// endpoint is an admin endpoint that adds every user of an import.
func endpointThatAdds(t *testing.T) (address string, requests *int) {
	t.Helper()
	requests = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests++
		var asked admin.UsersToImport
		if err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, 64<<10), &asked); err != nil {
			t.Error(err)
		}
		results := make([]admin.Imported, len(asked.Users))
		for i, u := range asked.Users {
			results[i] = admin.Imported{User: u.Email, Result: admin.Added}
		}
		_ = json.MarshalWrite(w, results)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), requests
}

// table generates a table of people, and calls at at each thousandth.
type table struct {
	rows, row int
	left      []byte
	at        func(row int)
}

func (g *table) Read(p []byte) (int, error) {
	if len(g.left) == 0 {
		if g.row > g.rows {
			return 0, io.EOF
		}
		g.left = fmt.Appendf(nil, "p%d@example.com,%s\n", g.row, strings.Repeat("x", 200))
		if g.row == 0 {
			g.left = []byte("email,name\n")
		}
		if g.row++; g.row%1000 == 0 {
			g.at(g.row)
		}
	}
	n := copy(p, g.left)
	g.left = g.left[n:]
	return n, nil
}

// TestX62AnImportIsAStream: a table of 100,000 people, 20 MB → it is sent in requests of at most 64 KiB, and takes less than 16 MB of memory.
func TestX62AnImportIsAStream(t *testing.T) {
	if testing.Short() {
		t.Skip("imports 100,000 people")
	}
	address, requests := endpointThatAdds(t)
	most, before := uint64(0), heap()
	cmd := userImport(&apiClient{address: address})
	cmd.SetArgs([]string{"-"})
	cmd.SetIn(&table{rows: 100_000, at: func(row int) {
		if row%20_000 == 0 {
			most = max(most, heap())
		}
	}})
	lines := new(lineCounter)
	cmd.SetOut(lines)
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if *lines != 100_000 || *requests < 1000 {
		t.Errorf("%d lines, %d requests", *lines, *requests)
	}
	if most > before+16<<20 {
		t.Errorf("%d MB of memory", (most-before)>>20)
	}
}

// TestAnImportThatEnds: the error says that lines are done if some were printed and stored, and only then.
func TestAnImportThatEnds(t *testing.T) {
	for name, test := range map[string]struct {
		good int // requests that the endpoint answers
		want string
	}{
		"at once": {0, "it is starting"},
		"later":   {1, "before the last line: it is starting; the lines printed above are done, and the same table can be imported again"},
		"dry run": {1, "before the last line: it is starting; nothing was stored"},
	} {
		left := test.good
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if left--; left < 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, `{"error":"it is starting"}`)
				return
			}
			var asked admin.UsersToImport
			if err := json.UnmarshalRead(r.Body, &asked); err != nil {
				t.Error(err)
			}
			_ = json.MarshalWrite(w, make([]admin.Imported, len(asked.Users)))
		}))
		t.Cleanup(server.Close)
		cmd := userImport(&apiClient{address: strings.TrimPrefix(server.URL, "http://")})
		cmd.SetArgs([]string{"-", fmt.Sprint("--dry-run=", name == "dry run")})
		cmd.SetIn(&table{rows: batchUsers*test.good + 1, at: func(int) {}})
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		err := cmd.Execute()
		if lines := strings.Count(out.String(), "\n"); err == nil || err.Error() != test.want || lines != test.good*batchUsers {
			t.Errorf("%s: %d lines, %v", name, lines, err)
		}
	}
}

// heap returns how much of the heap is in use.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

type lineCounter int

func (c *lineCounter) Write(p []byte) (int, error) {
	*c += lineCounter(strings.Count(string(p), "\n"))
	return len(p), nil
}

// TestX63CompletionKnowsOurWords: a shell that completes `oauth user`, a role, a state or a file → our commands and values, and files where
// one is meant.
func TestX63CompletionKnowsOurWords(t *testing.T) {
	for _, test := range []struct {
		typed, want string
		files       bool
	}{
		{"user ", "add disable enable export factors group import invite list lock recover remove sessions set-password set-role show update", false},
		{"session ", "end list", false},
		{"user list --state ", "active disabled invited locked", false},
		{"user add --role ", "admin business_manager group_manager member", false},
		{"user set-role ada ", "admin business_manager group_manager member", false},
		{"user show ", "", false},
		{"client add --type ", "confidential native public", false},
		{"user import ", "", true},
	} {
		api := new(apiClient)
		root := &cobra.Command{Use: "caddy"}
		root.AddCommand(group("oauth", "", clientCommand(api), userCommand(api), sessionCommand(api)))
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetArgs(append([]string{"__complete", "oauth"}, strings.Split(test.typed, " ")...))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		words := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		directive := words[len(words)-1]
		found := make(map[string]bool)
		for _, word := range words[:len(words)-1] {
			word, _, _ = strings.Cut(word, "\t")
			found[word] = true
		}
		for word := range strings.FieldsSeq(test.want) {
			if !found[word] {
				t.Errorf("%q: no %s in %q", test.typed, word, words)
			}
		}
		if len(found) != len(strings.Fields(test.want)) || (directive == ":0") != test.files {
			t.Errorf("%q: %q", test.typed, words)
		}
	}
}
