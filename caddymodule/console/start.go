package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
)

// start is the front page: what operators come for, what needs attention, and how the last day was.
func start(v *visit) (sheet, error) {
	s := sheet{title: "console.place.start", blocks: []pages.Block{{Title: pages.Say("console.start.questions"), Links: questions(v)}}}
	if !v.operator.everywhere {
		return s, nil
	}
	attention, err := attentionOf(v)
	if err != nil {
		return s, err
	}
	s.blocks = append(s.blocks, attention)
	if v.operator.keepsAudit() {
		day, err := lastDay(v)
		if err != nil {
			return s, err
		}
		s.blocks = append(s.blocks, day)
	}
	return s, nil
}

// questions are what operators come for, with the pages that answer.
func questions(v *visit) []pages.ConsoleLink {
	links := []pages.ConsoleLink{
		{Phrase: pages.Say("console.start.let_in"), URL: to("/people/new")},
		{Phrase: pages.Say("console.start.throw_out"), URL: to("/sessions")},
	}
	if v.operator.keepsAudit() {
		links = slices.Insert(links, 1, pages.ConsoleLink{Phrase: pages.Say("console.start.why_not"), URL: to("/gate/refusals")})
	}
	if !v.operator.everywhere {
		links = append(links, pages.ConsoleLink{Phrase: pages.Say("console.start.people"), URL: to("/people")})
	}
	return links
}

// attentions are the things that need attention, each with the page about it.
type attentions []pages.Cell

func (a *attentions) add(address, key string, values ...string) {
	*a = append(*a, pages.Cell{Phrase: pages.Say(key, values...), URL: address, Tone: "bad"})
}

// attentionOf lists what needs attention.
func attentionOf(v *visit) (pages.Block, error) {
	var list attentions
	for _, look := range []func(*visit, *attentions) error{lookAtNode, lookAtRoutes, lookAtKeys, lookAtFactors} {
		if err := look(v, &list); err != nil {
			return pages.Block{}, err
		}
	}
	table := &pages.Table{Head: heads("console.attention.what"), Empty: pages.Say("console.attention.none")}
	for _, cell := range list {
		table.Rows = append(table.Rows, pages.Row{Cells: [][]pages.Cell{cells(cell)}})
	}
	return pages.Block{Title: pages.Say("console.attention.title"), Table: table}, nil
}

// The node lags if it has not heard of revocations for mostStaleness, or if its clock is mostSkew off the store's.
const (
	mostStaleness = time.Minute
	mostSkew      = 5 * time.Second
)

