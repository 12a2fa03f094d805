package console

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// listPeople searches users.
func listPeople(v *visit) (sheet, error) {
	names := []string{"search", "role", "state", "organisation", "group", "provider", "without_factor"}
	query := v.filters(names...)
	query.Set("limit", "50")
	users, answer, err := readAs[[]admin.User](v.context(), &v.operator, admin.Ask{Route: admin.ListUsers, Query: query})
	if err != nil {
		return sheet{}, err
	}
	query.Del("limit")
	list := &pages.Table{
		Head:  heads("console.member.name", "console.member.email", "console.member.role", "console.member.organisation", "console.person.state"),
		Empty: pages.Say("console.people.none"), NextURL: v.next("/people", query, answer.After),
	}
	for _, u := range users {
		list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{
			{link(cmp.Or(u.Name, u.Email, u.ID), to("/people/person", "id", u.ID))}, {text(u.Email)}, {{Phrase: v.role(u.Role)}},
			cells(text(u.Organisation)), stateOf(v, &u),
		}})
	}
	roles := []pages.Choice{{Phrase: pages.Say("console.any")}}
	for _, role := range v.operator.Target.Issuer.Roles.Names() {
		roles = append(roles, pages.Choice{Value: string(role), Phrase: v.role(role), Chosen: query.Get("role") == string(role)})
	}
	states := []pages.Choice{{Phrase: pages.Say("console.any")}}
	for _, state := range store.UserStates() {
		states = append(states, pages.Choice{Value: state, Phrase: pages.Say("console.state." + state), Chosen: query.Get("state") == state})
	}
	search := &pages.ConsoleForm{Action: Base + "/people", Get: true, Submit: pages.Say("console.search"), Fields: []pages.ConsoleField{
		{Name: "search", Label: pages.Say("console.people.search"), Value: query.Get("search"), Kind: "text"},
		{Name: "role", Label: pages.Say("console.member.role"), Kind: "choice", Choices: roles},
		{Name: "state", Label: pages.Say("console.person.state"), Kind: "choice", Choices: states},
		{Name: "group", Label: pages.Say("console.people.group"), Value: query.Get("group"), Kind: "text"},
	}}
	if v.operator.everywhere {
		search.Fields = append(search.Fields, pages.ConsoleField{Name: "organisation", Label: pages.Say("console.member.organisation"), Value: query.Get("organisation"), Kind: "text"})
	}
	search.Fields = append(search.Fields, pages.ConsoleField{
		Name: "without_factor", Label: pages.Say("console.people.without_factor"), Value: "true", Checked: query.Get("without_factor") == "true", Kind: "check",
	})
	return sheet{title: "console.place.people", blocks: []pages.Block{
		{Links: []pages.ConsoleLink{{Phrase: pages.Say("console.people.new"), URL: to("/people/new")}}, Form: search},
		{Title: pages.Say("console.people.found"), Table: list},
	}}, nil
}

// stateOf returns the state of a user in words.
func stateOf(v *visit, u *admin.User) []pages.Cell {
	state := string(cmp.Or(u.Status, store.UserActive))
	tone := ""
	switch {
	case state != string(store.UserActive):
		tone = "bad"
	case !u.HasPassword && !u.External && !u.Service:
		state = string(store.UserInvited)
	}
	list := cells(pages.Cell{Phrase: pages.Say("console.state." + state), Tone: tone})
	if u.Service {
		list = append(list, pages.Cell{Phrase: pages.Say("console.person.service"), Tone: "quiet"})
	}
	if u.Source == "config" {
		list = append(list, pages.Cell{Phrase: pages.Say("console.declared"), Tone: "quiet"})
	}
	return list
}

// personAsked returns the user whom the address names.
func personAsked(v *visit) (admin.User, admin.Answer, error) {
	return readAs[admin.User](v.context(), &v.operator, admin.Ask{Route: admin.ShowUser, IDs: []string{v.query("id")}})
}

// nameOfPerson returns the name of the user whom the address names.
func nameOfPerson(v *visit) (string, error) {
	u, _, err := personAsked(v)
	return nameOf(&u), err
}

// nameOf returns the name of a user, with the address: two people may have one name.
func nameOf(u *admin.User) string {
	if u.Name != "" && u.Email != "" && u.Name != u.Email {
		return u.Name + " (" + u.Email + ")"
	}
	return cmp.Or(u.Email, u.Name, u.ID)
}

