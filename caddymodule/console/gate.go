package console

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// verdictTones are the tones of the verdicts on routes.
var verdictTones = map[string]string{coverage.Protected: "good", coverage.Conditional: "bad", coverage.Open: "bad", coverage.Unreached: "quiet"}

// listCoverage lists what protects each route, with likely mistakes.
func listCoverage(v *visit) (sheet, error) {
	found, _, err := readAs[[]coverage.Route](v.context(), &v.operator, admin.Ask{Route: admin.ShowRoutes})
	if err != nil {
		return sheet{}, err
	}
	warnings, _, err := readAs[[]string](v.context(), &v.operator, admin.Ask{Route: admin.ShowWarnings})
	if err != nil {
		return sheet{}, err
	}
	list := &pages.Table{Head: heads("console.gate.route", "console.gate.upstream", "console.gate.verdict", "console.gate.needs"), Empty: pages.Say("console.gate.no_routes")}
	for i := range found {
		list.Rows = append(list.Rows, routeRow(&found[i]))
	}
	s := sheet{title: "console.place.gate"}
	s.blocks = []pages.Block{{Links: []pages.ConsoleLink{{Phrase: pages.Say("console.refusals.title"), URL: to("/gate/refusals")}}}}
	if len(warnings) > 0 {
		said := &pages.Table{Head: heads("console.gate.warning")}
		for _, warning := range warnings {
			said.Rows = append(said.Rows, pages.Row{Cells: [][]pages.Cell{cells(text(warning))}})
		}
		s.blocks = append(s.blocks, pages.Block{Title: pages.Say("console.gate.warnings"), Table: said})
	}
	s.blocks = append(s.blocks, pages.Block{Title: pages.Say("console.gate.routes"), Words: []pages.Phrase{pages.Say("console.gate.words")}, Table: list})
	return s, nil
}

// routeRow is a route in the list: which requests, where to, the verdict, and what they need.
func routeRow(r *coverage.Route) pages.Row {
	which := cells(text(r.Site + strings.Join(r.Paths, " ")))
	for _, match := range r.Match {
		if !strings.HasPrefix(match, "path ") {
			which = append(which, code(match))
		}
	}
	if r.ErrorRoute {
		which = append(which, phrase("console.gate.errors"))
	}
	verdict := cells(pages.Cell{Phrase: pages.Say("console.verdict." + r.Verdict), Tone: verdictTones[r.Verdict]})
	if r.Why != "" {
		verdict = append(verdict, text(r.Why))
	}
	var needs []pages.Cell
	for i := range r.Gates {
		needs = append(needs, gateNeeds(&r.Gates[i])...)
	}
	upstream := strings.TrimSpace(r.Handler + " " + strings.Join(r.Upstreams, " "))
	return pages.Row{Cells: [][]pages.Cell{which, cells(code(upstream)), verdict, needs}}
}

// gateNeeds returns what a gate needs, in the words of the Caddyfile where they are rules.
func gateNeeds(g *coverage.Gate) []pages.Cell {
	key := "console.gate.token"
	if g.Optional {
		key = "console.gate.token_or_none"
	}
	needs := cells(phrase(key, "issuers", strings.Join(g.Issuers, ", ")))
	rules := slices.Clone(g.Rules)
	if len(g.Scopes) > 0 {
		rules = append([]string{"scope " + strings.Join(g.Scopes, " ")}, rules...)
	}
	for _, tool := range g.Tools {
		rules = append(rules, "tool "+tool)
	}
	for _, r := range rules {
		needs = append(needs, code(r))
	}
	if len(g.Only) > 0 {
		needs = append(needs, phrase("console.gate.only", "what", strings.Join(g.Only, ", ")))
	}
	for _, anonymous := range g.Anonymous {
		needs = append(needs, phrase("console.gate.anonymous", "what", anonymous))
	}
	if g.Source != "" {
		needs = append(needs, pages.Cell{Text: g.Source, Tone: "quiet"})
	}
	return needs
}

// refusalKinds are the events that are refusals, by the kind that a person chooses.
var refusalKinds = []struct{ name, event string }{
	{"gate", "request refused at the gate"}, {"sign_in", "sign-in refused"}, {"factor", "second factor refused"},
}

