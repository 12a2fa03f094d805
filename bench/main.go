// Command bench measures what Gatehouse costs in a real Caddy, as `make bench` runs it: what `protect` adds to a
// reverse_proxy, what a token costs to issue, what a refusal costs beside Caddy's own, and what tokens cost in memory.
//
// Machines are noisy, so the measure is CPU time per request of the gateway process, and what is compared is measured
// in turns, in one process, within seconds. One side of each comparison is there twice: how far the two differ is how
// far the rest can be trusted. Requests per second stand beside it.
//
// The gateway, its upstream and the load are three processes; this one makes the load.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// upstreamCommand is the hidden word under which this program is its own upstream.
const upstreamCommand = "serve-upstream"

// options are what the flags say.
type options struct {
	caddy    string
	dir      string
	only     string
	profiles string
	procs    int
	rounds   int
	requests int // of one side in one round
	tokens   int // held in the cache at once, in the runs with many
	flood    int // distinct bad tokens
	conns    int
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == upstreamCommand {
		fail(serveUpstream(os.Args[2]))
		return
	}
	o := options{rounds: 15, requests: 10_000, tokens: 20_000, flood: 200_000, conns: 16}
	quick := flag.Bool("quick", false, "a short run: says whether it works, not how fast it is")
	flag.StringVar(&o.caddy, "caddy", "", "a Caddy with Gatehouse in it; otherwise ./caddy is built and measured")
	flag.StringVar(&o.dir, "dir", "", "keep the gateway's files and its log in this directory")
	flag.StringVar(&o.only, "only", "", "run these scenarios only, separated by commas: "+strings.Join(scenarioNames(), ", "))
	flag.StringVar(&o.profiles, "profiles", "", "write a CPU profile of each side of a comparison into this directory, after it was measured")
	flag.IntVar(&o.rounds, "rounds", o.rounds, "rounds of each comparison")
	flag.IntVar(&o.requests, "requests", o.requests, "requests of one side in one round")
	flag.IntVar(&o.procs, "procs", 2, "GOMAXPROCS of the gateway")
	flag.Parse()
	if *quick {
		o.rounds, o.requests, o.tokens, o.flood = 3, 4000, 2000, 20_000
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fail(run(ctx, o, os.Stdout))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run starts a gateway of its own for each scenario, because what one leaves in memory is in the way of the next.
func run(ctx context.Context, o options, out io.Writer) error {
	only := strings.FieldsFunc(o.only, func(r rune) bool { return r == ',' })
	for _, name := range only {
		if !slices.Contains(scenarioNames(), name) {
			return fmt.Errorf("no scenario is called %q: use %s", name, strings.Join(scenarioNames(), ", "))
		}
	}
	if o.caddy == "" {
		if err := build(ctx); err != nil {
			return err
		}
		o.caddy = "./caddy"
	}
	upstream, err := startUpstream(ctx)
	if err != nil {
		return err
	}
	defer upstream.stop()
	fmt.Fprintf(out, "%s, %d cores; gateway with GOMAXPROCS=%d, %d connections, median of %d rounds of %d requests a side.\n",
		runtime.Version(), runtime.NumCPU(), o.procs, o.conns, o.rounds, o.requests)
	for _, s := range scenarios {
		if len(only) > 0 && !slices.Contains(only, s.name) {
			continue
		}
		if err := runScenario(ctx, o, s, upstream.addr, out); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func runScenario(ctx context.Context, o options, s scenario, upstream string, out io.Writer) error {
	g, err := startGateway(ctx, o, s.gogc, upstream)
	if err != nil {
		return err
	}
	defer g.stop()
	fmt.Fprintf(out, "\n### %s\n\n", s.title)
	b := &bench{ctx: ctx, options: o, gateway: g, out: out}
	return s.run(b)
}
