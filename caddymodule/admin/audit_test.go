package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// breakingStore answers some pages and is then away.
type breakingStore struct {
	store.AuditStore
	pages int
}

func (s *breakingStore) AuditEvents(ctx context.Context, f store.AuditFilter, before store.AuditKey, limit int) ([]store.AuditEvent, store.AuditKey, error) {
	if s.pages--; s.pages < 0 {
		return nil, store.AuditKey{}, store.Unavailable(errors.New("the connection is lost"))
	}
	return s.AuditStore.AuditEvents(ctx, f, before, limit)
}

// keeps is the retention of newNode.
var keeps = auditlog.Retention{Keep: time.Hour, MaxEvents: 10_000}

// newNode returns a node that is open.
func newNode(t *testing.T) *node.Node {
	t.Helper()
	use, err := node.Acquire(node.Settings{
		Store: node.Memory, Issuer: "https://a.example", Algorithm: oauth.ES256, MaxStaleness: time.Minute, Audit: keeps,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = use.Release() })
	if err := use.Value.Open(); err != nil {
		t.Fatal(err)
	}
	return use.Value
}

// TestX45AReloadThatFails: a configuration without `audit` starts beside one that keeps the audit log, and is taken back → the log is kept as before.
func TestX45AReloadThatFails(t *testing.T) {
	n := newNode(t)
	first := &Target{OwnIssuer: &OwnIssuer{Node: n, Audit: keeps}}
	second := &Target{OwnIssuer: &OwnIssuer{Node: n}}
	Add(first)
	defer Withdraw(first)
	Add(second)
	if r := n.Audit.Retention(); r != (auditlog.Retention{}) {
		t.Errorf("the newest configuration keeps nothing, and the node %+v", r)
	}
	Withdraw(second)
	if r := n.Audit.Retention(); r != keeps {
		t.Errorf("afterwards the node keeps %+v", r)
	}
}

// TestX46AChangedLine: an audit event whose line was changed in the database → shown as damaged, with what its columns say.
func TestX46AChangedLine(t *testing.T) {
	for _, data := range []string{"", "x", `"text"`, `{"a":1}{}`, `{"a":"\xff"}`} {
		text, err := json.Marshal(viewOfEvent(store.AuditEvent{Event: "signed in", UserID: "u-ada", Data: data}))
		if err != nil || !strings.Contains(string(text), `"damaged":true`) || !strings.Contains(string(text), `"u-ada"`) {
			t.Errorf("%q: %s, %v", data, text, err)
		}
	}
}

// TestX43AnExportThatBreaksOff: the store fails at the first page of an export of audit events → 503; at a later one → the answer breaks off, and no
// client takes it for the whole; with `limit` → as many events, over pages.
func TestX43AnExportThatBreaksOff(t *testing.T) {
	n := newNode(t)
	var events []store.AuditEvent
	for i := range 2500 {
		events = append(events, store.AuditEvent{Key: store.AuditKey{At: n.StoreTime(), ID: int64(i + 1)}, Event: "e", Data: fmt.Sprintf(`{"msg":"e","n":%d}`, i)})
	}
	if err := n.Store().Audit.AddAuditEvents(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	whole := n.Store().Audit
	target := &Target{Logger: zap.NewNop(), OwnIssuer: &OwnIssuer{Node: n, Audit: keeps, IsServing: func(context.Context) bool { return true }}}
	Add(target)
	defer Withdraw(target)
	server := httptest.NewServer(newAPI().mux)
	defer server.Close()
	for _, test := range []struct {
		query                string
		pages, status, lines int
		breaks               bool
	}{
		{"", 9, http.StatusOK, 2500, false}, {"", 1, http.StatusOK, 1000, true}, {"", 0, http.StatusServiceUnavailable, 0, false},
		{"?limit=1700", 9, http.StatusOK, 1700, false}, {"?limit=1000", 1, http.StatusOK, 1000, false}, {"?limit=2500", 9, http.StatusOK, 2500, false},
	} {
		n.Store().Audit = &breakingStore{whole, test.pages}
		response, err := http.Get(server.URL + "/oauth/audit/export" + test.query)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		lines := strings.Count(string(text), "\n")
		complete := lines == test.lines || test.breaks && lines < test.lines // what has arrived by then is not known
		if response.StatusCode != test.status || !complete || (err != nil) != test.breaks {
			t.Errorf("%+v: %d with %d lines, %v", test, response.StatusCode, lines, err)
		}
	}
	n.Store().Audit = whole
}

// TestX44WhoDidIt: a change of an operator → its audit line says so, and who it was, where that is known.
func TestX44WhoDidIt(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	target := &Target{Logger: zap.New(core)}
	target.record(t.Context(), "user locked", zap.String("subject", "u-bob"))
	target.record(AsOperator(t.Context(), "u-ada"), "user locked", zap.String("subject", "u-bob"))
	for i, want := range []map[string]any{
		{"subject": "u-bob", "by": "operator"}, {"subject": "u-bob", "by": "operator", "operator": "u-ada"},
	} {
		if got := logged.All()[i]; got.LoggerName != "audit" || fmt.Sprint(got.ContextMap()) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", got.LoggerName, got.ContextMap(), want)
		}
	}
}