// showPerson shows a user: members, factors, sessions and tokens.
func showPerson(v *visit) (sheet, error) {
	u, _, err := personAsked(v)
	if err != nil {
		return sheet{}, err
	}
	s := sheet{title: "console.person.title", about: nameOf(&u), notices: whyInactive(v, &u)}
	s.blocks = append(s.blocks, factsOf(v, &u), actionsOn(v, &u))
	for _, part := range []func(*visit, *admin.User) (pages.Block, error){factorsOf, sessionsOf, personalTokensOf} {
		block, err := part(v, &u)
		if err != nil {
			return sheet{}, err
		}
		if !block.Title.IsEmpty() {
			s.blocks = append(s.blocks, block)
		}
	}
	return s, nil
}

func factsOf(v *visit, u *admin.User) pages.Block {
	facts := []pages.Fact{
		{Name: pages.Say("console.member.id"), Cells: cells(code(u.ID))},
		{Name: pages.Say("console.person.state"), Cells: stateOf(v, u)},
		{Name: pages.Say("console.member.email"), Cells: addressOf(v, u)},
		{Name: pages.Say("console.member.role"), Cells: cells(pages.Cell{Phrase: v.role(u.Role)})},
	}
	if u.RoleUndeclared {
		facts[3].Cells = append(facts[3].Cells, pages.Cell{Phrase: pages.Say("console.person.role_undeclared"), Tone: "bad"})
	}
	for _, fact := range []struct {
		key   string
		cells []pages.Cell
	}{
		{"console.member.organisation", texts(slices.DeleteFunc([]string{u.Organisation}, func(t string) bool { return t == "" }))},
		{"console.member.groups", texts(u.Groups)}, {"console.person.provider_groups", texts(u.ProviderGroups)},
	} {
		if len(fact.cells) > 0 {
			facts = append(facts, pages.Fact{Name: pages.Say(fact.key), Cells: fact.cells})
		}
	}
	for _, i := range u.Identities {
		facts = append(facts, pages.Fact{Name: pages.Say("console.person.account_at", "provider", i.Provider), Cells: cells(code(i.Subject))})
	}
	if !u.CreatedAt.IsZero() {
		facts = append(facts, pages.Fact{Name: pages.Say("console.created"), Cells: cells(pages.Cell{At: u.CreatedAt})})
	}
	return pages.Block{Facts: facts}
}

// addressOf returns the address of a user, and whether it is verified.
func addressOf(v *visit, u *admin.User) []pages.Cell {
	if u.Email == "" {
		return cells(phrase("console.none"))
	}
	verified := pages.Cell{Phrase: pages.Say("console.person.unverified"), Tone: "quiet"}
	if u.EmailVerified {
		verified.Phrase = pages.Say("console.person.verified")
	}
	return cells(text(u.Email), verified)
}

// mayChange reports whether the operator may change a user.
func mayChange(v *visit, u *admin.User) bool {
	return u.Source != "config" && (v.operator.everywhere || !u.Service && v.operator.manages(u.Role))
}

// whyInactive says that a user is disabled or locked, and leads to the page that enables the user.
func whyInactive(v *visit, u *admin.User) []pages.ConsoleNotice {
	if u.Status == store.UserActive {
		return nil
	}
	notice := pages.ConsoleNotice{Phrase: pages.Say("console.inactive." + string(u.Status))}
	if mayChange(v, u) {
		notice.Link = &pages.ConsoleLink{Phrase: pages.Say("console.do.enable"), URL: to("/people/act", "do", "enable", "id", u.ID)}
	}
	return []pages.ConsoleNotice{notice}
}

// whyRefused is whyInactive of the user of that id. It says nothing of an id that the operator finds no user by.
func whyRefused(v *visit, id string) []pages.ConsoleNotice {
	if id == "" {
		return nil
	}
	u, _, err := readAs[admin.User](v.context(), &v.operator, admin.Ask{Route: admin.ShowUser, IDs: []string{id}})
	if err != nil {
		return nil
	}
	return whyInactive(v, &u)
}

