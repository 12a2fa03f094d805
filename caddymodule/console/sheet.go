package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// visit is a request of an operator.
type visit struct {
	parts    *Parts
	w        http.ResponseWriter
	r        *http.Request
	operator operator
	place    string
	// names are those of people and applications by their ids, once nameAll has looked them up.
	names map[string]string
}

// sheet is what a page of the console says.
type sheet struct {
	// title is the key of the h1, and about the name of what the page is about, or "".
	title, about string
	notices      []pages.ConsoleNotice
	blocks       []pages.Block
}

// context returns the context of the request.
func (v *visit) context() context.Context { return v.r.Context() }

// query returns a value of the address, without the spaces around it.
func (v *visit) query(name string) string { return strings.TrimSpace(v.r.URL.Query().Get(name)) }

// filters returns those values of the address that are filters of a list, and where its page begins.
func (v *visit) filters(names ...string) url.Values {
	query := make(url.Values)
	for _, name := range append(names, "after") {
		if value := v.query(name); value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// ask asks the API.
func (v *visit) ask(a admin.Ask) (admin.Answer, error) { return v.operator.ask(v.context(), a) }

// show answers with a page of the console.
func (v *visit) show(status int, s sheet) error {
	page := pages.Console{
		Title: s.title, About: s.about, Notices: s.notices, Blocks: s.blocks, Places: v.places(), SignOutURL: oauth.SignOutPath,
		Operator: pages.Viewer{User: v.operator.user.Name, Email: v.operator.user.Email},
	}
	if page.Operator.User == "" {
		page.Operator.User = v.operator.user.ID
	}
	if v.query("done") == "yes" && v.r.Method != http.MethodPost {
		page.Notices = append([]pages.ConsoleNotice{{Phrase: pages.Say("console.done")}}, page.Notices...)
	}
	return v.write(status, page)
}

// write writes a page.
func (v *visit) write(status int, page pages.Page) error {
	language := v.parts.Pages.Language("", v.r.Header["Accept-Language"])
	body, err := v.parts.Pages.Render(language, page)
	if err != nil {
		return oauth.AsError(err)
	}
	answers.SetPageHeaders(v.w.Header(), string(language), v.parts.Pages.PolicyOf(page))
	v.w.WriteHeader(status)
	_, _ = v.w.Write(body) // html/template has escaped it; a failure means that the browser has disconnected
	return nil
}

// places returns the sections that the operator sees.
func (v *visit) places() (links []pages.ConsoleLink) {
	for _, p := range places {
		if v.operator.everywhere || routes[p.path].inOrganisation {
			links = append(links, pages.ConsoleLink{Phrase: pages.Say("console.place." + p.name), URL: Base + p.path, Current: p.name == v.place})
		}
	}
	return links
}

// to returns the address of a page, with names and values of its query.
func to(path string, query ...string) string {
	values := make(url.Values)
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			values.Set(query[i], query[i+1])
		}
	}
	if len(values) == 0 {
		return Base + path
	}
	return Base + path + "?" + values.Encode()
}

// next returns the address of the next page of a list; empty: there is none.
func (v *visit) next(path string, query url.Values, after string) string {
	if after == "" {
		return ""
	}
	return Base + path + "?" + with(query, "after", after).Encode()
}

// text, code, phrase and link are cells.
func text(t string) pages.Cell { return pages.Cell{Text: t} }

func code(t string) pages.Cell { return pages.Cell{Text: t, Code: true} }

func phrase(key string, values ...string) pages.Cell {
	return pages.Cell{Phrase: pages.Say(key, values...)}
}

func link(t, address string) pages.Cell { return pages.Cell{Text: t, URL: address} }

// at is a time, or says that there was none.
func at(moment time.Time) pages.Cell {
	if moment.IsZero() {
		return pages.Cell{Phrase: pages.Say("console.never"), Tone: "quiet"}
	}
	return pages.Cell{At: moment}
}

// texts returns a cell for each text.
func texts(list []string) (cells []pages.Cell) {
	for _, t := range list {
		cells = append(cells, text(t))
	}
	return cells
}

// cells is a shorthand for a list.
func cells(list ...pages.Cell) []pages.Cell { return list }

// heads returns the head of a table.
func heads(keys ...string) (head []pages.Phrase) {
	for _, key := range keys {
		head = append(head, pages.Say(key))
	}
	return head
}
