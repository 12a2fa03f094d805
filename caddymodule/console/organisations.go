package console

import (
	"net/url"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// mostChoices is how many organisations a form offers. With more of them, the id is typed.
const mostChoices = 200

// organisationChoices returns the kind of the field for an organisation, with its choices.
func organisationChoices(v *visit, present string) (kind string, choices []pages.Choice, err error) {
	list, _, err := readAs[[]admin.Organisation](v.context(), &v.operator, admin.Ask{Route: admin.ListOrganisations})
	if err != nil || len(list) > mostChoices {
		return "text", nil, err
	}
	choices = []pages.Choice{{Phrase: pages.Say("console.none"), Chosen: present == ""}}
	for _, o := range list {
		choices = append(choices, pages.Choice{Value: o.ID, Phrase: pages.Phrase{Text: o.Name}, Chosen: o.ID == present})
	}
	return "choice", withPresent(choices, present), nil
}

// listOrganisations lists the organisations, and the roles that people can have.
func listOrganisations(v *visit) (sheet, error) {
	found, _, err := readAs[[]admin.Organisation](v.context(), &v.operator, admin.Ask{Route: admin.ListOrganisations})
	if err != nil {
		return sheet{}, err
	}
	list := &pages.Table{Head: heads("console.member.name", "console.member.id", "console.created", "console.do"), Empty: pages.Say("console.organisation.none")}
	for _, o := range found {
		var created []pages.Cell
		if !o.CreatedAt.IsZero() {
			created = cells(at(o.CreatedAt))
		}
		do := cells(pages.Cell{Phrase: pages.Say("console.declared"), Tone: "quiet"})
		if o.Source != "config" {
			do = cells(pages.Cell{Phrase: pages.Say("console.do.remove_organisation"), URL: to("/organisations/act", "do", "remove_organisation", "id", o.ID)})
		}
		list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{
			cells(link(o.Name, to("/people", "organisation", o.ID))), cells(code(o.ID)), created, do,
		}})
	}
	roles := &pages.Table{Head: heads("console.member.role", "console.member.id", "console.role.manages")}
	catalogue := v.operator.Target.Issuer.Roles
	for _, name := range catalogue.Names() {
		var managed []pages.Cell
		for _, other := range catalogue.Names() {
			if catalogue.Manages(name, other) {
				managed = append(managed, code(string(other)))
			}
		}
		roles.Rows = append(roles.Rows, pages.Row{Cells: [][]pages.Cell{
			cells(pages.Cell{Phrase: v.role(name), URL: to("/people", "role", string(name))}), cells(code(string(name))), managed,
		}})
	}
	return sheet{title: "console.place.organisations", blocks: []pages.Block{
		{Table: list, Links: []pages.ConsoleLink{{Phrase: pages.Say("console.organisation.new"), URL: to("/organisations/new")}}},
		{Title: pages.Say("console.role.title"), Words: []pages.Phrase{pages.Say("console.role.words")}, Table: roles},
		{Title: pages.Say("console.group.title"), Links: []pages.ConsoleLink{{Phrase: pages.Say("console.group.change"), URL: to("/organisations/groups")}}},
	}}, nil
}

// newOrganisation registers an organisation.
func newOrganisation(v *visit) (*form, error) {
	f := &form{sheet: sheet{title: "console.organisation.new"}, submit: pages.Say("console.save"), fields: []pages.ConsoleField{
		{Name: "id", Kind: "text", Label: pages.Say("console.member.id"), Help: pages.Say("console.organisation.id"), Required: true},
		{Name: "name", Kind: "text", Label: pages.Say("console.member.name")},
	}}
	f.send = func(values url.Values) (result, error) {
		body := store.Patch{"id": jsonText(values.Get("id"))}
		if name := values.Get("name"); name != "" {
			body["name"] = jsonText(name)
		}
		_, err := v.ask(admin.Ask{Route: admin.AddOrganisation, Body: body})
		return result{url: to("/organisations"), done: true}, err
	}
	return f, nil
}

// changeGroups adds a group to many users, or removes it.
func changeGroups(v *visit) (*form, error) {
	f := &form{sheet: sheet{title: "console.group.change", blocks: []pages.Block{{Words: []pages.Phrase{pages.Say("console.group.words")}}}},
		submit: pages.Say("console.save"), fields: []pages.ConsoleField{
			{Name: "group", Kind: "text", Label: pages.Say("console.people.group"), Required: true},
			{Name: "users", Kind: "lines", Label: pages.Say("console.group.users")},
			{Name: "change", Kind: "choice", Label: pages.Say("console.group.what"), Choices: []pages.Choice{
				{Value: "add", Phrase: pages.Say("console.group.add"), Chosen: true}, {Value: "remove", Phrase: pages.Say("console.group.remove")},
			}},
		}}
	f.send = func(values url.Values) (result, error) {
		change := admin.GroupChange{Group: values.Get("group"), Add: linesOf(values.Get("users"))}
		if values.Get("change") == "remove" {
			change.Add, change.Remove = nil, change.Add
		}
		changed, _, err := readAs[[]admin.Imported](v.context(), &v.operator, admin.Ask{Route: admin.ChangeGroups, Body: change})
		if err != nil {
			return result{}, err
		}
		list := &pages.Table{Head: heads("console.session.who", "console.group.result")}
		for _, user := range changed {
			cell := pages.Cell{Phrase: pages.Say("console.group." + string(user.Result))}
			if user.Result == admin.Refused {
				cell = pages.Cell{Text: user.Reason, Tone: "bad"}
			}
			list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{cells(link(user.User, to("/people/person", "id", user.User))), cells(cell)}})
		}
		return result{sheet: &sheet{title: "console.group.change", blocks: []pages.Block{{Table: list}}}}, nil
	}
	return f, nil
}

// organisationActions are the changes of organisations that are asked about.
var organisationActions = map[string]action{
	"remove_organisation": {route: admin.RemoveOrganisation, ids: []string{"id"}, back: "/organisations", danger: true},
}
