package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// auditFilters are the filters of the audit log, in the order of their fields. Operators of one organisation have only those of a person.
var auditFilters = []string{"user", "client", "event", "reason", "host", "since", "until"}

// auditLine is an event of the audit log by its members.
type auditLine struct {
	ID   string
	Time time.Time
	// rest are the members that no method has returned yet, as texts.
	rest map[string]string
}

// lineOf reads an event. Members that are no texts are shown as JSON.
func lineOf(e *admin.AuditEvent) auditLine {
	l := auditLine{ID: e.ID, Time: e.Time, rest: make(map[string]string)}
	var members map[string]jsontext.Value
	_ = json.Unmarshal(e.Line, &members, jsontext.AllowInvalidUTF8(true)) // the API has made it an object
	for name, value := range members {
		text := ""
		if value.Kind() != '"' || json.Unmarshal(value, &text) != nil {
			text = value.String()
		}
		l.rest[name] = text
	}
	return l
}

// take returns a member, which is then shown.
func (l *auditLine) take(name string) string {
	text := l.rest[name]
	delete(l.rest, name)
	return text
}

// more returns the members that are not shown yet.
func (l *auditLine) more() (facts []pages.Fact) {
	delete(l.rest, "level")
	for _, name := range slices.Sorted(maps.Keys(l.rest)) {
		facts = append(facts, pages.Fact{Name: pages.Phrase{Text: name}, Cells: cells(code(l.rest[name]))})
	}
	exactly := l.Time.UTC().Format(time.RFC3339Nano)
	return append(facts, pages.Fact{Name: pages.Say("console.audit.time"), Cells: cells(code(exactly))})
}

// listAudit lists the kept events of the audit log, newest first.
func listAudit(v *visit) (sheet, error) {
	s := sheet{title: "console.place.audit"}
	if !v.operator.keepsAudit() {
		s.blocks = []pages.Block{nothingKept()}
		return s, nil
	}
	query := v.filters(auditFilters...)
	s.blocks = []pages.Block{{Form: auditForm(v, "/audit", auditFilters, query)}}
	if !v.operator.everywhere && query.Get("user") == "" {
		s.blocks[0].Words = []pages.Phrase{pages.Say("console.audit.of_person")}
		return s, nil
	}
	events, next, err := eventsOf(v, "/audit", query, 50)
	if err != nil {
		return s, err
	}
	list := &pages.Table{
		Head:  heads("console.audit.when", "console.audit.event", "console.session.who", "console.audit.where", "console.audit.by"),
		Empty: pages.Say("console.audit.none"), NextURL: next,
	}
	if err := nameAll(v, events); err != nil {
		return s, err
	}
	for i := range events {
		list.Rows = append(list.Rows, auditRow(v, &events[i]))
	}
	query.Del("after")
	export := pages.ConsoleLink{Phrase: pages.Say("console.audit.export"), URL: Base + "/audit/export?" + query.Encode()}
	s.blocks = append(s.blocks, pages.Block{Title: pages.Say("console.audit.events"), Table: list, Links: []pages.ConsoleLink{export}})
	return s, nil
}

// nothingKept says what to write in the Caddyfile so that events are kept.
func nothingKept() pages.Block {
	return pages.Block{
		Words:  []pages.Phrase{pages.Say("console.audit.off")},
		Copied: []pages.Copied{{Name: pages.Say("console.audit.off.line"), Text: "audit {\n\tkeep 30d\n}"}},
	}
}

// auditForm is the search of a list of events.
func auditForm(v *visit, path string, names []string, query url.Values) *pages.ConsoleForm {
	f := &pages.ConsoleForm{Action: Base + path, Get: true, Submit: pages.Say("console.search")}
	for _, name := range names {
		field := pages.ConsoleField{Name: name, Kind: "text", Label: pages.Say("console.audit.filter." + name), Value: query.Get(name)}
		if help := field.Label.Key + ".help"; v.has(help) {
			field.Help = pages.Say(help)
		}
		f.Fields = append(f.Fields, field)
	}
	return f
}