// lookAtNode finds what ShowStatus knows: the node, the mail server, providers and trusted issuers.
func lookAtNode(v *visit, list *attentions) error {
	ask := admin.Ask{Route: admin.ShowStatus, Query: url.Values{"uncounted": {"true"}}}
	status, _, err := readAs[admin.NodeStatus](v.context(), &v.operator, ask)
	if err == nil && status.Own != nil && status.Own.Mail != nil && status.Own.Mail.Trouble != "" { // how many letters wait?
		status, _, err = readAs[admin.NodeStatus](v.context(), &v.operator, admin.Ask{Route: admin.ShowStatus})
	}
	if err != nil {
		return err
	}
	for _, reason := range status.Reasons {
		list.add(to("/nodes"), "console.attention.unready", "reason", reason)
	}
	if own := status.Own; own != nil {
		if own.Staleness == nil || *own.Staleness > mostStaleness.Seconds() {
			list.add(to("/nodes"), "console.attention.stale")
		}
		if max(own.ClockSkew, -own.ClockSkew) > mostSkew.Seconds() {
			list.add(to("/nodes"), "console.attention.skew", "seconds", strconv.FormatFloat(own.ClockSkew, 'f', 1, 64))
		}
		if own.AuditDropped > 0 {
			list.add(to("/nodes"), "console.attention.dropped", "count", strconv.FormatInt(own.AuditDropped, 10))
		}
		if own.Mail != nil && own.Mail.Trouble != "" {
			list.add(to("/providers"), "console.attention.mail", "count", strconv.FormatInt(own.Stored["mails"], 10), "error", own.Mail.Trouble)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(status.Providers)) {
		if trouble := status.Providers[name]; trouble != "" {
			list.add(to("/providers"), "console.attention.provider", "name", name, "error", trouble)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(status.Trust)) {
		if trouble := status.Trust[name]; trouble != "" {
			list.add(to("/providers"), "console.attention.trust", "name", name, "error", trouble)
		}
	}
	return nil
}

// lookAtRoutes finds routes that nothing guards, and warnings.
func lookAtRoutes(v *visit, list *attentions) error {
	found, _, err := readAs[[]coverage.Route](v.context(), &v.operator, admin.Ask{Route: admin.ShowRoutes})
	if err != nil {
		return err
	}
	open := 0
	for _, r := range found {
		if r.Verdict == coverage.Open && r.Handler != "file_server" && r.Why == "" { // files are usually public, and others may ask
			open++
		}
	}
	if open > 0 {
		list.add(to("/gate"), "console.attention.open", "count", strconv.Itoa(open))
	}
	warnings, _, err := readAs[[]string](v.context(), &v.operator, admin.Ask{Route: admin.ShowWarnings})
	if len(warnings) > 0 {
		list.add(to("/gate"), "console.attention.warnings", "count", strconv.Itoa(len(warnings)))
	}
	return err
}

// A key that only an operator rotates is due after a year, and one that is rotated by itself a day after its time.
const (
	oldKey  = 365 * 24 * time.Hour
	lateKey = 24 * time.Hour
)

// lookAtKeys finds keys that are refused, or that sign for too long.
func lookAtKeys(v *visit, list *attentions) error {
	if v.operator.Target.SessionsOnly {
		return nil
	}
	found, _, err := readAs[[]admin.Key](v.context(), &v.operator, admin.Ask{Route: admin.ListKeys})
	if err != nil {
		return err
	}
	now := v.operator.Target.Node.StoreTime()
	for _, k := range found {
		switch due := k.DueAt.Add(lateKey); {
		case k.State == keys.StateRefused:
			list.add(to("/keys"), "console.attention.key_refused", "kid", k.ID)
		case k.State != keys.StateSigning:
		case !k.DueAt.IsZero() && now.After(due), k.DueAt.IsZero() && now.Sub(k.ActiveFrom) > oldKey:
			list.add(to("/keys"), "console.attention.key_due", "kid", k.ID)
		}
	}
	return nil
}

// mostCounted bounds how many people are counted.
const mostCounted = 100

// lookAtFactors finds people who need a second factor and have none. They add one at their next sign-in, unless an attacker with the password does it first.
func lookAtFactors(v *visit, list *attentions) error {
	rule := v.operator.Target.Issuer.SignIns.Factors.Required
	type covered struct{ by, name string }
	var all []covered
	for _, c := range []struct {
		by    string
		names []string
	}{{"role", rule.Roles}, {"group", rule.Groups}, {"organisation", rule.Organisations}} {
		for _, name := range c.names {
			all = append(all, covered{c.by, name})
		}
	}
	if rule.Everybody {
		all = []covered{{by: "everybody"}}
	}
	for _, c := range all {
		query := url.Values{"without_factor": {"true"}, "state": {"active"}}
		if c.name != "" {
			query.Set(c.by, c.name)
		}
		users, answer, err := readAs[[]admin.User](v.context(), &v.operator, admin.Ask{Route: admin.ListUsers, Query: with(query, "limit", strconv.Itoa(mostCounted))})
		if err != nil {
			return err
		}
		n := 0
		for _, u := range users {
			if !u.Service {
				n++
			}
		}
		key := "console.attention.factor"
		if answer.After != "" {
			key = "console.attention.factor_many"
		}
		if n > 0 {
			list.add(Base+"/people?"+query.Encode(), key, "count", strconv.Itoa(n), "whose", strings.TrimSpace(c.by+" "+c.name))
		}
	}
	return nil
}

// lastDay draws the sign-ins and the refusals of the last 24 hours, hour by hour.
func lastDay(v *visit) (pages.Block, error) {
	chart := &pages.Chart{Title: pages.Say("console.start.day"), Upper: pages.Say("console.start.sign_ins"), Lower: pages.Say("console.start.refusals"), Bars: make([]pages.Bar, 24)}
	block := pages.Block{Title: pages.Say("console.start.day"), Chart: chart}
	atLeast := false
	count := func(event string, add func(bar *pages.Bar, n int)) error {
		hours, _, err := readAs[[]admin.AuditCount](v.context(), &v.operator, admin.Ask{Route: admin.CountAudit, Query: url.Values{"event": {event}}})
		for i, hour := range hours {
			chart.Bars[i].At, atLeast = hour.Hour, atLeast || hour.AtLeast
			add(&chart.Bars[i], hour.Events)
		}
		return err
	}
	if err := count("signed in", func(bar *pages.Bar, n int) { bar.Upper += n }); err != nil {
		return block, err
	}
	for _, kind := range refusalKinds {
		if err := count(kind.event, func(bar *pages.Bar, n int) { bar.Lower += n }); err != nil {
			return block, err
		}
	}
	if atLeast {
		block.Words = []pages.Phrase{pages.Say("console.start.at_least")}
	}
	return block, nil
}
