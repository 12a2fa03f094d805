package main

// refuse compares each kind of bad token with the `respond 401` of a Caddy without Gatehouse. A longer request costs
// both sides more, so each kind has its own pair.
func (b *bench) refuse() {
	p := b.startProvider(0)
	ours, bare := b.ours(trusting(p)), b.bareCaddy(0)
	own, external := b.badTokens(ours, p)
	var sides []side
	pair := func(t badToken, site string) {
		respond := "respond 401, " + t.name
		sides = append(sides,
			side{name: respond, on: bare, load: t.requests(bare.Respond)},
			side{name: t.name, against: respond, on: ours, load: t.requests(site)})
	}
	for _, t := range own {
		pair(t, ours.Protected)
	}
	for _, t := range external {
		pair(t, ours.ProtectedExternal)
	}
	// Two more sides follow the first: the control, and Caddy's own refusal with every header that ours has.
	sides = append(sides, sides[0].again(),
		side{name: "header and respond, the same answer", against: sides[0].name, on: bare, load: own[0].requests(bare.SameAnswer)})
	outs := b.compare(sides...)
	for _, t := range own {
		least := 0.9
		if t.name == changedSignature { // an ES256 signature is verified
			least = 0.33
		}
		b.atLeast("own forged token, "+t.name+": rate", least, outs.ratio(t.name, rateOf), 3, "of respond 401")
	}
	for _, goal := range externalGoals {
		if goal.forged > 0 {
			name := "forged " + goal.algorithm
			b.atLeast("external token, "+name+": rate", goal.forged, outs.ratio(name, rateOf), 3, "of respond 401")
		}
	}
}
