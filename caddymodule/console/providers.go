package console

import (
	"maps"
	"net/url"
	"slices"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// listProviders lists where people sign in elsewhere, whose tokens are taken, and the mail server.
func listProviders(v *visit) (sheet, error) {
	found, _, err := readAs[[]admin.Provider](v.context(), &v.operator, admin.Ask{Route: admin.ListProviders})
	if err != nil {
		return sheet{}, err
	}
	status, _, err := readAs[admin.NodeStatus](v.context(), &v.operator, admin.Ask{Route: admin.ShowStatus})
	if err != nil {
		return sheet{}, err
	}
	list := &pages.Table{
		Head:  heads("console.member.name", "console.provider.state", "console.provider.success", "console.provider.failure", "console.do"),
		Empty: pages.Say("console.provider.none"),
	}
	for i := range found {
		list.Rows = append(list.Rows, providerRow(&found[i], slices.Contains(status.UntriedProviders, found[i].Name)))
	}
	s := sheet{title: "console.place.providers", blocks: []pages.Block{{Title: pages.Say("console.provider.title"), Words: []pages.Phrase{pages.Say("console.provider.words")}, Table: list}}}
	if len(status.Trust) > 0 {
		s.blocks = append(s.blocks, trustBlock(v, &status))
	}
	s.blocks = append(s.blocks, mailBlock(&status))
	return s, nil
}

// providerRow is a provider or a directory in the list.
func providerRow(p *admin.Provider, untried bool) pages.Row {
	name := cells(link(p.Title, to("/people", "provider", p.Name)), code(p.Name))
	if p.Default {
		name = append(name, pages.Cell{Phrase: pages.Say("console.provider.default"), Tone: "quiet"})
	}
	more := []pages.Fact{{Name: pages.Say("console.provider.kind"), Cells: cells(code(p.Kind))}, {Name: pages.Say("console.provider.address"), Cells: cells(code(p.URL))}}
	for _, uri := range p.RedirectURIs {
		more = append(more, pages.Fact{Name: pages.Say("console.provider.redirect"), Cells: cells(code(uri))})
	}
	return pages.Row{Cells: [][]pages.Cell{
		name, stateCells(p.Trouble, untried), cells(at(p.LastSuccess)), cells(at(p.LastFailure)),
		cells(pages.Cell{Phrase: pages.Say("console.provider.test"), URL: to("/providers/test", "name", p.Name)}),
	}, More: more}
}

// stateCells says how something does that is elsewhere: with its last error, while it fails.
func stateCells(trouble string, untried bool) []pages.Cell {
	switch {
	case trouble != "":
		return cells(pages.Cell{Phrase: pages.Say("console.provider.bad"), Tone: "bad"}, text(trouble))
	case untried:
		return cells(pages.Cell{Phrase: pages.Say("console.provider.untried"), Tone: "quiet"})
	}
	return cells(pages.Cell{Phrase: pages.Say("console.provider.good"), Tone: "good"})
}

// trustBlock lists the issuers whose tokens are taken, with the keys that cannot be used.
func trustBlock(v *visit, status *admin.NodeStatus) pages.Block {
	list := &pages.Table{Head: heads("console.member.name", "console.provider.address", "console.provider.state", "console.provider.keys")}
	for _, name := range slices.Sorted(maps.Keys(status.Trust)) {
		address := ""
		for _, other := range v.operator.Target.Trusted {
			if other.Name == name {
				address = other.URL
			}
		}
		report := status.TrustKeys[name]
		var keys []pages.Cell
		if report.Failed != "" {
			keys = append(keys, pages.Cell{Text: report.Failed, Tone: "bad"})
		}
		for _, key := range report.Keys {
			keys = append(keys, code(key.ID))
			if key.Unusable != "" {
				keys = append(keys, text(key.Unusable))
			}
		}
		list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{cells(code(name)), cells(text(address)), stateCells(status.Trust[name], false), keys}})
	}
	return pages.Block{Title: pages.Say("console.provider.trusted"), Words: []pages.Phrase{pages.Say("console.provider.trusted.words")}, Table: list}
}

