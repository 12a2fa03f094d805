package main

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/plot"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

// connections measures throughput and latency over the number of connections, and draws the curves.
func (b *bench) connections() {
	bare, ours := b.bareCaddy(0), b.ours(setup{})
	tokens := b.obtain(ours, min(1000, b.tokens))
	sides := []side{
		{name: "bare reverse_proxy", on: bare, load: orders(bare.Bare, tokens)},
		{name: "protect and reverse_proxy", on: ours, load: orders(ours.Protected, tokens)},
		{name: "client_credentials, ES256", on: ours, load: clientCredentials(ours.Issuer)},
	}
	throughput := &plot.Plot{Title: "Throughput over connections", X: "connections", Y: "requests a second", LogX: true}
	latency := &plot.Plot{Title: "99th percentile of the latency over connections", X: "connections", Y: "ms", LogX: true}
	for _, s := range sides {
		throughput.Lines = append(throughput.Lines, plot.Line{Name: s.name})
		latency.Lines = append(latency.Lines, plot.Line{Name: s.name})
	}
	table := b.report.Table("connections", "bare requests/s", "p99 ms", "protect requests/s", "p99 ms", "client_credentials requests/s", "p99 ms")
	for conns := 1; conns <= 256; conns *= 2 {
		var row []report.Cell
		for i, costs := range b.inTurns(sides, conns) {
			rate, p99 := stats.MedianOf(costs, rateOf), stats.MedianOf(costs, p99Of)
			row = append(row, report.Number(rate, 0), report.Number(p99, 2))
			throughput.Lines[i].Points = append(throughput.Lines[i].Points, plot.Point{X: float64(conns), Y: rate})
			latency.Lines[i].Points = append(latency.Lines[i].Points, plot.Point{X: float64(conns), Y: p99})
		}
		table.Row(strconv.Itoa(conns), row...)
	}
	b.draw("throughput-over-connections.svg", throughput)
	b.draw("latency-over-connections.svg", latency)
}

// inTurns measures the sides over conns connections, in a third of the rounds.
func (b *bench) inTurns(sides []side, conns int) [][]cost {
	costs := make([][]cost, len(sides))
	count := b.requests
	if conns < 4 {
		count = max(conns, count/4)
	}
	for range max(1, b.rounds/3) {
		for i, s := range sides {
			s.conns = conns
			costs[i] = append(costs[i], b.measure(s, max(count, 2*conns)))
		}
	}
	return costs
}

// idleConnections measures the memory of an idle connection that has been used, with and without a gate.
func (b *bench) idleConnections() {
	ours, bare := b.ours(setup{}), b.bareCaddy(0)
	token := b.obtain(ours, 1)[0]
	table := b.report.Table("idle connections", "bare RSS MiB", "KiB each", "protect RSS MiB", "KiB each")
	var bareEach, each float64
	for _, count := range []int{1000, b.idle} {
		var bareAll, all int64
		bareAll, bareEach = b.idleOn(bare, get(bare.Bare, "/orders/1", token), bare.Bare, count)
		all, each = b.idleOn(ours, get(ours.Protected, "/orders/1", token), ours.Protected, count)
		table.Row(strconv.Itoa(count), mebibytes(bareAll), report.Number(bareEach/1024, 1), mebibytes(all), report.Number(each/1024, 1))
	}
	b.atMost("an idle connection", 1.1, each/bareEach, 2, "× one of bare Caddy")
}

// idleOn opens connections, uses each once, and returns the memory while all of them are idle, and the growth per
// connection.
func (b *bench) idleOn(s *server, request []byte, site string, count int) (resident int64, each float64) {
	before := must(s.Resident())
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	answer := make([]byte, 4<<10)
	for i := range count {
		named(fmt.Sprintf("%d connections are open", i), func() {
			c := must(net.Dial("tcp", site))
			held = append(held, c)
			must(c.Write(request))
			if n := must(c.Read(answer)); n < len("HTTP/1.1 200") || string(answer[9:12]) != "200" {
				check(fmt.Errorf("the answer is %q", answer[:n]))
			}
		})
	}
	b.settle()
	resident = must(s.Resident())
	return resident, float64(resident-before) / float64(count)
}

// revocationRates measures how much continuous revocations cost the gate. After each one, the gate checks again
// whether its cached tokens are still valid.
func (b *bench) revocationRates() {
	seconds := 10
	if b.quick {
		seconds = 1
	}
	ours := b.ours(setup{})
	gate := orders(ours.Protected, b.obtain(ours, 1000))
	gate.Pace = pace
	table := b.report.Table("revocations a second", "gate p50 ms", "p99 ms", "CPU µs of both for one request")
	for _, rate := range []int{0, 10, 100, 1000} {
		revoke := aboutTokens(ours, clientID, "/oauth/revoke", b.obtain(ours, rate*seconds))
		before := must(ours.CPU())
		var revoking errgroup.Group
		if rate > 0 {
			revoke.Pace = time.Second / time.Duration(rate)
			revoking.Go(func() error {
				_, err := revoke.Send(b.ctx, b.conns, rate*seconds)
				return err
			})
		}
		result := must(gate.Send(b.ctx, b.conns, 1000*seconds))
		check(revoking.Wait())
		table.Row(strconv.Itoa(rate), quantile(result, 0.5), quantile(result, 0.99),
			report.Number(microseconds(must(ours.CPU())-before)/float64(result.Requests), 0))
	}
	b.report.Note("The gate gets 1,000 requests a second with 1,000 tokens in turn.")
}

func quantile(r *load.Result, q float64) report.Cell {
	return report.Number(milliseconds(r.Latency.Quantile(q)), 2)
}

// pace is the time between two requests to a gate that is in use but below its limit.
const pace = time.Second / 1000

// signIns sends a flood of wrong passwords and measures the effect on the gate's callers. Each password costs a slow
// hash.
func (b *bench) signIns() {
	ours := b.ours(setup{})
	gate := orders(ours.Protected, b.obtain(ours, 1))
	gate.Pace = pace
	count := min(b.requests, 4000)
	b.send(gate, count/4) // warm-up
	table := b.report.Table("", "p50 ms", "p99 ms", "RSS MiB", "answers of the flood")
	for range 2 { // the difference between the two rounds shows the noise
		for _, conns := range []int{0, manyConns} {
			stop := b.inBackground(guesses(ours), conns)
			result, resident := must(gate.Send(b.ctx, b.conns, count)), must(ours.Resident())
			table.Row(fmt.Sprintf("gate, and %d connections that guess passwords", conns), quantile(result, 0.5), quantile(result, 0.99),
				mebibytes(resident), report.Text(stop().String()))
		}
	}
}

// guesses tries a password for a different account in each request.
func guesses(s *server) load.Load {
	return load.Load{Addr: s.Issuer, Request: func(i int, scratch []byte) []byte {
		form := url.Values{"grant_type": {"password"}, "email": {strconv.Itoa(i) + userEmail}, "password": {"wrong"}}
		return append(scratch, tokenForm(s.Issuer, clientID, form)...)
	}}
}
