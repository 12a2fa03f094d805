package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// explainToken explains a token. It comes in the content of a POST, and no page repeats it.
func explainToken(v *visit) (*form, error) {
	return &form{
		sheet: sheet{title: "console.place.tokens", blocks: []pages.Block{
			{Links: []pages.ConsoleLink{{Phrase: pages.Say("console.token.revoke"), URL: to("/tokens/revoke")}}},
			{Title: pages.Say("console.token.explain"), Words: []pages.Phrase{pages.Say("console.token.explain.words")}},
		}},
		reads: true, submit: pages.Say("console.token.explain"), fields: []pages.ConsoleField{
			{Name: "token", Kind: "password", Label: pages.Say("console.token.token"), Required: true},
			{Name: "audience", Kind: "text", Label: pages.Say("console.token.audience"), Help: pages.Say("console.token.audience.help")},
		},
		send: func(values url.Values) (result, error) {
			if values.Get("token") == "" {
				return result{}, &fieldFault{"token", pages.Say("console.token.missing")}
			}
			asked := map[string]any{"token": values.Get("token")}
			if audience := values.Get("audience"); audience != "" {
				asked["audience"] = []string{audience}
			}
			x, _, err := readAs[admin.Explanation](v.context(), &v.operator, admin.Ask{Route: admin.ExplainToken, Body: asked})
			return result{sheet: explained(v, &x)}, err
		},
	}, nil
}

// explained shows the checks of a token.
func explained(v *visit, x *admin.Explanation) *sheet {
	verdict := pages.ConsoleNotice{Phrase: pages.Say("console.token.refused"), Failed: true}
	switch {
	case x.Accepted:
		verdict = pages.ConsoleNotice{Phrase: pages.Say("console.token.accepted")}
	case x.Undecided:
		verdict = pages.ConsoleNotice{Phrase: pages.Say("console.token.undecided")}
	}
	checks := &pages.Table{Head: heads("console.token.check", "console.token.outcome", "console.token.note")}
	for _, f := range x.Findings {
		promise := text(f.Promise)
		if key := "console.check." + f.Check; v.has(key) {
			promise = phrase(key)
		}
		outcome := pages.Cell{Phrase: pages.Say("console.token.not_reached"), Tone: "quiet"}
		switch f.Outcome {
		case token.CheckPassed:
			outcome = pages.Cell{Phrase: pages.Say("console.token.passed"), Tone: "good"}
		case token.CheckFailed:
			outcome = pages.Cell{Phrase: pages.Say("console.token.failed"), Tone: "bad"}
		}
		var notes []pages.Cell
		if f.Reason != "" {
			notes = append(notes, code(f.Reason))
		}
		if f.Note != "" {
			notes = append(notes, text(f.Note))
		}
		checks.Rows = append(checks.Rows, pages.Row{Cells: [][]pages.Cell{cells(promise), cells(outcome), notes}})
	}
	s := &sheet{title: "console.token.title", notices: []pages.ConsoleNotice{verdict}, blocks: []pages.Block{{Table: checks}}}
	if len(x.Trust) == 0 && x.Subject != x.ClientID {
		s.notices = append(s.notices, whyRefused(v, x.Subject)...)
	}
	facts, revoke := factsOfToken(x)
	s.blocks = append(s.blocks, pages.Block{Title: pages.Say("console.token.about"), Facts: facts, Links: append(revoke, pages.ConsoleLink{
		Phrase: pages.Say("console.token.another"), URL: to("/tokens"),
	})})
	return s
}

// factsOfToken returns what a token says, and links to what ends it.
func factsOfToken(x *admin.Explanation) (facts []pages.Fact, revoke []pages.ConsoleLink) {
	person := func(id string) pages.Cell {
		if id == x.ClientID { // it acts for itself
			return code(id)
		}
		return link(id, to("/people/person", "id", id))
	}
	for _, f := range []struct {
		key, value, ends string
		cell             pages.Cell
	}{
		{"console.token.kind", x.What, "", text(x.What)}, {"console.session.who", x.Subject, "revoke_user", person(x.Subject)},
		{"console.token.actor", x.Actor, "", person(x.Actor)},
		{"console.session.application", x.ClientID, "revoke_client", link(x.ClientID, to("/applications/application", "id", x.ClientID))},
		{"console.member.scopes", x.Scope, "", code(x.Scope)}, {"console.token.resource", x.Resource, "", code(x.Resource)},
		{"console.token.jti", x.ID, "revoke_token", code(x.ID)}, {"console.token.family", x.Family, "revoke_family", code(x.Family)},
		{"console.token.key", x.KeyID, "", code(x.KeyID)},
	} {
		if f.value == "" {
			continue
		}
		facts = append(facts, pages.Fact{Name: pages.Say(f.key), Cells: cells(f.cell)})
		if f.ends != "" && (f.ends != "revoke_user" || x.Subject != x.ClientID) {
			revoke = append(revoke, pages.ConsoleLink{Phrase: pages.Say("console.do." + f.ends), URL: to("/tokens/act", "do", f.ends, "id", f.value), Danger: true})
		}
	}
	if !x.IssuedAt.IsZero() {
		facts = append(facts, pages.Fact{Name: pages.Say("console.created"), Cells: cells(at(x.IssuedAt))})
	}
	if !x.ExpiresAt.IsZero() {
		facts = append(facts, pages.Fact{Name: pages.Say("console.expires"), Cells: cells(at(x.ExpiresAt))})
	}
	return facts, revoke
}

// revocations are the names of tokenActions, in the order in which they are shown.
var revocations = []string{"revoke_token", "revoke_family", "revoke_user", "revoke_client"}

// revokeTokens leads to the page that revokes what an id names. The id comes in the content of a POST, because it may be a token by mistake,
// which no address may have.
func revokeTokens(*visit) (*form, error) {
	f := &form{sheet: sheet{title: "console.token.revoke"}, reads: true, submit: pages.Say("console.token.continue"), cancel: to("/tokens")}
	f.fields = []pages.ConsoleField{
		{Name: "do", Kind: "choice", Label: pages.Say("console.token.what")},
		{Name: "id", Kind: "text", Label: pages.Say("console.member.id"), Required: true},
	}
	for _, name := range revocations {
		f.fields[0].Choices = append(f.fields[0].Choices, pages.Choice{Value: name, Phrase: pages.Say("console.do." + name)})
	}
	f.send = func(values url.Values) (result, error) {
		do, id := values.Get("do"), strings.TrimSpace(values.Get("id"))
		switch {
		case strings.Count(id, ".") == 2 && strings.HasPrefix(id, "ey") || requests.ShowsPersonalToken(id): // the one that a JWT begins with is {"
			f.fields[1].Value = ""
			return result{}, &fieldFault{"id", pages.Say("console.token.no_token")}
		case !slices.Contains(revocations, do) || id == "":
			return result{}, &fieldFault{"id", pages.Say("console.token.no_id")}
		}
		return result{url: to("/tokens/act", "do", do, "id", id)}, nil
	}
	return f, nil
}

// tokenActions revoke tokens by the id in the address.
var tokenActions = map[string]action{
	"revoke_token": revokes("jti"), "revoke_family": revokes("family"), "revoke_user": revokes("user"), "revoke_client": revokes("client"),
}

// revokes is the action that revokes what a member of the API's request names.
func revokes(member string) action {
	return action{route: admin.Revoke, back: "/tokens", danger: true, body: func(v *visit, _ url.Values) (any, error) {
		return map[string]string{member: v.query("id")}, nil
	}}
}
