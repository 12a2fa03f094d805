package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// scenario is one question to the gateway.
type scenario struct {
	name  string
	title string
	gogc  int
	run   func(*bench) error
}

// scenarios in the order in which they run. GOGC is Go's default but where memory is measured: there the heap is kept
// close to what is live, so that the process's size says something about it.
var scenarios = []scenario{
	{"proxy", "What `protect` adds to `reverse_proxy`", 100, (*bench).proxy},
	{"issue", "Tokens: `client_credentials`, ES256", 100, (*bench).issue},
	{"refresh", "Refreshes, each of them durable: SQLite, synchronous=FULL", 100, (*bench).refresh},
	{"signin", "The gate while passwords are guessed: argon2id, 19 MiB, 2 passes", 100, (*bench).signIns},
	{"refuse", "Refusals beside Caddy's own `respond 401`, which gets the same bytes", 100, (*bench).refuse},
	{"flood", "Memory under a flood of distinct bad tokens", 100, (*bench).floodMemory},
	{"memory", "Memory per cached token (GOGC=10)", 10, (*bench).tokenMemory},
}

func scenarioNames() []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name
	}
	return names
}

// bench is a scenario at work.
type bench struct {
	options
	ctx     context.Context
	gateway *gateway
	out     io.Writer
}

// proxy compares a bare reverse_proxy with one behind protect. Both get the same bytes, tokens and all.
func (b *bench) proxy() error {
	tokens, err := b.obtain(b.tokens)
	if err != nil {
		return err
	}
	one, many := b.orders(tokens[:1]), b.orders(tokens)
	at := func(addr string, request func(int, []byte) []byte) load {
		return load{addr: addr, status: http.StatusOK, request: request}
	}
	g := b.gateway
	manyBare, manyProtected := fmt.Sprintf("bare, %d tokens", len(tokens)), fmt.Sprintf("protect, %d tokens", len(tokens))
	return b.compare([]side{
		{"bare, 1 token", "", at(g.bare, one)},
		{"bare again (control)", "bare, 1 token", at(g.bareAgain, one)},
		{"protect, 1 token", "bare, 1 token", at(g.protected, one)},
		{"protect, forward off, 1 token", "bare, 1 token", at(g.silent, one)},
		{manyBare, "", at(g.bare, many)},
		{manyProtected, manyBare, at(g.protected, many)},
	})
}

// issue asks for tokens.
func (b *bench) issue() error {
	token := load{addr: b.gateway.issuer, status: http.StatusOK, request: constant(b.tokenRequest())}
	return b.compare([]side{{"token", "", token}, {"token again (control)", "token", token}})
}

// refuse holds each kind of bad token against `respond 401`. A longer request costs both sides more, so each kind has
// its own pair.
func (b *bench) refuse() error {
	f, err := b.newForger()
	if err != nil {
		return err
	}
	var sides []side
	for _, kind := range f.kinds() {
		request := constant(get(b.gateway.protected, "/orders/1", kind.token))
		respond := "respond 401, " + kind.name
		refused := func(addr string) load { return load{addr: addr, status: http.StatusUnauthorized, request: request} }
		sides = append(sides, side{respond, "", refused(b.gateway.respond)}, side{kind.name, respond, refused(b.gateway.protected)})
	}
	// Two more beside the first: the control, and Caddy's own refusal when it says as much as ours must.
	control, same := sides[0], sides[0]
	control.load.addr, control.name, control.against = b.gateway.respondAgain, control.name+" again (control)", sides[0].name
	same.load.addr, same.name, same.against = b.gateway.sameAnswer, "header and respond, the same answer", sides[0].name
	return b.compare(append(sides, control, same))
}

// floodMemory sends bad tokens of which no two are equal, and looks at the gateway's memory.
func (b *bench) floodMemory() error {
	f, err := b.newForger()
	if err != nil {
		return err
	}
	flood := func(from int) load {
		return load{addr: b.gateway.protected, status: http.StatusUnauthorized, request: func(i int, scratch []byte) []byte {
			return append(scratch, get(b.gateway.protected, "/orders/1", f.distinct(from+i))...)
		}}
	}
	// The first tokens bring the process to its working size.
	warm := flood(0)
	if _, err := warm.send(b.ctx, b.conns, b.flood/10); err != nil {
		return err
	}
	writeRow(b.out, "distinct bad tokens", "RSS MiB")
	writeRow(b.out, "---:", "---:")
	const steps = 4
	for step := range steps + 1 {
		if step > 0 {
			l := flood(b.flood/10 + (step-1)*b.flood/steps)
			if _, err := l.send(b.ctx, b.conns, b.flood/steps); err != nil {
				return err
			}
		}
		resident, err := b.settledBytes()
		if err != nil {
			return err
		}
		writeRow(b.out, strconv.Itoa(b.flood/10+step*b.flood/steps), fmt.Sprintf("%.1f", float64(resident)/(1<<20)))
	}
	return nil
}

// tokenMemory fills the cache of verified tokens, which holds a token from its birth, and looks at the gateway's memory.
func (b *bench) tokenMemory() error {
	issue := load{addr: b.gateway.issuer, status: http.StatusOK, request: constant(b.tokenRequest())}
	writeRow(b.out, "cached tokens", "RSS MiB", "bytes per token")
	writeRow(b.out, "---:", "---:", "---:")
	var before int64
	for step := range 4 { // the first brings the process to its working size; in a full run the last goes beyond the bound
		if _, err := issue.send(b.ctx, b.conns, b.tokens); err != nil {
			return err
		}
		resident, err := b.settledBytes()
		if err != nil {
			return err
		}
		each := ""
		if step > 0 {
			each = strconv.FormatInt((resident-before)/int64(b.tokens), 10)
		}
		before = resident
		writeRow(b.out, strconv.Itoa((step+1)*b.tokens), fmt.Sprintf("%.1f", float64(resident)/(1<<20)), each)
	}
	return nil
}

// settledBytes is the gateway's memory once it has given back what it does not need.
func (b *bench) settledBytes() (int64, error) {
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-time.After(3 * time.Second):
	}
	return b.gateway.residentBytes()
}

// obtain gets tokens from the gateway.
func (b *bench) obtain(count int) ([]string, error) {
	tokens := make([]string, count)
	issue := load{
		addr: b.gateway.issuer, status: http.StatusOK, request: constant(b.tokenRequest()),
		response: func(i int, body []byte) error {
			var err error
			tokens[i], err = accessToken(body)
			return err
		},
	}
	_, err := issue.send(b.ctx, b.conns, count)
	return tokens, err
}

// orders asks for the same path with the tokens in turn.
func (b *bench) orders(tokens []string) func(int, []byte) []byte {
	requests := make([][]byte, len(tokens))
	for i, token := range tokens {
		requests[i] = get(b.gateway.bare, "/orders/1", token)
	}
	return func(i int, scratch []byte) []byte { return append(scratch, requests[i%len(requests)]...) }
}

// constant is the same request for every i.
func constant(request []byte) func(int, []byte) []byte {
	return func(_ int, scratch []byte) []byte { return append(scratch, request...) }
}

// errNoToken is an answer of the token endpoint without a token.
var errNoToken = errors.New("the answer holds no access_token")
