package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// auditOperations are not audited themselves.
var auditOperations = map[string]operation{"GET /oauth/audit": onAudit(listAudit), "GET /oauth/audit/export": onAudit(exportAudit)}

// The events on a page, unless the request says otherwise, and at most.
const (
	auditPage    = 100
	maxAuditPage = 1000
)

var errNoAudit = errors.New("no events of the audit log are kept: add `audit { keep 30d }` to the oauth block")

// onAudit is an operation that needs an audit log in the store.
func onAudit(op operation) operation {
	return func(t *Target, r *http.Request) (int, any, error) {
		if t.Audit.Keep == 0 {
			return 0, nil, errNoAudit
		}
		return op(t, r)
	}
}

// AuditEvents is a page of the audit log, newest first.
type AuditEvents struct {
	Events []AuditEvent `json:"events"`
	// Next is the value of `before` for the next page; empty: this is the last one. A page can be short, or empty, before the last.
	Next string `json:"next,omitzero"`
}

// AuditEvent is a line of the audit log.
type AuditEvent struct {
	ID   string    `json:"event_id"` // lines have an id of their own
	Time time.Time `json:"time"`
	// Line are the members of the line, with its level and its msg.
	Line jsontext.Value `json:",embed"`
}

// viewOfEvent shows an event. Of a line that was changed in the database it shows what is left.
func viewOfEvent(e store.AuditEvent) AuditEvent {
	line := jsontext.Value(e.Data)
	if !line.IsValid() || line.Kind() != '{' {
		line, _ = json.Marshal(map[string]any{"msg": e.Event, "subject": e.UserID, "damaged": true}, jsontext.AllowInvalidUTF8(true)) // never fails
	}
	return AuditEvent{ID: formatKey(e.Key), Time: e.Key.At, Line: line}
}

// formatKey formats the key of an event; the zero key is empty.
func formatKey(k store.AuditKey) string {
	if k.IsZero() {
		return ""
	}
	return strconv.FormatInt(k.At.UnixMicro(), 36) + "." + strconv.FormatInt(k.ID, 36)
}

// parseKey is the inverse of formatKey.
func parseKey(text string) (store.AuditKey, error) {
	if text == "" {
		return store.AuditKey{}, nil
	}
	before, after, _ := strings.Cut(text, ".")
	at, err := strconv.ParseInt(before, 36, 64)
	id, wrong := strconv.ParseInt(after, 36, 64)
	if err != nil || wrong != nil {
		return store.AuditKey{}, fmt.Errorf("before %.64q is not the `next` of a page", text)
	}
	return store.AuditKey{At: time.UnixMicro(at).UTC(), ID: id}, nil
}

// auditQuery is what a request asks of the audit log.
type auditQuery struct {
	filter store.AuditFilter
	before store.AuditKey
	limit  int // 0: not said
}

// auditQuery reads the query of a request.
func (t *Target) auditQuery(r *http.Request) (auditQuery, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return auditQuery{}, store.InvalidInput(errors.New("the query is malformed"))
	}
	q, err := readAuditQuery(query, t.Node.StoreTime())
	if err != nil {
		return q, store.InvalidInput(err)
	}
	q.filter.UserID, err = t.auditUser(r.Context(), q.filter.UserID)
	return q, err
}

// readAuditQuery reads the members of a query. An unknown one is an error: a misspelled filter would show everything.
func readAuditQuery(query url.Values, now time.Time) (q auditQuery, err error) {
	for name, values := range query {
		value := auditlog.Bounded(values[0])
		switch name {
		case "user":
			q.filter.UserID = value
		case "client":
			q.filter.ClientID = value
		case "event":
			q.filter.Event = value
		case "reason":
			q.filter.Reason = value
		case "host":
			q.filter.Host = value
		case "since":
			q.filter.Since, err = auditTime(name, value, now)
		case "until":
			q.filter.Until, err = auditTime(name, value, now)
		case "before":
			q.before, err = parseKey(value)
		case "limit":
			if q.limit, err = strconv.Atoi(value); err != nil || q.limit < 1 {
				err = fmt.Errorf("limit %.64q: use a number above zero", value)
			}
		default:
			err = fmt.Errorf("%.64q: use before, client, event, host, limit, reason, since, until or user", name)
		}
		if err == nil && len(values) > 1 {
			err = fmt.Errorf("%s is there twice", name)
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

// auditTime reads a time: how long ago it is, a day (UTC), or a time of RFC 3339.
func auditTime(name, text string, now time.Time) (time.Time, error) {
	if ago, err := caddy.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s %.64q: write it as 24h, 7d, 2006-01-02 or 2006-01-02T15:04:05Z", name, text)
}

// auditUser returns the id of a user who is named by the id or by the e-mail address. Somebody unknown may have been removed, whose events
// are still there: only an address of nobody is an error.
func (t *Target) auditUser(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	user, err := t.Registry.People.UserNamed(ctx, name)
	if err == nil {
		return user.ID, nil
	}
	if _, isNone := store.CanonicalEmail(name); errors.Is(err, store.ErrNotFound) && isNone != nil {
		return name, nil
	}
	return "", err
}

func listAudit(t *Target, r *http.Request) (int, any, error) {
	q, err := t.auditQuery(r)
	if err != nil {
		return 0, nil, err
	}
	if q.limit == 0 {
		q.limit = auditPage
	}
	if q.limit > maxAuditPage {
		return 0, nil, store.InvalidInput(fmt.Errorf("limit %d: use at most %d", q.limit, maxAuditPage))
	}
	events, next, err := t.Node.Store().Audit.AuditEvents(r.Context(), q.filter, q.before, q.limit)
	page := AuditEvents{Events: make([]AuditEvent, 0, len(events)), Next: formatKey(next)}
	for _, e := range events {
		page.Events = append(page.Events, viewOfEvent(e))
	}
	return http.StatusOK, page, err
}

// exportAudit writes events as JSON lines, newest first, page by page: each page is a step of its own, and whatever their number, only one
// is in memory.
func exportAudit(t *Target, r *http.Request) (int, any, error) {
	q, err := t.auditQuery(r)
	if err != nil {
		return 0, nil, err
	}
	left := q.limit
	size := func() int {
		if q.limit == 0 {
			return maxAuditPage
		}
		return min(left, maxAuditPage)
	}
	page := func() ([]store.AuditEvent, error) {
		events, next, err := t.Node.Store().Audit.AuditEvents(sqlstore.WithTimeout(r.Context()), q.filter, q.before, size())
		q.before = next
		if left -= len(events); q.limit > 0 && left == 0 {
			q.before = store.AuditKey{}
		}
		return events, err
	}
	events, err := page()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, written{"application/jsonl", func(w io.Writer) error {
		for {
			for _, e := range events {
				if err := json.MarshalWrite(w, viewOfEvent(e)); err != nil {
					return err
				}
				if _, err := w.Write([]byte("\n")); err != nil {
					return err
				}
			}
			if q.before.IsZero() {
				return nil
			}
			if !t.Node.Life.Enter() {
				return errClosing
			}
			events, err = page()
			t.Node.Life.Leave()
			if err != nil {
				return err
			}
		}
	}}, nil
}
