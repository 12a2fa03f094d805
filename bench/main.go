// Command bench measures the cost of Gatehouse in a real Caddy, as `make bench` runs it: the overhead of `protect` on
// a reverse_proxy, the cost of issuing, verifying, refreshing, introspecting and revoking tokens, the cost of a
// refusal compared with Caddy's own, the traffic that survives a flood, and the memory that all of it takes.
//
// Machines are noisy, so the measure is the server process's processor time per request. The sides of a comparison
// are measured in turns, within seconds of each other. One side of each comparison appears twice: the difference
// between the two shows how far the other differences can be trusted. Requests per second and latencies are reported
// too. See docs/performance.md.
//
// The servers, their upstream and the load run in separate processes. This process generates the load.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

// Hidden commands that run this program as its own upstream, and as the verifier that a Caddy calls by forward_auth.
const (
	upstreamCommand = "serve-upstream"
	verifierCommand = "serve-verifier"
)

// options are the values of the flags.
type options struct {
	caddy, bare string
	dir         string
	only        string
	profiles    string
	json, svg   string
	quick       bool
	check       bool
	pin         bool
	gogc        int
	procs       int
	rounds      int
	requests    int // per side and round
	conns       int
	tokens      int // used in turn, in runs with many tokens
	flood       int // distinct bad tokens
	families    int // most families in a store
	idle        int // idle connections
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == upstreamCommand {
		fail(serveUpstream(os.Args[2]))
		return
	}
	if len(os.Args) == 6 && os.Args[1] == verifierCommand {
		fail(serveVerifier(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
		return
	}
	o := options{rounds: 11, requests: 8000, tokens: 20_000, flood: 200_000, conns: 16}
	flag.StringVar(&o.caddy, "caddy", "", "a Caddy with Gatehouse in it; otherwise ./caddy is built and measured")
	flag.StringVar(&o.bare, "bare", "", "a Caddy without; otherwise one of the same versions and flags is built into dist/bench")
	flag.StringVar(&o.dir, "dir", "", "keep the servers' files and their logs below this directory")
	flag.StringVar(&o.only, "only", "", "run these scenarios only, separated by commas: "+strings.Join(scenarioNames(), ", "))
	flag.StringVar(&o.profiles, "profiles", "", "write a CPU profile of each side of a comparison into this directory, after it was measured")
	flag.StringVar(&o.json, "json", "", "write all numbers into this file")
	flag.StringVar(&o.svg, "svg", "", "draw the curves into this directory")
	flag.BoolVar(&o.quick, "quick", false, "a short run: says whether it works, not how fast it is")
	flag.BoolVar(&o.check, "check", false, "compare the most important numbers with their bounds, and fail beyond one")
	flag.BoolVar(&o.pin, "pin", true, "keep processors for the servers, and others for the load and the upstream")
	flag.IntVar(&o.gogc, "gogc", 100, "GOGC of all servers, ours and the bare one")
	flag.IntVar(&o.procs, "procs", max(1, runtime.NumCPU()/2), "GOMAXPROCS of a server, and the processors that are kept for it")
	flag.IntVar(&o.rounds, "rounds", o.rounds, "rounds of each comparison")
	flag.IntVar(&o.requests, "requests", o.requests, "requests of one side in one round")
	flag.IntVar(&o.families, "families", 1_000_000, "families in the largest store of the growth scenarios; 5000000 take 3 GB of disk")
	flag.IntVar(&o.idle, "idle", 8000, "idle connections at most; the limit on open files must allow them")
	flag.IntVar(&o.conns, "conns", o.conns, "connections, where nothing else is said")
	flag.Parse()
	if o.quick {
		o.rounds, o.requests, o.tokens, o.flood, o.families, o.idle = 1, 400, 2000, 4000, 20_000, 1000
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
