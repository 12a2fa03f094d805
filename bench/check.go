package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

var checkScenario = scenario{"check", "The most important numbers and their bounds", (*bench).bounds}

const (
	checkRounds   = 4
	checkRequests = 300
	// checkTries is how often the rounds are repeated while a step exceeds its bound.
	checkTries = 8
)

// bound is the highest cost of a step relative to another step on the same server. Allocations are counted, so their
// bounds are close to the normal values. Processor time is noisy (see cpuRatio): on machines with other users, the
// remaining noise changes a ratio by half. The bounds leave room for it and catch only large regressions.
type bound struct {
	name, against string
	// mallocs is how many more allocations the step may make; cpu is the highest ratio of the processor times.
	mallocs, cpu float64
}

// limits are the bounds of a node on SQLite with ES256. About twenty of the allocations of a refresh are for the
// node's cached copy of the client. Those of a revocation include a commit and a read of the feed, which sixteen
// connections share, or fewer on a busy machine. For an ES256 signature, golang-jwt and encoding/asn1 make 24
// allocations to verify and about ten to sign; our own copy would save them but not a tenth of the time. Caddy makes
// three allocations for a route, and in a server with a protect, a route for our own paths precedes the others. An ID
// token is a further signature. Userinfo reads the user from the store, and introspection reads nothing; the
// provider's groups and the source of the verified address take eight allocations of it. Eight allocations of each
// endpoint are for ending a request at a shutdown. On a busy machine a request meets a pool that a garbage collection has
// emptied more often: client_credentials, which makes 107, then makes one more.
var limits = []bound{
	{"protect", "reverse_proxy", 27, 2.2},
	{"external token at first sight", "reverse_proxy", 77, 4},
	{"forged token", "respond 401", 18, 3.5},
	{"client_credentials", "respond 401", 110, 6},
	{"refresh", "respond 401", 178, 9},
	{"refresh, openid", "refresh", 80, 2},
	{"userinfo", "introspection", 72, 2},
	{"introspection", "respond 401", 64, 4.5},
	{"revocation", "respond 401", 90, 8},
}

// bounds compares the steps in one process, in turns. It fails if a step exceeds its bound after the last try.
func (b *bench) bounds() {
	p := b.startProvider(0)
	ours := b.ours(setup{trusted: []*provider{p}, openID: true})
	steps := b.checkedSteps(ours, p)
	costs := make(map[string][]cost)
	for try := 1; ; try++ {
		b.measureSteps(steps, costs)
		beyond := strings.Join(b.judge(costs), "; ")
		if beyond == "" {
			return
		}
		if try == checkTries {
			check(fmt.Errorf("beyond a bound after %d tries: %s", try, beyond))
		}
		b.report.Note("Measured again, because of: %s.", beyond)
	}
}

// checkedSteps returns the loads, by name.
func (b *bench) checkedSteps(s *server, p *provider) []side {
	tokens := b.obtain(s, 200)
	access, refresh := b.familiesOf(s, must(signIn(b.ctx, s)), openIDScope, b.conns)
	forged := newForger(tokens[0]).forgeries()[1] // it is refused before its signature is verified
	steps := []side{
		{name: "reverse_proxy", load: orders(s.Bare, tokens)},
		{name: "protect", load: orders(s.Protected, tokens)},
		{name: "respond 401", load: forged.requests(s.Respond)},
		{name: "revocation", prepare: b.revocations(s)},
		{name: "forged token", load: forged.requests(s.Protected)},
		{name: "client_credentials", load: clientCredentials(s.Issuer)},
		{name: "refresh", load: rotate(s, clientID, b.chains(s, b.conns))},
		{name: "refresh, openid", load: rotate(s, portalID, refresh)},
		{name: "userinfo", load: userInfo(s, access)},
		{name: "external token at first sight", prepare: func(count int) load.Load {
			return orders(s.ProtectedExternal, p.tokens("ES256", count))
		}},
		{name: "introspection", load: aboutTokens(s, clientID, "/oauth/introspect", tokens)},
	}
	for i := range steps {
		steps[i].on = s
	}
	return steps
}

// measureSteps measures the steps in turns.
func (b *bench) measureSteps(steps []side, costs map[string][]cost) {
	for round := range checkRounds + 1 {
		for _, s := range steps {
			c := b.measure(s, checkRequests)
			if round > 0 { // the first round is a warm-up
				costs[s.name] = append(costs[s.name], c)
			}
		}
	}
}

// least returns the smallest cost of a step in any round.
func least(costs []cost, part func(cost) float64) float64 {
	return part(slices.MinFunc(costs, func(a, b cost) int { return cmp.Compare(part(a), part(b)) }))
}

// cpuRatio returns the ratio of the processor times of two steps. It computes the ratio of their least rounds and the
// median of the rounds' ratios, and returns the smaller. Other load on the machine raises the first if a step has no
// quiet round, and the second if it hits one of the two steps in most rounds. A step that costs more raises both.
func cpuRatio(costs, against []cost) float64 {
	return min(least(costs, cpuOf)/least(against, cpuOf), stats.RatioOf(costs, against, cpuOf))
}

// judge writes the comparison and returns the steps that exceed their bounds.
func (b *bench) judge(costs map[string][]cost) (beyond []string) {
	table := b.report.Table("", "against", "more allocations", "at most", "CPU ratio", "at most")
	for _, limit := range limits {
		mallocs := least(costs[limit.name], mallocsOf) - least(costs[limit.against], mallocsOf)
		cpu := cpuRatio(costs[limit.name], costs[limit.against])
		table.Row(limit.name, report.Text(limit.against), report.Number(mallocs, 1), report.Number(limit.mallocs, 0), report.Number(cpu, 2), report.Number(limit.cpu, 2))
		if mallocs > limit.mallocs {
			beyond = append(beyond, fmt.Sprintf("%s makes %.1f more allocations than %s, more than %.0f", limit.name, mallocs, limit.against, limit.mallocs))
		}
		if cpu > limit.cpu {
			beyond = append(beyond, fmt.Sprintf("%s takes %.2f times the processor time of %s, more than %.2f", limit.name, cpu, limit.against, limit.cpu))
		}
	}
	return beyond
}
