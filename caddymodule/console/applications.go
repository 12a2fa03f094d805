package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// originKeys are the texts of how an application was registered, by the API's filter.
var originKeys = []struct {
	filter string
	origin store.ClientOrigin
	key    string
}{
	{"operator", store.FromOperator, "console.application.origin.operator"}, {"metadata", store.FromMetadata, "console.application.origin.metadata"},
	{"registration", store.FromRegistration, "console.application.origin.registration"},
}

// listApplications searches clients.
func listApplications(v *visit) (sheet, error) {
	query := v.filters("search", "origin", "state")
	query.Set("limit", "50")
	clients, answer, err := readAs[[]admin.Client](v.context(), &v.operator, admin.Ask{Route: admin.ListClients, Query: query})
	if err != nil {
		return sheet{}, err
	}
	query.Del("limit")
	list := &pages.Table{
		Head:  heads("console.member.name", "console.member.id", "console.application.type", "console.person.state", "console.last_used"),
		Empty: pages.Say("console.application.none"), NextURL: v.next("/applications", query, answer.After),
	}
	for _, c := range clients {
		var used []pages.Cell // it is noted of those alone that made themselves known
		if c.Origin != store.FromOperator {
			used = cells(at(c.LastUsedAt))
		}
		list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{
			cells(link(cmp.Or(c.Name, c.ID), to("/applications/application", "id", c.ID))), cells(code(c.ID)),
			cells(phrase("console.application.type." + string(c.Type))), stateOfApplication(&c), used,
		}})
	}
	origins, states := []pages.Choice{{Phrase: pages.Say("console.any")}}, []pages.Choice{{Phrase: pages.Say("console.any")}}
	for _, o := range originKeys {
		origins = append(origins, pages.Choice{Value: o.filter, Phrase: pages.Say(o.key), Chosen: query.Get("origin") == o.filter})
	}
	for _, state := range []string{string(store.ClientEnabled), string(store.ClientDisabled)} {
		states = append(states, pages.Choice{Value: state, Phrase: pages.Say("console.application.state." + state), Chosen: query.Get("state") == state})
	}
	search := &pages.ConsoleForm{Action: Base + "/applications", Get: true, Submit: pages.Say("console.search"), Fields: []pages.ConsoleField{
		{Name: "search", Label: pages.Say("console.application.search"), Value: query.Get("search"), Kind: "text"},
		{Name: "origin", Label: pages.Say("console.application.origin"), Kind: "choice", Choices: origins},
		{Name: "state", Label: pages.Say("console.person.state"), Kind: "choice", Choices: states},
	}}
	return sheet{title: "console.place.applications", blocks: []pages.Block{
		{Links: []pages.ConsoleLink{{Phrase: pages.Say("console.application.new"), URL: to("/applications/new")}}, Form: search},
		{Title: pages.Say("console.people.found"), Table: list},
	}}, nil
}

// stateOfApplication returns the state of a client in words, and where it comes from.
func stateOfApplication(c *admin.Client) []pages.Cell {
	list := cells(phrase("console.application.state.enabled"))
	if c.Disabled {
		list = cells(pages.Cell{Phrase: pages.Say("console.application.state.disabled"), Tone: "bad"})
	}
	if c.Source == "config" {
		list = append(list, pages.Cell{Phrase: pages.Say("console.declared"), Tone: "quiet"})
	}
	for _, o := range originKeys[1:] {
		if c.Origin == o.origin {
			list = append(list, pages.Cell{Phrase: pages.Say(o.key), Tone: "quiet"})
		}
	}
	return list
}

// applicationAsked returns the client that the address names.
func applicationAsked(v *visit) (admin.Client, admin.Answer, error) {
	return readAs[admin.Client](v.context(), &v.operator, admin.Ask{Route: admin.ShowClient, IDs: []string{v.query("id")}})
}

// nameOfApplication returns the name of the client that the address names, with its id: two may have one name.
func nameOfApplication(v *visit) (string, error) {
	c, _, err := applicationAsked(v)
	return titleOf(&c), err
}

func titleOf(c *admin.Client) string {
	if c.Name == "" || c.Name == c.ID {
		return c.ID
	}
	return c.Name + " (" + c.ID + ")"
}