// actionsOn returns what the operator can do about a user.
func actionsOn(v *visit, u *admin.User) pages.Block {
	var links []pages.ConsoleLink
	act := func(name string, danger bool) {
		links = append(links, pages.ConsoleLink{Phrase: pages.Say("console.do." + name), URL: to("/people/act", "do", name, "id", u.ID), Danger: danger})
	}
	others := u.ID != v.operator.UserID // the API refuses operators who would lock themselves out
	changeable := mayChange(v, u)
	if changeable {
		links = append(links, pages.ConsoleLink{Phrase: pages.Say("console.person.edit"), URL: to("/people/edit", "id", u.ID)})
	}
	if changeable && others && !u.Service && v.operator.Target.Registry.Links != nil && (v.operator.everywhere || v.operator.mails()) {
		if u.HasPassword {
			act("recover", false)
		} else {
			act("invite", false)
		}
	}
	act("end_sessions", false)
	if changeable && others {
		switch cmp.Or(u.Status, store.UserActive) {
		case store.UserActive:
			act("disable", true)
			act("lock", true)
		default:
			act("enable", false)
		}
		act("remove", true)
	}
	if v.operator.keepsAudit() {
		links = append(links, pages.ConsoleLink{Phrase: pages.Say("console.person.refusals"), URL: to("/gate/refusals", "user", u.ID)})
		links = append(links, pages.ConsoleLink{Phrase: pages.Say("console.person.audit"), URL: to("/audit", "user", u.ID)})
	}
	return pages.Block{Links: links}
}

// factorsOf lists the second factors of a user.
func factorsOf(v *visit, u *admin.User) (b pages.Block, err error) {
	factors, _, err := readAs[[]admin.Factor](v.context(), &v.operator, admin.Ask{Route: admin.ListFactors, IDs: []string{u.ID}})
	if err != nil {
		return b, err
	}
	list := &pages.Table{Head: heads("console.factor.kind", "console.created", "console.last_used", "console.do"), Empty: pages.Say("console.factor.none")}
	for _, f := range factors {
		kind := cells(pages.Cell{Phrase: pages.Say("factor_kind." + string(f.Kind))})
		if f.Name != "" {
			kind = append(cells(text(f.Name)), kind...)
		}
		list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{
			kind, cells(at(f.CreatedAt)), cells(at(f.LastUsedAt)),
			cells(pages.Cell{Phrase: pages.Say("console.do.remove_factor"), URL: to("/people/act", "do", "remove_factor", "id", u.ID, "factor", f.ID)}),
		}})
	}
	b = pages.Block{Title: pages.Say("console.factor.title"), Table: list}
	if len(factors) > 1 {
		b.Links = []pages.ConsoleLink{{Phrase: pages.Say("console.do.remove_factors"), URL: to("/people/act", "do", "remove_factors", "id", u.ID), Danger: true}}
	}
	return b, nil
}

// personalTokensOf lists the personal access tokens of a user, where there are any.
func personalTokensOf(v *visit, u *admin.User) (b pages.Block, err error) {
	if v.operator.Target.PersonalTokens == nil || !v.operator.everywhere {
		return b, nil
	}
	tokens, _, err := readAs[[]admin.PersonalToken](v.context(), &v.operator, admin.Ask{Route: admin.UserPersonalTokens, IDs: []string{u.ID}})
	if err != nil || len(tokens) == 0 {
		return b, err
	}
	list := &pages.Table{Head: heads("console.member.name", "console.member.scopes", "console.expires", "console.last_used", "console.do")}
	for _, t := range tokens {
		list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{
			cells(text(t.Name)), cells(code(t.Scope)), cells(at(t.ExpiresAt)), cells(at(t.LastUsedAt)),
			cells(pages.Cell{Phrase: pages.Say("console.do.remove_token"), URL: to("/people/act", "do", "remove_token", "id", u.ID, "token", t.ID)}),
		}})
	}
	return pages.Block{Title: pages.Say("account.tokens"), Table: list}, nil
}

// sessionsOf lists where a user is signed in.
func sessionsOf(v *visit, u *admin.User) (pages.Block, error) {
	list, err := v.sessions(url.Values{"user": {u.ID}}, func(s *admin.SessionOfAnybody) string {
		return to("/people/act", "do", "end_session", "id", u.ID, "session", s.ID)
	})
	return pages.Block{Title: pages.Say("console.session.title"), Table: list}, err
}