// mailBlock is the state of the mail server, or says what to write in the Caddyfile so that there is one.
func mailBlock(status *admin.NodeStatus) pages.Block {
	block := pages.Block{Title: pages.Say("console.mail.title")}
	if status.Own == nil || status.Own.Mail == nil {
		block.Words = []pages.Phrase{pages.Say("console.mail.none")}
		return block
	}
	m := status.Own.Mail
	block.Facts = []pages.Fact{
		{Name: pages.Say("console.provider.state"), Cells: stateCells(m.Trouble, m.LastSuccess.IsZero())},
		{Name: pages.Say("console.provider.success"), Cells: cells(at(m.LastSuccess))},
		{Name: pages.Say("console.mail.waiting"), Cells: cells(number(status.Own.Stored["mails"]))},
	}
	if !m.DownSince.IsZero() {
		block.Facts = append(block.Facts, pages.Fact{Name: pages.Say("console.provider.since"), Cells: cells(at(m.DownSince))})
	}
	block.Links = []pages.ConsoleLink{{Phrase: pages.Say("console.mail.test"), URL: to("/providers/mail")}}
	return block
}

// stepTones are the tones of the results of a test.
var stepTones = map[signin.Result]string{signin.Passed: "good", signin.Failed: "bad"}

// testProvider tests a provider step by step. It changes nothing.
func testProvider(v *visit) (*form, error) {
	found, _, err := readAs[[]admin.Provider](v.context(), &v.operator, admin.Ask{Route: admin.ListProviders})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found, func(p admin.Provider) bool { return p.Name == v.query("name") })
	if i < 0 {
		return nil, errNoAction
	}
	p := found[i]
	s := sheet{title: "console.provider.test", about: p.Title, blocks: []pages.Block{{Words: []pages.Phrase{pages.Say("console.provider.test.words")}}}}
	f := &form{sheet: s, submit: pages.Say("console.provider.test"), cancel: to("/providers"), reads: true}
	if len(p.RedirectURIs) == 0 { // a directory
		f.fields = []pages.ConsoleField{{Name: "login", Kind: "text", Label: pages.Say("console.provider.login"), Help: pages.Say("console.provider.login.help")}}
	}
	f.send = func(values url.Values) (result, error) {
		steps, _, err := readAs[[]signin.Step](v.context(), &v.operator, admin.Ask{
			Route: admin.TestProvider, IDs: []string{p.Name}, Body: admin.ProviderTest{Login: values.Get("login")},
		})
		if err != nil {
			return result{}, err
		}
		list := &pages.Table{Head: heads("console.provider.step", "console.provider.result", "console.provider.found")}
		for _, step := range steps {
			said := pages.Cell{Phrase: pages.Say("console.step." + string(step.Result)), Tone: stepTones[step.Result]}
			list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{cells(code(step.Name)), cells(said), cells(text(step.Text))}})
		}
		return result{sheet: &sheet{title: "console.provider.test", about: p.Title, blocks: []pages.Block{{Table: list, Links: backTo("/providers", "console.place.providers")}}}}, nil
	}
	return f, nil
}

// testMail sends a mail at once.
func testMail(v *visit) (*form, error) {
	f := &form{
		sheet:  sheet{title: "console.mail.test", blocks: []pages.Block{{Words: []pages.Phrase{pages.Say("console.mail.test.words")}}}},
		submit: pages.Say("console.mail.send"), cancel: to("/providers"),
		fields: []pages.ConsoleField{{Name: "to", Kind: "text", Label: pages.Say("console.member.email"), Value: v.operator.user.Email, Required: true}},
	}
	f.send = func(values url.Values) (result, error) {
		sent, _, err := readAs[admin.MailTest](v.context(), &v.operator, admin.Ask{Route: admin.TestMail, Body: admin.MailRequest{To: values.Get("to")}})
		if err != nil {
			return result{}, err
		}
		facts := []pages.Fact{{Name: pages.Say("console.mail.server"), Cells: cells(code(sent.Server))}}
		if sent.Error != "" {
			facts = append(facts, pages.Fact{Name: pages.Say("console.mail.refused"), Cells: cells(pages.Cell{Text: sent.Error, Tone: "bad"})})
		} else {
			facts = append(facts, pages.Fact{Name: pages.Say("console.mail.taken"), Cells: cells(pages.Cell{Text: sent.Answer, Tone: "good"})})
		}
		return result{sheet: &sheet{title: "console.mail.test", about: values.Get("to"), blocks: []pages.Block{{Facts: facts, Links: backTo("/providers", "console.place.providers")}}}}, nil
	}
	return f, nil
}

// backTo is a link to a page.
func backTo(path, key string) []pages.ConsoleLink {
	return []pages.ConsoleLink{{Phrase: pages.Say(key), URL: to(path)}}
}
