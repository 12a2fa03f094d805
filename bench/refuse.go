package main

// refuse holds each kind of bad token against the `respond 401` of a Caddy without Gatehouse. A longer request costs both
// sides more, so each kind has its own pair.
func (b *bench) refuse() error {
	p, err := b.startProvider()
	if err != nil {
		return err
	}
	ours, err := b.ours(setup{external: p})
	if err != nil {
		return err
	}
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	own, external, err := b.badTokens(ours, p)
	if err != nil {
		return err
	}
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
	// Two more beside the first: the control, and Caddy's own refusal when it says as much as ours must.
	first := own[0]
	sides = append(sides,
		side{name: "respond 401 again (control)", against: sides[0].name, on: bare, load: first.requests(bare.RespondAgain)},
		side{name: "header and respond, the same answer", against: sides[0].name, on: bare, load: first.requests(bare.SameAnswer)})
	outs, err := b.compare(sides...)
	if err != nil {
		return err
	}
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
	return nil
}

// badTokens are those of our own issuer and those of the other one.
func (b *bench) badTokens(ours *server, p *provider) (own, external []badToken, err error) {
	good, err := b.obtain(ours, 1)
	if err != nil {
		return nil, nil, err
	}
	f, err := newForger(good[0])
	if err != nil {
		return nil, nil, err
	}
	for _, goal := range externalGoals {
		if goal.forged == 0 {
			continue
		}
		token, err := p.token(goal.algorithm)
		if err != nil {
			return nil, nil, err
		}
		other, err := newForger(token)
		if err != nil {
			return nil, nil, err
		}
		external = append(external, other.changedSignature("forged "+goal.algorithm, token))
	}
	return append(f.kinds(), f.forgeries()...), external, nil
}
