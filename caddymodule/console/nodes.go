package console

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// showNode shows how this node and the database do.
func showNode(v *visit) (sheet, error) {
	status, _, err := readAs[admin.NodeStatus](v.context(), &v.operator, admin.Ask{Route: admin.ShowStatus})
	if err != nil {
		return sheet{}, err
	}
	ready := pages.Cell{Phrase: pages.Say("console.node.ready"), Tone: "good"}
	if !status.Ready {
		ready = pages.Cell{Phrase: pages.Say("console.node.unready"), Tone: "bad"}
	}
	facts := []pages.Fact{{Name: pages.Say("console.person.state"), Cells: append(cells(ready), texts(status.Reasons)...)}}
	add := func(key string, list ...pages.Cell) {
		facts = append(facts, pages.Fact{Name: pages.Say(key), Cells: list})
	}
	add("console.node.version", code(status.Version))
	add("console.node.streams", number(int64(status.Streams)))
	s := sheet{title: "console.place.nodes", blocks: []pages.Block{{Title: pages.Say("console.node.this"), Words: []pages.Phrase{pages.Say("console.node.words")}}}}
	own := status.Own
	if own == nil {
		s.blocks[0].Facts = facts
		return s, nil
	}
	staleness := phrase("console.never")
	if own.Staleness != nil {
		staleness = phrase("console.node.seconds_ago", "seconds", strconv.FormatFloat(*own.Staleness, 'f', 1, 64))
	}
	add("console.node.revocations", number(int64(own.Revocations)))
	add("console.node.staleness", staleness)
	add("console.node.skew", phrase("console.node.seconds", "seconds", strconv.FormatFloat(own.ClockSkew, 'f', 3, 64)))
	add("console.node.verified", number(int64(own.Verified)))
	keeper := phrase("console.node.other_keeper")
	if own.Housekeeper {
		keeper = phrase("console.node.keeper")
	}
	add("console.node.housekeeper", keeper)
	dropped := number(own.AuditDropped)
	if own.AuditDropped > 0 {
		dropped.Tone = "bad"
	}
	add("console.node.dropped", dropped)
	s.blocks[0].Facts = facts
	database := pages.Block{Title: pages.Say("console.node.database"), Facts: []pages.Fact{{Name: pages.Say("console.node.store"), Cells: cells(code(own.Store))}}}
	if own.Stored == nil {
		database.Words = []pages.Phrase{pages.Say("console.node.uncounted")}
	}
	rows := &pages.Table{Head: heads("console.node.table", "console.node.rows")}
	for _, name := range slices.Sorted(maps.Keys(own.Stored)) {
		what := code(name)
		if key := "console.rows." + name; v.has(key) {
			what = phrase(key)
		}
		rows.Rows = append(rows.Rows, pages.Row{Cells: [][]pages.Cell{cells(what), cells(number(own.Stored[name]))}})
	}
	if len(rows.Rows) > 0 {
		database.Table = rows
	}
	s.blocks = append(s.blocks, database)
	return s, nil
}

// number is a cell with a number.
func number(n int64) pages.Cell { return text(strconv.FormatInt(n, 10)) }
