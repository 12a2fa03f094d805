//go:build unix

package caddymodule

import (
	"database/sql"
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/manyrows"
)

// nextPage is the link to the next page of a list.
var nextPage = regexp.MustCompile(`<p><a class="button" href="([^"]*)">`)

// TestO25PagesOfManyRows: every page of the console with many users, clients and audit events, as they come first, searched, filtered and
// further on → each is served and stays small. With GATEHOUSE_CONSOLE_ROWS=full there are 100,000 users, 10,000 clients and 1,000,000 events,
// and each page takes at most 50 ms of processor time.
func TestO25PagesOfManyRows(t *testing.T) {
	const most, repeats = 50 * time.Millisecond, 20
	users, clients, events := 2_000, 500, 6_000
	full := os.Getenv("GATEHOUSE_CONSOLE_ROWS") == "full"
	if full {
		users, clients, events = 100_000, 10_000, 1_000_000
	}
	s := startConsole(t, "store memory", "store sqlite DIR/state/oauth.db\n\t\tsecond_factor required role member")
	v := s.operator(t, "olga@acme.example")
	db, err := sql.Open("sqlite", s.database()+"?_pragma=busy_timeout(60000)")
	check(t, err)
	defer func() { _ = db.Close() }()
	rows := manyrows.Database{Writes: db}
	rows.Users(t, users)
	rows.Clients(t, clients)
	rows.AuditEvents(t, events, time.Now().Add(-30*24*time.Hour), [3]string{"signed in", "request refused at the gate", "sign-in refused"})
	check(t, db.Close())

	abouts := []url.Values{
		{}, {"id": {"u77"}, "user": {"u-8"}, "client": {"c7"}}, {"id": {"c77"}}, {"kind": {"web"}},
		{"search": {"a"}}, {"search": {"person77"}}, {"search": {"nobody at all"}}, {"organisation": {"acme"}}, {"state": {"disabled"}}, {"group": {"g7"}}, {"without_factor": {"true"}},
		{"user": {"u-8"}}, {"client": {"app-3"}}, {"event": {"rare"}}, {"event": {"signed in"}}, {"reason": {"reason 0"}}, {"host": {"none"}, "event": {"signed in"}},
	}
	if !full {
		abouts = abouts[:6]
	}
	pages, actions := consolePages(t)
	asked := make(map[string]bool)
	ask := func(target string) answer {
		a := v.navigate(s.at("admin", target))
		if asked[target] || a.status != http.StatusOK {
			return a
		}
		asked[target] = true
		if len(a.body) > 256<<10 {
			t.Errorf("%s: %d bytes", target, len(a.body))
		}
		if !full {
			return a
		}
		began := processorTime(t)
		for range repeats {
			v.navigate(s.at("admin", target))
		}
		took := (processorTime(t) - began) / time.Duration(repeats)
		t.Logf("%6.1f ms, %6d bytes: %s", took.Seconds()*1000, len(a.body), target)
		if took > most {
			t.Errorf("%s takes %v of processor time, more than %v", target, took, most)
		}
		return a
	}
	for _, p := range pages {
		if p.path == "/audit/export" { // it streams everything
			continue
		}
		served := false
		for _, about := range abouts {
			for _, target := range p.targets(actions, about) {
				a := ask(target)
				served = served || a.status == http.StatusOK
				for range 3 { // pages further on
					further := nextPage.FindStringSubmatch(a.body)
					if further == nil {
						break
					}
					a = ask(html.UnescapeString(further[1]))
				}
			}
		}
		if !served && p.path != "/again" && p.path != "/gate/why" && p.path != "/providers/test" {
			t.Errorf("%s is not served", p.path)
		}
	}
	if len(asked) < 60 {
		t.Errorf("only %d addresses", len(asked))
	}
}

// processorTime returns what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