// eventsOf returns a page of events, and the address of the next one.
func eventsOf(v *visit, path string, query url.Values, limit int) ([]admin.AuditEvent, string, error) {
	asked := with(query, "limit", fmt.Sprint(limit))
	events, answer, err := readAs[[]admin.AuditEvent](v.context(), &v.operator, admin.Ask{Route: admin.ListAudit, Query: asked})
	return events, v.next(path, query, answer.After), err
}

// auditRow is an event in the list.
func auditRow(v *visit, e *admin.AuditEvent) pages.Row {
	l := lineOf(e)
	what := cells(text(l.take("msg")))
	if l.rest["reason"] != "" {
		what = append(what, reasonOf(&l))
	}
	return pages.Row{Cells: [][]pages.Cell{cells(pages.Cell{At: l.Time}), what, whoOf(v, &l), whereOf(v, &l), byOf(v, &l)}, More: l.more()}
}

// reasonOf returns the reason of an event, with a link to the page that explains it.
func reasonOf(l *auditLine) pages.Cell {
	reason := l.take("reason")
	cell := pages.Cell{Text: reason, Code: true, URL: to("/gate/why", "id", l.ID)}
	if _, is := explanations[reason]; is {
		_, cell.Phrase = explanationOf(reason)
	}
	return cell
}

// whoOf returns whom an event is about: a person, or what was typed in as one.
func whoOf(v *visit, l *auditLine) []pages.Cell {
	subject, account := l.take("subject"), l.take("account")
	if subject == "" && account == "" {
		return nil
	}
	if subject == "" {
		return cells(text(account))
	}
	return linkTo(v, l, cmp.Or(account, subject), "/people/person", subject)
}

// whereOf returns the application and the address of an event.
func whereOf(v *visit, l *auditLine) (where []pages.Cell) {
	switch client := l.take("client_id"); client {
	case "":
	case store.BuiltInClientID: // of the issuer's own pages
		where = append(where, text(client))
	default:
		where = linkTo(v, l, client, "/applications/application", client)
	}
	if place := l.take("host") + l.take("path"); place != "" {
		where = append(where, text(place))
	}
	return where
}

// byOf returns who has caused an event other than the person whom it is about.
func byOf(v *visit, l *auditLine) []pages.Cell {
	by, operator, admin := l.take("by"), l.take("operator"), l.take("admin")
	switch {
	case operator != "" || admin != "":
		who := cmp.Or(operator, admin)
		return linkTo(v, l, who, "/people/person", who)
	case by == "operator":
		return cells(phrase("console.audit.by_admin"))
	case by != "":
		return cells(text(by))
	}
	return nil
}

// nameAll looks up the names of the people and applications of some events, in one step.
func nameAll(v *visit, events []admin.AuditEvent) (err error) {
	var ids []string
	for i := range events {
		l := lineOf(&events[i])
		for _, member := range []string{"subject", "client_id", "operator", "admin"} {
			if id := l.rest[member]; id != "" {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	v.names, err = v.operator.names(v.context(), slices.Compact(ids))
	return err
}

// linkTo returns the name of a thing, and the text by which an event names it. The first leads to the page of the thing, if the operator may see
// that page. Things of other issuers have neither: their ids may be those of ours.
func linkTo(v *visit, l *auditLine, t, path, id string) []pages.Cell {
	if l.rest["trust"] != "" {
		return cells(text(t))
	}
	name := v.names[id]
	first := text(cmp.Or(name, t))
	if found, is := routes[path]; is && (v.operator.everywhere || found.inOrganisation) {
		first.URL = to(path, "id", id)
	}
	if first.Text == t {
		return cells(first)
	}
	return cells(first, pages.Cell{Text: t, Tone: "quiet"})
}

// exportAudit answers with the kept events as JSON lines.
func exportAudit(v *visit) error {
	query := v.filters(auditFilters...)
	answer, err := v.ask(admin.Ask{Route: admin.ExportAudit, Query: query})
	if err != nil {
		return err
	}
	return download(v, "audit-"+v.operator.Target.Node.StoreTime().UTC().Format(time.DateOnly)+".jsonl", answer)
}

// download answers with a long answer as a file. One that breaks off ends without its last chunk, so that a part is not
// taken for the whole.
func download(v *visit, name string, a admin.Answer) error {
	v.w.Header().Set("Content-Type", "application/jsonl")
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	if v.r.Method == http.MethodHead {
		return nil
	}
	if err := a.Write(v.w); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}
