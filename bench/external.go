package main

import (
	"fmt"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// externalGoals are the parts of a bare Caddy's throughput that should be left when each token is a new one, and the parts of
// the rate of `respond 401` when each is a forged one (0: none).
var externalGoals = []struct {
	algorithm     string
	first, forged float64
}{{"RS256", 0.75, 0.5}, {"EdDSA", 0.60, 0}, {"ES256", 0.60, 0.33}}

// external shows tokens of another issuer: each once, and some again and again.
func (b *bench) external() error {
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
	var sides []side
	for _, goal := range externalGoals {
		requests := max(100, b.requests/2)
		if goal.algorithm == "RS256" {
			requests = max(100, b.requests/4) // each takes a millisecond to sign
		}
		warm, err := p.tokens(goal.algorithm, min(1000, b.tokens))
		if err != nil {
			return err
		}
		fresh := func(count int) (load.Load, error) {
			tokens, err := p.tokens(goal.algorithm, count)
			return orders(ours.ProtectedExternal, tokens), err
		}
		base := "bare Caddy, " + goal.algorithm
		sides = append(sides,
			side{name: base, on: bare, load: orders(bare.Bare, warm), requests: requests},
			side{name: base + " again (control)", against: base, on: bare, load: orders(bare.BareAgain, warm), requests: requests},
			side{name: goal.algorithm + " at first sight", against: base, on: ours, prepare: fresh, requests: requests},
			side{name: fmt.Sprintf("%s warm, tokens in turn: %d", goal.algorithm, len(warm)), against: base, on: ours,
				load: orders(ours.ProtectedExternal, warm), requests: requests})
	}
	outs, err := b.compare(sides...)
	if err != nil {
		return err
	}
	for _, goal := range externalGoals {
		b.atLeast("external tokens at first sight, "+goal.algorithm+": throughput", goal.first, outs.ratio(goal.algorithm+" at first sight", rateOf), 3, "of bare")
	}
	return nil
}
