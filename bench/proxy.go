package main

import (
	"fmt"
)

// proxy compares a Caddy without Gatehouse, a bare reverse_proxy beside Gatehouse, and one behind protect. All get the same
// tokens, which were seen before.
func (b *bench) proxy(algorithm string) error {
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	again, err := b.bareCaddy()
	if err != nil {
		return err
	}
	ours, err := b.ours(setup{algorithm: algorithm})
	if err != nil {
		return err
	}
	tokens, err := b.obtain(ours, b.tokens)
	if err != nil {
		return err
	}
	name := func(what string, count int) string { return fmt.Sprintf("%s, tokens in turn: %d", what, count) }
	sides := []side{
		{name: name("bare Caddy", 1), on: bare, load: orders(bare.Bare, tokens[:1])},
		{name: "another bare Caddy (control)", against: name("bare Caddy", 1), on: again, load: orders(again.Bare, tokens[:1])},
		{name: "ours, without protect", against: name("bare Caddy", 1), on: ours, load: orders(ours.Bare, tokens[:1])},
		{name: "protect, forward off", against: name("bare Caddy", 1), on: ours, load: orders(ours.Silent, tokens[:1])},
	}
	for _, count := range []int{1, 1000, len(tokens)} {
		count = min(count, len(tokens))
		if count > 1 {
			sides = append(sides, side{name: name("bare Caddy", count), on: bare, load: orders(bare.Bare, tokens[:count])})
		}
		sides = append(sides, side{
			name: name("protect", count), against: name("bare Caddy", count), on: ours, load: orders(ours.Protected, tokens[:count]),
		})
	}
	outs, err := b.compare(sides...)
	if err != nil {
		return err
	}
	for _, count := range []int{1, 1000, len(tokens)} {
		protect := name("protect", min(count, len(tokens)))
		b.atMost(fmt.Sprintf("warm tokens, %s, %d in turn: CPU per request", algorithm, count), 1.03, outs.ratio(protect, cpuOf), 3, "of bare")
		b.atMost(fmt.Sprintf("warm tokens, %s, %d in turn: p99", algorithm, count), 1.05, outs.ratio(protect, p99Of), 3, "of bare")
	}
	return nil
}

// collectorHeadroom shows both sides with Go's default and with four times the room for garbage.
func (b *bench) collectorHeadroom() error {
	var sides []side
	var tokens []string
	for _, gogc := range []int{100, 400} {
		bare, err := b.bareWith(gogc)
		if err != nil {
			return err
		}
		ours, err := b.ours(setup{gogc: gogc})
		if err != nil {
			return err
		}
		if tokens, err = b.obtain(ours, min(1000, b.tokens)); err != nil {
			return err
		}
		bareName, first := fmt.Sprintf("bare Caddy, GOGC=%d", gogc), ""
		if gogc != 100 {
			first = "bare Caddy, GOGC=100"
		}
		sides = append(sides,
			side{name: bareName, against: first, on: bare, load: orders(bare.Bare, tokens)},
			side{name: fmt.Sprintf("protect, GOGC=%d", gogc), against: bareName, on: ours, load: orders(ours.Protected, tokens)},
			side{name: fmt.Sprintf("client_credentials, GOGC=%d", gogc), on: ours, load: clientCredentials(ours.Issuer)})
	}
	_, err := b.compare(sides...)
	return err
}
