package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
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
var auditOperations = map[Route]operation{
	ListAudit: shows[[]AuditEvent]("Lists the kept events of the audit log, newest first", bare(onAudit(listAudit))).by(reflect.TypeFor[auditQuery]()),
	ShowAudit: shows[AuditEvent]("Shows a kept event of the audit log", bare(onAudit(showAudit))),
	CountAudit: shows[[]AuditCount]("Counts the kept events of the audit log by the hour, the oldest first", bare(onAudit(countAudit))).
		by(reflect.TypeFor[auditCountQuery]()),
	ExportAudit: writes[AuditEvent]("Writes the kept events of the audit log, one a line, newest first", bare(onAudit(exportAudit))).
		by(reflect.TypeFor[auditExport]()),
}

// jsonLines is the media type of texts with a JSON value a line.
const jsonLines = "application/jsonl"

var errNoAudit = errors.New("no events of the audit log are kept: add `keep 30d` in an `audit` block of the oauth block")

// onAudit is an operation that needs an audit log in the store.
func onAudit(op answering) answering {
	return func(t *Target, r *http.Request) (int, any, error) {
		if t.Audit.Keep == 0 {
			return 0, nil, errNoAudit
		}
		return op(t, r)
	}
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

// formatKey formats the key of an event.
func formatKey(k store.AuditKey) string {
	return strconv.FormatInt(k.At.UnixMicro(), 36) + "." + strconv.FormatInt(k.ID, 36)
}

// parseKey reads what formatKey has written.
func parseKey(text string) (k store.AuditKey, err error) {
	at, id, _ := strings.Cut(text, ".")
	micro, err := strconv.ParseInt(at, 36, 64)
	if err == nil {
		k.At = time.UnixMicro(micro).UTC()
		k.ID, err = strconv.ParseInt(id, 36, 64)
	}
	return k, err
}

// auditFilter are the members of a query of the audit log.
type auditFilter struct {
	User   string `json:"user" help:"Of this user, by the id or the e-mail address"`
	Client string `json:"client" help:"Of this client"`
	Event  string `json:"event" help:"With this message, as: sign-in refused"`
	Reason string `json:"reason" help:"With this reason, as token_missing"`
	Host   string `json:"host" help:"Of requests to this host"`
	Since  string `json:"since" help:"Not before: how long ago, as 24h, or a time, as 2006-01-02 or 2006-01-02T15:04:05Z"`
	Until  string `json:"until" help:"Before: written as since"`
}

// auditQuery asks for a page.
type auditQuery struct {
	auditFilter
	pageQuery
}

// auditExport asks for all pages.
type auditExport struct {
	auditFilter
	Limit int `json:"limit" help:"Greatest number of events (default: all)"`
}

// filterOf returns what the store of t is asked for.
func filterOf(ctx context.Context, t *Target, q auditFilter) (store.AuditFilter, error) {
	f := store.AuditFilter{
		ClientID: auditlog.Bounded(q.Client), Event: auditlog.Bounded(q.Event), Reason: auditlog.Bounded(q.Reason), Host: auditlog.Bounded(q.Host),
	}
	now := t.Node.StoreTime()
	var err error
	if f.Since, err = auditTime("since", q.Since, now); err != nil {
		return f, err
	}
	if f.Until, err = auditTime("until", q.Until, now); err != nil {
		return f, err
	}
	f.UserID, err = auditUser(ctx, t, auditlog.Bounded(q.User))
	return f, err
}

// auditTime reads a time: how long ago it is, a day (UTC), or a time of RFC 3339. An empty text is the zero time.
func auditTime(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := caddy.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, store.InvalidInput(fmt.Errorf("%s %.64q: write it as 24h, 7d, 2006-01-02 or 2006-01-02T15:04:05Z", name, text))
}

// auditUser returns the id of a user who is named by the id or by the e-mail address. The events of a removed user are still there, so an
// unknown id is no error. An address that no user has is one.
func auditUser(ctx context.Context, t *Target, name string) (string, error) {
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
	asked, err := queryOf[auditQuery](r)
	if err != nil {
		return 0, nil, err
	}
	var before store.AuditKey
	var limit int
	if err := asked.read(&before, &limit); err != nil {
		return 0, nil, err
	}
	filter, err := filterOf(r.Context(), t, asked.auditFilter)
	if err != nil {
		return 0, nil, err
	}
	events, following, err := t.Node.Store().Audit.AuditEvents(r.Context(), filter, before, limit)
	status, views, err := listed(events, err, viewOfEvent)
	return status, page{views, next(r, following)}, err
}

// showAudit shows one event: the newest one before the next key.
func showAudit(t *Target, r *http.Request) (int, any, error) {
	key, err := parseKey(r.PathValue("id"))
	if err != nil || key.ID <= 0 || key.ID == math.MaxInt64 {
		return 0, nil, store.ErrNotFound
	}
	next := store.AuditKey{At: key.At, ID: key.ID + 1}
	events, _, err := t.Node.Store().Audit.AuditEvents(r.Context(), store.AuditFilter{Since: key.At}, next, 1)
	switch {
	case err != nil:
		return 0, nil, err
	case len(events) == 0 || events[0].Key.ID != key.ID:
		return 0, nil, store.ErrNotFound
	}
	return http.StatusOK, viewOfEvent(events[0]), nil
}

// auditCountQuery asks for numbers of events.
type auditCountQuery struct {
	Event string `json:"event" help:"With this message; it is needed"`
	Hours int    `json:"hours" help:"Of how many hours, the one that has begun included, 1 to 168 (default: 24)"`
}

// AuditCount is how many events there were in the hour from a time on.
type AuditCount struct {
	Hour   time.Time `json:"hour"`
	Events int       `json:"events"`
	// AtLeast: there may be more. Of each hour, the first events are counted.
	AtLeast bool `json:"at_least,omitzero"`
}

// mostCounted bounds how many events of an hour are counted.
const mostCounted, maxHours = 1000, 168

func countAudit(t *Target, r *http.Request) (int, any, error) {
	asked, err := queryOf[auditCountQuery](r)
	hours := cmp.Or(asked.Hours, 24)
	switch {
	case err != nil:
		return 0, nil, err
	case asked.Event == "":
		return 0, nil, store.InvalidInput(errors.New("event: say which events are counted"))
	case hours > maxHours:
		return 0, nil, store.InvalidInput(fmt.Errorf("hours: use 1 to %d", maxHours))
	}
	first := t.Node.StoreTime().UTC().Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour)
	counted, err := t.Node.Store().Audit.CountAuditEvents(r.Context(), auditlog.Bounded(asked.Event), first, time.Hour, hours, mostCounted)
	if err != nil {
		return 0, nil, err
	}
	counts := make([]AuditCount, len(counted))
	for i, n := range counted {
		counts[i] = AuditCount{first.Add(time.Duration(i) * time.Hour), n, n == mostCounted}
	}
	return http.StatusOK, counts, nil
}

