package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
)

// pace is the time between two requests of a gate that is in use and not at its limit.
const pace = time.Second / 1000

// signIns sends a flood of wrong passwords, each of which costs a slow hash, and looks at what the gate's callers notice.
func (b *bench) signIns() error {
	ours, err := b.ours(setup{})
	if err != nil {
		return err
	}
	tokens, err := b.obtain(ours, 1)
	if err != nil {
		return err
	}
	gate := orders(ours.Protected, tokens)
	gate.Pace = pace
	count := min(b.requests, 4000)
	if _, err := gate.Send(b.ctx, b.conns, count/4); err != nil { // warm
		return err
	}
	table := b.report.Table("", "p50 ms", "p99 ms", "RSS MiB", "answers of the flood")
	for _, flooded := range []bool{false, true, false, true} { // twice, so that the noise can be seen
		name, answers, stop := "gate alone", new(load.Answers), func() {}
		if flooded {
			name = fmt.Sprintf("gate, and %d connections that guess passwords", manyConns)
			stop = b.inBackground(guesses(ours), manyConns, answers)
		}
		result, err := gate.Send(b.ctx, b.conns, count)
		resident, memoryErr := ours.Resident()
		stop()
		if err := errors.Join(err, memoryErr); err != nil {
			return err
		}
		table.Row(name, report.Number(milliseconds(result.Latency.Quantile(0.5)), 2), report.Number(milliseconds(result.Latency.Quantile(0.99)), 2),
			mebibytes(resident), report.Text(answers.String()))
	}
	return nil
}

// guesses tries passwords of ever other accounts.
func guesses(s *server) load.Load {
	return load.Load{Addr: s.Issuer, Request: func(i int, scratch []byte) []byte {
		form := url.Values{"grant_type": {"password"}, "email": {strconv.Itoa(i) + userEmail}, "password": {"wrong"}}
		return append(scratch, tokenForm(s.Issuer, clientID, form)...)
	}}
}

// inBackground sends a storm until it is stopped; then its answers are there.
func (b *bench) inBackground(l load.Load, conns int, answers *load.Answers) (stop func()) {
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		*answers = *l.Storm(ctx, conns)
	}()
	return func() {
		cancel()
		<-done
	}
}
