package main

import (
	"fmt"
	"strconv"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
)

// memory sends every workload to one server in turn, then once more, and reports the memory that stays in use.
func (b *bench) memory() {
	p := b.startProvider(0)
	ours, bare := b.ours(trusting(p)), b.bareCaddy(0)
	table := b.report.Table("", "RSS MiB", "most RSS MiB", "live heap MiB")
	row := func(name string, s *server) {
		table.Row(name, mebibytes(must(s.Resident())), mebibytes(must(s.PeakResident())), mebibytes(must(s.liveHeap(b.ctx))))
	}
	row("ours, after the start", ours)
	for _, round := range []string{"", ", once more"} {
		for _, w := range b.workloads(ours, p) {
			named(w.name, w.send)
			row("… and "+w.name+round, ours)
		}
	}
	b.settle()
	b.atMost("memory after all of it", 100, float64(must(ours.Resident()))/(1<<20), 1, "MiB RSS")
	row("ours, 3 s after all of it", ours)
	b.send(orders(bare.Bare, []string{"none"}), b.tokens)
	row("bare Caddy, after requests: "+strconv.Itoa(b.tokens), bare)
	b.tokenMemory()
}

// workload is one kind of traffic.
type workload struct {
	name string
	send func()
}

// workloads returns one workload for each kind of traffic.
func (b *bench) workloads(s *server, p *provider) []workload {
	few := b.tokens / 4
	return []workload{
		{fmt.Sprintf("own tokens: %d, each twice", b.tokens), func() { b.send(orders(s.Protected, b.obtain(s, b.tokens)), 2*b.tokens) }},
		{fmt.Sprintf("external tokens: %d, each twice", few), func() { b.send(orders(s.ProtectedExternal, p.tokens("ES256", few)), 2*few) }},
		{fmt.Sprintf("bad tokens: %d, each another one", b.flood), func() { b.floodWith(s, p) }},
		{fmt.Sprintf("refreshes: %d", b.tokens), func() { b.send(rotate(s, clientID, b.chains(s, manyConns)), b.tokens) }},
		{fmt.Sprintf("code exchanges: %d", few), func() { b.send(redeem(s, b.authorize(s, must(signIn(b.ctx, s)), "public", few)), few) }},
		{fmt.Sprintf("introspections: %d, revocations: %[1]d", few), func() {
			tokens := b.obtain(s, few)
			b.send(aboutTokens(s, clientID, "/oauth/introspect", tokens), few)
			b.send(aboutTokens(s, clientID, "/oauth/revoke", tokens), few)
		}},
	}
}

// floodWith sends every kind of bad token.
func (b *bench) floodWith(s *server, p *provider) {
	own, external := b.badTokens(s, p)
	each := b.flood / (len(own) + len(external))
	flood := func(l load.Load) { b.send(l, each) }
	for _, kind := range own {
		flood(kind.requests(s.Protected))
	}
	for _, kind := range external {
		flood(kind.requests(s.ProtectedExternal))
	}
}

// tokenMemory fills the cache of verified tokens and measures the process's memory. The cache holds a token from the
// moment it is issued. The garbage collector keeps the heap close to its live size, so the size of the process is
// meaningful.
func (b *bench) tokenMemory() {
	s := b.ours(setup{gogc: 10})
	table := b.report.Table("cached tokens, GOGC=10", "RSS MiB", "bytes per token")
	var before int64
	for step := range 4 { // the first step brings the process to its working size; in a full run the last exceeds the cache's bound
		b.send(clientCredentials(s.Issuer), b.tokens)
		b.settle()
		resident := must(s.Resident())
		row := []report.Cell{mebibytes(resident)}
		if step > 0 {
			row = append(row, report.Number(float64(resident-before)/float64(b.tokens), 0))
		}
		before = resident
		table.Row(strconv.Itoa((step+1)*b.tokens), row...)
	}
}
