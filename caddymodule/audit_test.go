package caddymodule

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// audited is a site with people whose audit log is kept.
var audited = strings.Replace(durableStaffed, "\n\t\tstore sqlite", "\n\t\taudit\n\t\tstore sqlite", 1)

// awaitKept waits until every line of the audit log at level info and above is in the store, and returns the events as JSON lines.
func (g *gatehouse) awaitKept() (lines string) {
	g.t.Helper()
	g.eventually("the audit log is in the store", func() bool {
		read, logged := int64(0), 0
		for _, line := range g.auditLines(&read) {
			if line["level"] != "debug" {
				logged++
			}
		}
		lines = g.must(http.StatusOK, "GET", "/oauth/audit/export", "")
		return strings.Count(lines, "\n") == logged
	})
	return lines
}

// kept returns the events for a query, as the admin API pages them.
func (g *gatehouse) kept(query string) (events []map[string]any) {
	g.t.Helper()
	for path, isNext := "/oauth/audit?limit=3&"+query, true; isNext; {
		response, err := http.Get("http://" + g.admin + path)
		check(g.t, err)
		var page []map[string]any
		check(g.t, json.NewDecoder(response.Body).Decode(&page))
		_ = response.Body.Close()
		events = append(events, page...)
		path, isNext = strings.CutSuffix(strings.TrimPrefix(response.Header.Get("Link"), "<"), `>; rel="next"`)
	}
	return events
}