// personActions are the changes of a user that are asked about.
var personActions = map[string]action{
	"disable":        {route: admin.DisableUser, ids: []string{"id"}, back: "/people/person", backWith: []string{"id"}, danger: true},
	"lock":           {route: admin.LockUser, ids: []string{"id"}, back: "/people/person", backWith: []string{"id"}, danger: true},
	"enable":         {route: admin.EnableUser, ids: []string{"id"}, back: "/people/person", backWith: []string{"id"}},
	"remove":         {route: admin.RemoveUser, ids: []string{"id"}, back: "/people", danger: true},
	"remove_factors": {route: admin.RemoveFactors, ids: []string{"id"}, back: "/people/person", backWith: []string{"id"}, danger: true},
	"remove_factor":  {route: admin.RemoveFactor, ids: []string{"id", "factor"}, back: "/people/person", backWith: []string{"id"}, danger: true},
	"remove_token":   {route: admin.RemovePersonalToken, ids: []string{"token"}, belongs: tokenOfPerson, back: "/people/person", backWith: []string{"id"}, danger: true},
	"end_sessions":   {route: admin.EndSessions, query: map[string]string{"user": "id"}, back: "/people/person", backWith: []string{"id"}, danger: true},
	"end_session":    {route: admin.EndSession, ids: []string{"session"}, belongs: sessionOfPerson, back: "/people/person", backWith: []string{"id"}, danger: true},
	"invite": {route: admin.InviteUser, back: "/people/person", backWith: []string{"id"}, show: shownLink, body: func(v *visit, _ url.Values) (any, error) {
		return store.Patch{"user": jsonText(v.query("id"))}, nil
	}},
	"recover": {route: admin.RecoverUser, ids: []string{"id"}, back: "/people/person", backWith: []string{"id"}, show: shownLink, danger: true, asked: func(v *visit) (string, error) {
		_, answer, err := personAsked(v)
		return answer.Version, err
	}, fields: func(v *visit) ([]pages.ConsoleField, error) {
		if !v.operator.mails() || !v.operator.everywhere {
			return nil, nil
		}
		return []pages.ConsoleField{{Name: "mail", Kind: "check", Value: "yes", Label: pages.Say("console.do.recover.mail")}}, nil
	}, body: func(v *visit, values url.Values) (any, error) {
		return map[string]bool{"mail": values.Get("mail") != "" || !v.operator.everywhere}, nil
	}},
}

// tokenOfPerson checks that the personal access token in the address is one of the user there.
func tokenOfPerson(v *visit) error {
	tokens, _, err := readAs[[]admin.PersonalToken](v.context(), &v.operator, admin.Ask{Route: admin.UserPersonalTokens, IDs: []string{v.query("id")}})
	if err == nil && !slices.ContainsFunc(tokens, func(t admin.PersonalToken) bool { return t.ID == v.query("token") }) {
		err = errNoAction
	}
	return err
}

// sessionOfPerson checks that the session in the address is one of the user there.
func sessionOfPerson(v *visit) error {
	u, _, err := personAsked(v)
	if err != nil {
		return err
	}
	owner, err := v.operator.ownerOf(v.context(), v.query("session"))
	if err == nil && (owner == nil || owner.ID != u.ID) {
		err = errNoAction
	}
	return err
}

// shownLink shows a link that is to be handed over. One that was mailed is not shown.
func shownLink(v *visit, a admin.Answer) *sheet {
	made := a.Content.(admin.Link)
	s := &sheet{title: "console.link.title", about: made.Email}
	if made.Mailed {
		s.blocks = []pages.Block{{Words: []pages.Phrase{pages.Say("console.link.mailed", "address", made.Email)}}}
	} else if v.operator.everywhere { // others could become the person
		s.blocks = []pages.Block{{Words: []pages.Phrase{pages.Say("console.link.words")}, Copied: []pages.Copied{{Name: pages.Say("console.link.link"), Text: made.Link}}}}
	}
	s.blocks = append(s.blocks, pages.Block{
		Facts: []pages.Fact{{Name: pages.Say("console.expires"), Cells: cells(at(made.ExpiresAt))}},
		Links: []pages.ConsoleLink{{Phrase: pages.Say("console.person.back"), URL: to("/people/person", "id", made.UserID)}},
	})
	return s
}

// The members of a user that forms have, in their order.
var personMembers = []string{"name", "email", "role", "organisation", "groups", "given_name", "family_name", "preferred_username", "locale", "zoneinfo", "phone_number"}

