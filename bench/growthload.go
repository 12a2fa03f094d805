package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
)

// idleConnections asks what a connection costs that has been used and waits, without and with a gate in front.
func (b *bench) idleConnections() error {
	ours, err := b.ours(setup{})
	if err != nil {
		return err
	}
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	tokens, err := b.obtain(ours, 1)
	if err != nil {
		return err
	}
	table := b.report.Table("idle connections", "bare RSS MiB", "KiB each", "protect RSS MiB", "KiB each")
	var most [2]float64
	for _, count := range []int{1000, b.idle} {
		var row []report.Cell
		for i, s := range []*server{bare, ours} {
			site := s.Bare
			if s == ours {
				site = s.Protected
			}
			resident, each, err := b.idleOn(s, site, tokens[0], count)
			if err != nil {
				return err
			}
			row, most[i] = append(row, mebibytes(resident), report.Number(each/1024, 1)), each
		}
		table.Row(strconv.Itoa(count), row...)
	}
	b.atMost("an idle connection", 1.1, most[1]/most[0], 2, "× one of bare Caddy")
	return nil
}

// idleOn opens connections, uses each once, and returns the memory while all of them wait, and the growth for each.
func (b *bench) idleOn(s *server, site, token string, count int) (resident int64, each float64, err error) {
	before, err := s.Resident()
	if err != nil {
		return 0, 0, err
	}
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	request := get(site, "/orders/1", token)
	answer := make([]byte, 4<<10)
	for range count {
		c, err := net.Dial("tcp", site)
		if err != nil {
			return 0, 0, fmt.Errorf("%d connections are open: %w", len(held), err)
		}
		held = append(held, c)
		if _, err := c.Write(request); err != nil {
			return 0, 0, err
		}
		if n, err := c.Read(answer); err != nil || n < len("HTTP/1.1 200") || string(answer[9:12]) != "200" {
			return 0, 0, errors.Join(err, fmt.Errorf("the answer is %q", answer[:n]))
		}
	}
	if err := pause(b.ctx, 3*time.Second); err != nil {
		return 0, 0, err
	}
	resident, err = s.Resident()
	return resident, float64(resident-before) / float64(count), err
}

// revocationRates asks what it costs the gate that tokens are revoked all the time: each revocation makes it look again
// whether the tokens that it knows still stand.
func (b *bench) revocationRates() error {
	ours, err := b.ours(setup{})
	if err != nil {
		return err
	}
	known, err := b.obtain(ours, 1000)
	if err != nil {
		return err
	}
	table := b.report.Table("revocations a second", "gate p50 ms", "p99 ms", "CPU µs of both for one request")
	for _, rate := range []int{0, 10, 100, 1000} {
		doomed, err := b.obtain(ours, max(1, rate*b.revokedSeconds()))
		if err != nil {
			return err
		}
		gate := orders(ours.Protected, known)
		gate.Pace = time.Millisecond
		before, err := ours.CPU()
		if err != nil {
			return err
		}
		result, err := b.beside(gate, ours, doomed, rate)
		if err != nil {
			return err
		}
		after, err := ours.CPU()
		if err != nil {
			return err
		}
		table.Row(strconv.Itoa(rate), report.Number(milliseconds(result.Latency.Quantile(0.5)), 2), report.Number(milliseconds(result.Latency.Quantile(0.99)), 2),
			report.Number(float64((after-before).Microseconds())/float64(result.Requests), 0))
	}
	b.report.Note("The gate gets 1,000 requests a second with 1,000 tokens in turn.")
	return nil
}

// revokedSeconds is for how long.
func (b *bench) revokedSeconds() int {
	if b.quick {
		return 1
	}
	return 10
}

// beside sends a load while tokens are revoked at that rate.
func (b *bench) beside(gate load.Load, s *server, doomed []string, rate int) (*load.Result, error) {
	var revoking sync.WaitGroup
	var revoked error
	if rate > 0 {
		revoke := aboutTokens(s, "/oauth/revoke", doomed)
		revoke.Status, revoke.Pace = http.StatusOK, time.Second/time.Duration(rate)
		revoking.Go(func() { _, revoked = revoke.Send(b.ctx, b.conns, len(doomed)) })
	}
	result, err := gate.Send(b.ctx, b.conns, 1000*b.revokedSeconds())
	revoking.Wait()
	return result, errors.Join(err, revoked)
}
