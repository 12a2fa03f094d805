package console

import (
	"cmp"
	"net/url"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// sessions returns a page of the sessions that a query selects, with a link to end each.
func (v *visit) sessions(query url.Values, end func(*admin.SessionOfAnybody) string) (*pages.Table, error) {
	query.Set("limit", "50")
	found, answer, err := readAs[[]admin.SessionOfAnybody](v.context(), &v.operator, admin.Ask{Route: admin.ListSessions, Query: query})
	if err != nil {
		return nil, err
	}
	query.Del("limit")
	list := &pages.Table{
		Head:  heads("console.session.who", "console.session.what", "console.session.since", "console.last_used", "console.do"),
		Empty: pages.Say("console.session.none"), NextURL: v.next("/sessions", query, answer.After),
	}
	for _, s := range found {
		what := cells(pages.Cell{Phrase: pages.Say(sessionKinds[s.Kind])})
		if about := cmp.Or(s.Host, s.Client, s.Browser); about != "" {
			what = append(what, text(about))
		}
		list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{
			cells(link(cmp.Or(s.Email, s.User), to("/people/person", "id", s.User))), what, cells(at(s.CreatedAt)), cells(at(s.LastSeen)),
			cells(pages.Cell{Phrase: pages.Say("console.do.end_session"), URL: end(&s)}),
		}})
	}
	return list, nil
}

var sessionKinds = map[admin.SessionKind]string{
	admin.AtBrowser: "console.session.browser", admin.IdleBrowser: "console.session.idle", admin.AtHost: "console.session.host",
	admin.OfApplication: "console.session.application",
}

// listSessions lists where people are signed in, and what applications were granted.
func listSessions(v *visit) (sheet, error) {
	query := v.filters("user", "client", "host")
	s := sheet{title: "console.place.sessions"}
	search := &pages.ConsoleForm{Action: Base + "/sessions", Get: true, Submit: pages.Say("console.search"), Fields: []pages.ConsoleField{
		{Name: "user", Kind: "text", Label: pages.Say("console.session.user"), Value: query.Get("user")},
	}}
	if v.operator.everywhere {
		search.Fields = append(search.Fields,
			pages.ConsoleField{Name: "client", Kind: "text", Label: pages.Say("console.session.client"), Value: query.Get("client")},
			pages.ConsoleField{Name: "host", Kind: "text", Label: pages.Say("console.session.at_host"), Value: query.Get("host")})
	}
	s.blocks = []pages.Block{{Form: search}}
	if !v.operator.everywhere && query.Get("user") == "" {
		return s, nil
	}
	list, err := v.sessions(query, func(s *admin.SessionOfAnybody) string {
		return to("/sessions/act", "do", "end_session", "session", s.ID, "user", query.Get("user"), "client", query.Get("client"), "host", query.Get("host"))
	})
	if err != nil {
		return s, err
	}
	block := pages.Block{Title: pages.Say("console.session.title"), Table: list}
	switch {
	case query.Get("user") != "":
		block.Links = []pages.ConsoleLink{{Phrase: pages.Say("console.do.end_sessions"), URL: to("/sessions/act", "do", "end_sessions", "user", query.Get("user")), Danger: true}}
	case query.Get("client") != "":
		block.Links = []pages.ConsoleLink{{Phrase: pages.Say("console.do.end_client_sessions"), URL: to("/sessions/act", "do", "end_client_sessions", "client", query.Get("client")), Danger: true}}
	}
	s.blocks = append(s.blocks, block)
	return s, nil
}

// sessionActions are the changes of sessions that are asked about.
var sessionActions = map[string]action{
	"end_session":         {route: admin.EndSession, ids: []string{"session"}, back: "/sessions", backWith: []string{"user", "client", "host"}, danger: true},
	"end_sessions":        {route: admin.EndSessions, query: map[string]string{"user": "user"}, back: "/sessions", backWith: []string{"user"}, danger: true},
	"end_client_sessions": {route: admin.EndSessions, query: map[string]string{"client": "client"}, back: "/sessions", backWith: []string{"client"}, danger: true},
}

// whoseSessions returns whose sessions an action ends.
func whoseSessions(v *visit) (string, error) {
	id := v.query("user")
	switch v.query("do") {
	case "end_client_sessions":
		c, _, err := readAs[admin.Client](v.context(), &v.operator, admin.Ask{Route: admin.ShowClient, IDs: []string{v.query("client")}})
		return titleOf(&c), err
	case "end_session":
		owner, err := v.operator.ownerOf(v.context(), v.query("session"))
		if err == nil && owner == nil {
			err = errNoAction
		}
		if err != nil {
			return "", err
		}
		id = owner.ID
	}
	u, _, err := readAs[admin.User](v.context(), &v.operator, admin.Ask{Route: admin.ShowUser, IDs: []string{id}})
	return nameOf(&u), err
}