// TestX20TheAuditLogIsKept: requests granted and refused and changes of an operator, with `audit` → each line of the audit log is in the store with
// the same members; the command finds them by person, application, event, reason, host and time, and is no event itself.
func TestX20TheAuditLogIsKept(t *testing.T) {
	g := startGatehouse(t, audited)
	const bob = "bob@acme.example"
	g.ok("user", "add", "--email", bob, "--id", "u-bob", "--password-hash", adaHash)
	g.staffTokens(bob, adaPassword)
	g.gate("nonsense")
	b := g.browser()
	b.signIn(b.open("/oauth/login"), "ada@acme.example", "wrong")
	g.ok("user", "disable", bob)
	g.ok("token", "revoke", "--client", "conf")
	g.must(http.StatusNoContent, "DELETE", "/oauth/users/u-bob", "")
	g.do("GET", "/any/%1b%00%ff", "")

	lines := g.awaitKept()
	logged := map[string]int{}
	read := int64(0)
	for _, line := range g.auditLines(&read) {
		delete(line, "ts")
		delete(line, "logger")
		text, _ := json.Marshal(line)
		logged[string(text)]++
	}
	last := ""
	for scan := bufio.NewScanner(strings.NewReader(lines)); scan.Scan(); {
		var event map[string]any
		check(t, json.Unmarshal(scan.Bytes(), &event))
		at := event["time"].(string)
		if when, err := time.Parse(time.RFC3339, at); err != nil || event["event_id"] == "" || time.Since(when) > patience || last != "" && at > last {
			t.Errorf("the event behind %s is %s", last, scan.Text())
		}
		last = at
		delete(event, "event_id")
		delete(event, "time")
		text, _ := json.Marshal(event)
		if logged[string(text)]--; logged[string(text)] < 0 {
			t.Errorf("%s is not a line of the log", text)
		}
	}
	malformed, _ := g.kept("event=request+refused+at+the+gate&until=0s")[0]["reason"].(string)
	for query, want := range map[string][]string{
		"user=u-bob":                                {"user removed", "user disabled", "token issued", "user added"},
		"user=u-bob&event=user+added":               {"user added"},
		"user=u-ada":                                {"sign-in refused"},
		"user=Ada%40acme.example":                   {"sign-in refused"},
		"client=conf&event=tokens+revoked&since=1h": {"tokens revoked"},
		"event=request+refused+at+the+gate&reason=" + malformed: {"request refused at the gate"},
		"event=user+disabled&until=1h":                          nil,
		"event=user+disabled&host=" + g.addr:                    nil, // an operator has no host
		"event=token+issued&host=" + g.addr:                     {"token issued"},
		"event=user+%25":                                        nil,
	} {
		var got []string
		for _, e := range g.kept(query) {
			got = append(got, e["msg"].(string))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if by := g.kept("event=user+removed")[0]["by"]; by != "operator" {
		t.Errorf("the user was removed by %v", by)
	}

	out := g.ok("audit", "--user", "u-bob", "--since", "24h")
	if rows := strings.Split(strings.TrimSpace(out), "\n"); len(rows) != 5 || !strings.HasPrefix(rows[0], "TIME") || !hasLine(rows[1], []string{"u-bob", "operator"}) && !strings.Contains(rows[1], "user removed") {
		t.Errorf("the table is\n%s", out)
	}
	if out := g.ok("audit", "--limit", "2"); strings.Count(out, "\n") != 3 {
		t.Errorf("two events are\n%s", out)
	}
	if out := g.ok("audit", "--json", "--event", "user added"); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"subject":"u-bob"`) {
		t.Errorf("as JSON lines: %s", out)
	}
	if out := g.ok("audit", "--json"); out != lines {
		t.Errorf("to look has changed the audit log:\n%s\nbefore:\n%s", out, lines)
	}
}

// TestX21WrongQuestionsAboutTheAuditLog: a look at the audit log with an unknown filter, a wrong time, limit or page, or of an address that no user has → an
// error that says what is right; without `audit` → a sentence that says what to add.
func TestX21WrongQuestionsAboutTheAuditLog(t *testing.T) {
	g := startGatehouse(t, audited)
	for query, want := range map[string]string{
		"users=x": `unknown filter \"users\"`, "since=yesterday": "write it as 24h, 7d, 2006-01-02",
		"since=-1h": "write it as", "limit=0": "is no value", "limit=1001": "use 1 to 1000", "limit=x": "is no value", "after=x": "from no link of a list",
		"event=a&event=b": "event: give one value", "a=%zz": "the query is malformed",
	} {
		if answer := g.must(http.StatusBadRequest, "GET", "/oauth/audit?"+query, ""); !strings.Contains(answer, want) {
			t.Errorf("%s: %s", query, answer)
		}
	}
	g.must(http.StatusNotFound, "GET", "/oauth/audit?user=nobody@acme.example", "")
	g.must(http.StatusBadRequest, "GET", "/oauth/audit/export?users=x", "")
	if _, err := g.run("", "audit", "--limit", "-1"); err == nil {
		t.Error("a limit below zero is taken")
	}
	g.reload(durableStaffed)
	for _, args := range [][]string{{"audit"}, {"audit", "--json"}} {
		if _, err := g.run("", args...); err == nil || !strings.Contains(err.Error(), "add `keep 30d` in an `audit` block of the oauth block") {
			t.Errorf("without audit: %v", err)
		}
	}
}

// TestX22ReloadsKeepTheAuditLog: refusals while the configuration is loaded again, also with another `keep`, and then a stop → each line is in the
// store once, and the store stays open.
func TestX22ReloadsKeepTheAuditLog(t *testing.T) {
	g := startGatehouse(t, audited)
	node := g.app().node
	for n := range 5 {
		ended := make(chan bool)
		go func() {
			defer close(ended)
			for range 20 {
				_, _ = http.Get(g.url + "/any/x") // it may meet a listener that closes
			}
		}()
		g.reload(strings.Replace(audited, "audit\n", fmt.Sprintf("audit {\nkeep %dh\n}\n", n+2), 1))
		<-ended
	}
	if g.app().node != node || node.Audit.Retention().Keep != 6*time.Hour {
		t.Errorf("the node is the same: %v; it keeps %v", g.app().node == node, node.Audit.Retention())
	}
	g.gate("at the end")
	read := int64(0)
	logged := len(g.auditLines(&read)) // all at info
	g.stop()
	g.reload(audited)
	if n := strings.Count(g.awaitKept(), "\n"); n < logged || logged < 50 {
		t.Errorf("%d events are kept of %d", n, logged)
	}
}