// showApplication shows a client: members, secrets, and what the application has to know.
func showApplication(v *visit) (sheet, error) {
	c, _, err := applicationAsked(v)
	if err != nil {
		return sheet{}, err
	}
	facts := []pages.Fact{
		{Name: pages.Say("console.member.id"), Cells: cells(code(c.ID))},
		{Name: pages.Say("console.application.type"), Cells: cells(phrase("console.application.type." + string(c.Type)))},
		{Name: pages.Say("console.person.state"), Cells: stateOfApplication(&c)},
	}
	for _, f := range v.memberFields(&c.Client, applicationMembers...) {
		switch {
		case f.Name == "name", f.Kind != "check" && f.Value == "", f.Kind == "check" && !f.Checked:
			continue
		case f.Kind == "check":
			facts = append(facts, pages.Fact{Name: f.Label, Cells: cells(phrase("console.yes"))})
			continue
		}
		var values []pages.Cell
		for _, line := range linesOf(f.Value) {
			values = append(values, code(line))
		}
		facts = append(facts, pages.Fact{Name: f.Label, Cells: values})
	}
	if c.AuthMethod != "" {
		facts = append(facts, pages.Fact{Name: pages.Say("console.application.authentication"), Cells: cells(code(c.AuthMethod))})
	}
	if !c.CreatedAt.IsZero() {
		facts = append(facts, pages.Fact{Name: pages.Say("console.created"), Cells: cells(at(c.CreatedAt))})
	}
	if c.Origin != store.FromOperator {
		facts = append(facts, pages.Fact{Name: pages.Say("console.last_used"), Cells: cells(at(c.LastUsedAt))})
	}
	s := sheet{title: "console.application.title", about: titleOf(&c), blocks: []pages.Block{{Facts: facts}, actionsOnApplication(v, &c)}}
	if len(c.Secrets) > 0 {
		secrets := &pages.Table{Head: heads("console.created", "console.expires")}
		for _, secret := range c.Secrets {
			created := cells(phrase("console.declared"))
			if !secret.CreatedAt.IsZero() {
				created = cells(at(secret.CreatedAt))
			}
			secrets.Rows = append(secrets.Rows, pages.Row{Cells: [][]pages.Cell{created, cells(at(secret.ExpiresAt))}})
		}
		s.blocks = append(s.blocks, pages.Block{Title: pages.Say("console.application.secrets"), Table: secrets})
	}
	s.blocks = append(s.blocks, settingsOf(&c, ""))
	return s, nil
}

// actionsOnApplication returns what the operator can do about a client.
func actionsOnApplication(v *visit, c *admin.Client) pages.Block {
	var links []pages.ConsoleLink
	act := func(name string, danger bool) {
		links = append(links, pages.ConsoleLink{Phrase: pages.Say("console.do." + name), URL: to("/applications/act", "do", name, "id", c.ID), Danger: danger})
	}
	links = append(links, pages.ConsoleLink{Phrase: pages.Say("console.application.users"), URL: to("/sessions", "client", c.ID)})
	if v.operator.keepsAudit() {
		links = append(links, pages.ConsoleLink{Phrase: pages.Say("console.person.audit"), URL: to("/audit", "client", c.ID)})
	}
	if c.Source == "config" {
		return pages.Block{Links: links}
	}
	if c.Origin != store.FromMetadata { // it describes itself
		links = append([]pages.ConsoleLink{{Phrase: pages.Say("console.person.edit"), URL: to("/applications/edit", "id", c.ID)}}, links...)
	}
	if !c.IsPublic() && !c.SignsAssertions() {
		act("rotate_secret", false)
	}
	if c.Disabled {
		act("enable_client", false)
	} else {
		act("disable_client", true)
	}
	act("remove_client", true)
	return pages.Block{Links: links}
}

// overlaps are how long the old secrets of a client stay good beside a new one.
var overlaps = []string{"1h", "24h", "168h", "720h", "0s"}

// applicationActions are the changes of clients that are asked about.
var applicationActions = map[string]action{
	"disable_client": {route: admin.DisableClient, ids: []string{"id"}, back: "/applications/application", backWith: []string{"id"}, danger: true},
	"enable_client":  {route: admin.EnableClient, ids: []string{"id"}, back: "/applications/application", backWith: []string{"id"}},
	"remove_client":  {route: admin.RemoveClient, ids: []string{"id"}, back: "/applications", danger: true},
	"rotate_secret": {route: admin.RotateSecret, ids: []string{"id"}, back: "/applications/application", backWith: []string{"id"},
		asked: func(v *visit) (string, error) {
			_, answer, err := applicationAsked(v)
			return answer.Version, err
		},
		fields: func(*visit) ([]pages.ConsoleField, error) {
			field := pages.ConsoleField{Name: "overlap", Kind: "choice", Label: pages.Say("console.application.overlap")}
			for _, o := range overlaps {
				field.Choices = append(field.Choices, pages.Choice{Value: o, Phrase: pages.Say("console.application.overlap." + o), Chosen: o == "24h"})
			}
			return []pages.ConsoleField{field}, nil
		},
		body: func(_ *visit, values url.Values) (any, error) {
			if !slices.Contains(overlaps, values.Get("overlap")) { // none would end the old ones now
				return nil, &fieldFault{"overlap", pages.Say("console.application.overlap.choose")}
			}
			return map[string]string{"overlap": values.Get("overlap")}, nil
		},
		show: func(v *visit, a admin.Answer) *sheet {
			rotated := a.Content.(admin.RotatedSecret)
			return &sheet{title: "console.application.secret", about: rotated.ID, blocks: []pages.Block{{
				Words:  []pages.Phrase{pages.Say("console.application.secret.words")},
				Copied: []pages.Copied{{Name: pages.Say("console.application.secret"), Text: rotated.Secret}},
				Links:  []pages.ConsoleLink{{Phrase: pages.Say("console.application.back"), URL: to("/applications/application", "id", v.query("id"))}},
			}}}
		}},
}