// listRefusals lists who was refused: of everybody those of one kind, of a person all.
func listRefusals(v *visit) (sheet, error) {
	s := sheet{title: "console.refusals.title"}
	if !v.operator.keepsAudit() {
		s.blocks = []pages.Block{nothingKept()}
		return s, nil
	}
	query := v.filters("user", "host", "reason", "kind")
	asked, kind := with(query, "limit", "50"), query.Get("kind")
	asked.Del("kind")
	search := auditForm(v, "/gate/refusals", []string{"user", "host", "reason"}, query)
	ofAll := pages.Say("console.any")
	var words []pages.Phrase
	if query.Get("user") == "" {
		kind, ofAll = cmp.Or(kind, refusalKinds[0].name), pages.Phrase{}
		words = []pages.Phrase{pages.Say("console.refusals.kinds")}
	}
	choices := []pages.Choice{}
	if !ofAll.IsEmpty() {
		choices = append(choices, pages.Choice{Phrase: ofAll})
	}
	for _, k := range refusalKinds {
		choices = append(choices, pages.Choice{Value: k.name, Phrase: pages.Say("console.refusals." + k.name), Chosen: kind == k.name})
		if kind == k.name {
			asked.Set("event", k.event)
		}
	}
	search.Fields = append(search.Fields, pages.ConsoleField{Name: "kind", Kind: "choice", Label: pages.Say("console.refusals.kind"), Choices: choices})
	s.blocks = []pages.Block{{Form: search, Words: words}}
	if !v.operator.everywhere && query.Get("user") == "" {
		s.blocks[0].Words = []pages.Phrase{pages.Say("console.audit.of_person")}
		return s, nil
	}
	events, answer, err := readAs[[]admin.AuditEvent](v.context(), &v.operator, admin.Ask{Route: admin.ListAudit, Query: asked})
	if err != nil {
		return s, err
	}
	list := &pages.Table{
		Head:  heads("console.audit.when", "console.session.who", "console.audit.where", "console.refusals.reason"),
		Empty: pages.Say("console.refusals.none"), NextURL: v.next("/gate/refusals", query, answer.After),
	}
	if err := nameAll(v, events); err != nil {
		return s, err
	}
	for i := range events {
		l := lineOf(&events[i])
		if l.rest["reason"] == "" { // of a person all events are read
			continue
		}
		why := cells(reasonOf(&l))
		if missing := l.take("missing"); missing != "" {
			why = append(why, code(missing))
		}
		list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{cells(pages.Cell{At: l.Time}), whoOf(v, &l), whereOf(v, &l), why}, More: l.more()})
	}
	s.blocks = append(s.blocks, pages.Block{Title: pages.Say("console.refusals.last"), Table: list})
	return s, nil
}

// explainRefusal says why a request was refused, and what mends it.
func explainRefusal(v *visit) (sheet, error) {
	if v.query("id") == "" || !v.operator.keepsAudit() {
		return sheet{}, errNoAction
	}
	event, _, err := readAs[admin.AuditEvent](v.context(), &v.operator, admin.Ask{Route: admin.ShowAudit, IDs: []string{v.query("id")}})
	if err != nil {
		return sheet{}, err
	}
	if err := nameAll(v, []admin.AuditEvent{event}); err != nil {
		return sheet{}, err
	}
	l := lineOf(&event)
	reason, missing, subject, client := l.take("reason"), l.take("missing"), l.rest["subject"], l.rest["client_id"]
	s := sheet{title: "console.why.title", blocks: []pages.Block{{Facts: []pages.Fact{
		{Name: pages.Say("console.audit.when"), Cells: cells(pages.Cell{At: l.Time})},
		{Name: pages.Say("console.audit.event"), Cells: cells(text(l.take("msg")))},
	}}}}
	for _, fact := range []struct {
		key   string
		cells []pages.Cell
	}{{"console.session.who", whoOf(v, &l)}, {"console.audit.where", whereOf(v, &l)}, {"console.audit.by", byOf(v, &l)}} {
		if len(fact.cells) > 0 {
			s.blocks[0].Facts = append(s.blocks[0].Facts, pages.Fact{Name: pages.Say(fact.key), Cells: fact.cells})
		}
	}
	said, words := explanationOf(reason)
	why := pages.Block{Title: pages.Say("console.refusals.reason"), Facts: []pages.Fact{{Name: pages.Say("console.why.code"), Cells: cells(code(reason))}}}
	if missing != "" {
		why.Facts = append(why.Facts, pages.Fact{Name: pages.Say("console.why.missing"), Cells: cells(code(missing))})
	}
	why.Words = append(why.Words, words)
	mends := pages.Block{Title: pages.Say("console.why.mends"), Words: []pages.Phrase{pages.Say("console.mend." + said.mend)}}
	for _, page := range said.pages {
		id := subject
		if page == "/applications/application" {
			id = client
		}
		// The id of a person and the pages of others are those of our own issuer: people whom tokens of others name cannot be edited here.
		if found, is := routes[page]; is && id != "" && l.rest["trust"] == "" && (v.operator.everywhere || found.inOrganisation) {
			mends.Links = append(mends.Links, pages.ConsoleLink{Phrase: pages.Say(mendLinks[page]), URL: to(page, "id", id)})
		}
	}
	if l.rest["trust"] == "" {
		s.notices = whyRefused(v, subject)
	}
	s.blocks = append(s.blocks, why, mends, pages.Block{Title: pages.Say("console.more"), Facts: l.more()})
	return s, nil
}