// exportAudit writes events as JSON lines, newest first, page by page: each page is a step of its own, and whatever their number, only one
// is in memory.
func exportAudit(t *Target, r *http.Request) (int, any, error) {
	asked, err := queryOf[auditExport](r)
	if err != nil {
		return 0, nil, err
	}
	filter, err := filterOf(r.Context(), t, asked.auditFilter)
	if err != nil {
		return 0, nil, err
	}
	left, before := asked.Limit, store.AuditKey{}
	read := func() ([]store.AuditEvent, error) {
		size := store.MaxPage
		if asked.Limit > 0 {
			size = min(left, size)
		}
		events, following, err := t.Node.Store().Audit.AuditEvents(sqlstore.WithTimeout(r.Context()), filter, before, size)
		before = following
		if left -= len(events); asked.Limit > 0 && left == 0 {
			before = store.AuditKey{}
		}
		return events, err
	}
	events, err := read()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, written{jsonLines, func(w io.Writer) error {
		for {
			for _, e := range events {
				if err := json.MarshalWrite(w, viewOfEvent(e)); err != nil {
					return err
				}
				if _, err := w.Write([]byte("\n")); err != nil {
					return err
				}
			}
			if before.IsZero() {
				return nil
			}
			if !t.Node.Life.Enter() {
				return errClosing
			}
			events, err = read()
			t.Node.Life.Leave()
			if err != nil {
				return err
			}
		}
	}}, nil
}