// applicationMembers are the members of clients that are shown and edited.
var applicationMembers = []string{
	"name", "redirect_uris", "post_logout_redirect_uris", "backchannel_logout_uri", "cors_origins", "grants", "scopes", "first_party", "pkce",
	"id_token_signed_response_alg", "jwks_uri", "jwks", "may_exchange", "tokens",
}

// confidentialMembers are those that public clients cannot have.
var confidentialMembers = []string{"pkce", "jwks_uri", "jwks", "may_exchange"}

// editApplication changes the members of a client.
func editApplication(v *visit) (*form, error) {
	c, answer, err := applicationAsked(v)
	switch {
	case err != nil:
		return nil, err
	case c.Source == "config":
		return nil, &admin.Refusal{Status: http.StatusConflict, Err: store.ErrDeclared}
	}
	names := slices.Clone(applicationMembers)
	if c.IsPublic() {
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(confidentialMembers, name) })
	}
	fields := v.memberFields(&c.Client, names...)
	for i := range fields {
		switch fields[i].Name {
		case "name":
			fields[i].Required = true
		case "pkce":
			fields[i].Kind, fields[i].Choices = "choice", choicesOf(c.PKCE, "", oauth.PKCERequired, oauth.PKCEOptional)
		case "id_token_signed_response_alg":
			fields[i].Kind, fields[i].Choices = "choice", choicesOf(string(c.IDTokenAlgorithm), "", string(oauth.RS256), string(oauth.ES256), string(oauth.EdDSA))
		}
	}
	fields = append(fields, versionField(answer.Version))
	return &form{
		sheet: sheet{title: "console.application.edit", about: titleOf(&c)}, cancel: to("/applications/application", "id", c.ID), fields: fields, submit: pages.Say("console.save"),
		send: func(values url.Values) (result, error) {
			p, err := patchOf(&c.Client, values, names...)
			if err != nil {
				return result{}, err
			}
			if len(p) > 0 {
				if _, err := v.ask(admin.Ask{Route: admin.UpdateClient, IDs: []string{c.ID}, Body: p, Version: values.Get("version")}); err != nil {
					return result{}, faultOf(err, c.Client, p, names)
				}
			}
			return result{url: to("/applications/application", "id", c.ID), done: true}, nil
		},
	}, nil
}

// choicesOf returns values as choices. The empty one is the issuer's choice.
func choicesOf(present string, values ...string) (choices []pages.Choice) {
	for _, value := range values {
		shown := pages.Phrase{Text: value}
		if value == "" {
			shown = pages.Say("console.application.default")
		}
		choices = append(choices, pages.Choice{Value: value, Phrase: shown, Chosen: value == present})
	}
	return choices
}

// faultOf returns the error of a refused change of a client as one of the field whose value alone is wrong, if there is one.
func faultOf(refused error, c store.Client, p store.Patch, names []string) error {
	var r *admin.Refusal
	if !errors.As(refused, &r) || r.Status != http.StatusBadRequest {
		return refused
	}
	for _, name := range names {
		if err := p.Only(name).Apply(&c); err != nil {
			return &fieldFault{name, pages.Phrase{Text: strings.TrimPrefix(err.Error(), name+": ")}}
		}
	}
	for _, name := range names {
		err := c.ValidateMember(name)
		switch name {
		case "redirect_uris":
			err = errors.Join(err, c.CheckPlainHTTP())
		case "jwks", "jwks_uri":
			err = c.ClientKeys.Validate()
		case "tokens":
			err = c.Lifetimes.Validate()
		}
		if err != nil && p.Has(name) {
			return &fieldFault{name, pages.Phrase{Text: err.Error()}}
		}
	}
	return refused
}