// mendLinks are the texts of the pages that mend something.
var mendLinks = map[string]string{"/people/edit": "console.person.edit", "/people/person": "console.why.person", "/applications/application": "console.why.application"}

// explanation is what mends a refusal: the text `console.mend.` and the pages on which it is mended.
type explanation struct {
	mend  string
	pages []string
}

var (
	usual       = explanation{mend: "usual"}
	mendsPerson = []string{"/people/edit", "/people/person"}
	ofClient    = explanation{"client", []string{"/applications/application"}}
	ofSettings  = explanation{mend: "settings"}
	ofForger    = explanation{mend: "forged"}
	ofStore     = explanation{mend: "node"}
	ofSignIn    = explanation{"sign_in", []string{"/people/person"}}
	ofWait      = explanation{"wait", []string{"/people/person"}}
	ofProvider  = explanation{mend: "provider"}
	ofRule      = explanation{mend: "rule"}
)

// explanations are the reasons that have a text `console.reason.` of their own.
var explanations = map[string]explanation{
	"group_missing": {"group", mendsPerson}, "role_missing": {"role", mendsPerson}, "email_unverified": {"address", mendsPerson},
	"scope_missing": {"scope", []string{"/applications/application"}}, "claim_missing": ofRule, "user_not_listed": ofRule,
	"email_domain_missing": ofRule, "expression_false": ofRule, "acr_insufficient": usual, "sign_in_too_old": usual,
	"token_missing": usual, "token_expired": usual, "token_revoked": usual, "key_replaced": usual,
	"token_malformed": ofClient, "bearer_malformed": ofClient, "personal_token_unknown": ofClient, "not_an_access_token": ofClient, "path_unclear": ofClient,
	"key_unknown": ofSettings, "issuer_wrong": ofSettings, "audience_wrong": ofSettings,
	"signature_wrong": ofForger, "tag_wrong": ofForger, "origin_unproven": ofForger,
	"sign_in_failed": ofSignIn, "user_inactive": ofSignIn, "user_unknown": ofSignIn, "factor_wrong": ofSignIn, "factor_replayed": usual,
	"sign_in_throttled": ofWait, "factor_throttled": ofWait,
	"email_domain_not_allowed": ofProvider, "group_not_allowed": ofProvider, "provider_unavailable": ofProvider, "provider_misconfigured": ofProvider,
	"store_unavailable": ofStore, "revocations_stale": ofStore, "verification_busy": ofStore,
}

// explanationOf returns the explanation of a reason, and its text. What is wrong with paths has one for all.
func explanationOf(reason string) (explanation, pages.Phrase) {
	if strings.HasPrefix(reason, "path_") {
		reason = "path_unclear"
	}
	if said, is := explanations[reason]; is {
		return said, pages.Say("console.reason." + reason)
	}
	return explanation{mend: "unknown"}, pages.Say("console.reason.unknown")
}