// fieldsOfPerson returns the fields that the operator may change. A new person has an address.
func fieldsOfPerson(v *visit, u *store.User) (fields []pages.ConsoleField, names []string, err error) {
	names = personMembers
	if !v.operator.everywhere {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return !slices.Contains(ownMembers, name) && (name != "email" || u.ID != "")
		})
	}
	fields = v.memberFields(u, names...)
	for i := range fields {
		switch fields[i].Name {
		case "role":
			fields[i].Kind, fields[i].Choices = "choice", v.roleChoices(u.Role)
		case "organisation":
			if fields[i].Kind, fields[i].Choices, err = organisationChoices(v, u.Organisation); err != nil {
				return nil, nil, err
			}
		case "email":
			fields[i].Required = !u.Service
		}
	}
	return fields, names, nil
}

// newPerson invites a person, or adds one.
func newPerson(v *visit) (*form, error) {
	fresh := &store.User{Role: v.operator.Target.Issuer.Roles.Default()}
	fields, names, err := fieldsOfPerson(v, fresh)
	if err != nil {
		return nil, err
	}
	f := &form{sheet: sheet{title: "console.people.new"}, cancel: to("/people"), fields: fields, submit: pages.Say("console.people.invite")}
	key := "console.people.new.words"
	links := v.operator.Target.Registry.Links
	switch {
	case links == nil:
		key, f.submit = "console.people.new.external", pages.Say("console.people.add")
	case links.Mails():
		key = "console.people.new.mails"
	}
	f.blocks = []pages.Block{{Words: []pages.Phrase{pages.Say(key)}}}
	f.send = func(values url.Values) (result, error) {
		p, err := patchOf(new(store.User), values, names...)
		if err != nil {
			return result{}, err
		}
		if links == nil {
			u, _, err := readAs[admin.User](v.context(), &v.operator, admin.Ask{Route: admin.AddUser, Body: p})
			return result{url: to("/people/person", "id", u.ID), done: true}, err
		}
		address := strings.TrimSpace(values.Get("email"))
		if !strings.Contains(address, "@") {
			return result{}, &fieldFault{"email", pages.Say("notice.no_address")}
		}
		delete(p, "email")
		p["user"] = jsonText(address)
		answer, err := v.ask(admin.Ask{Route: admin.InviteUser, Body: p})
		switch {
		case errors.Is(err, admin.ErrInvitedExists):
			return result{}, &fieldFault{"email", pages.Say("console.people.exists")}
		case err != nil:
			return result{}, err
		}
		return result{sheet: shownLink(v, answer)}, nil
	}
	return f, nil
}

// editPerson changes the members of a user.
func editPerson(v *visit) (*form, error) {
	view, answer, err := personAsked(v)
	if err != nil {
		return nil, err
	}
	u := view.User
	u.Role, u.Organisation = view.Role, view.Organisation
	fields, names, err := fieldsOfPerson(v, &u)
	if err != nil {
		return nil, err
	}
	if v.operator.everywhere && u.Email != "" {
		fields = append(fields, pages.ConsoleField{Name: "email_verified", Kind: "check", Value: "yes", Checked: view.EmailVerified, Label: pages.Say("console.member.email_verified")})
	}
	if len(view.Identities) > 0 && v.operator.everywhere {
		fields = append(fields, pages.ConsoleField{Name: "identities", Kind: "choice", Label: pages.Say("console.person.identities"), Choices: []pages.Choice{
			{Phrase: pages.Say("console.person.identities.unsaid"), Chosen: true}, {Value: "keep", Phrase: pages.Say("console.person.identities.keep")},
			{Value: "unlink", Phrase: pages.Say("console.person.identities.unlink")},
		}})
	}
	fields = append(fields, versionField(answer.Version))
	return &form{
		sheet: sheet{title: "console.person.edit", about: nameOf(&view), blocks: []pages.Block{{Words: []pages.Phrase{pages.Say("console.person.edit.words")}}}}, cancel: to("/people/person", "id", view.ID), fields: fields, submit: pages.Say("console.save"),
		send: func(values url.Values) (result, error) {
			p, err := patchOf(&u, values, names...)
			if err != nil {
				return result{}, err
			}
			if is := values.Get("email_verified") != ""; v.operator.everywhere && is != view.EmailVerified {
				p["email_verified"] = []byte("false")
				if is {
					p["email_verified"] = []byte("true")
				}
			}
			if choice := values.Get("identities"); choice != "" {
				p["identities"] = jsonText(choice)
			}
			if len(p) > 0 {
				if _, err := v.ask(admin.Ask{Route: admin.UpdateUser, IDs: []string{view.ID}, Body: p, Version: values.Get("version")}); err != nil {
					return result{}, err
				}
			}
			return result{url: to("/people/person", "id", view.ID), done: true}, nil
		},
	}, nil
}
