//go:build linux

package rig

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reload loads a configuration into a node, as `caddy reload --force` does.
func (n *Node) reload(t *testing.T, caddyfile string) Answer {
	t.Helper()
	return uncut(t, func() Answer {
		return Send(t.Context(), http.MethodPost, "http://"+n.Admin+"/load", caddyfile, "Content-Type", "text/caddyfile", "Cache-Control", "must-revalidate")
	})
}

// uncut sends a request again as long as a reload may have cut it. Caddy answers before it has closed its former servers, including that
// of the admin endpoint. The kernel resets a connection that is in the accept queue of a closed server, and what was sent on it has not
// been seen. A request that ends with an EOF may have been seen. A panic of a handler fails the test when the node ends.
func uncut(t *testing.T, send func() Answer) (answer Answer) {
	t.Helper()
	soon(t, "a request that no reload cuts", func() bool {
		answer = send()
		return !slices.ContainsFunc([]error{syscall.ECONNRESET, syscall.EPIPE, io.EOF}, func(cut error) bool { return errors.Is(answer.Err, cut) })
	})
	return answer
}

// usage is what a node holds that could leak.
type usage struct{ goroutines, files, connections int }

// usage queries a node and its database. It does not count its own connection.
func (c *Cluster) usage(t *testing.T, n *Node) usage {
	t.Helper()
	u := usage{goroutines: n.goroutines(t), files: n.files(t)}
	u.connections = c.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	return u
}

// settledWithin reports whether nothing has grown beyond what serving occasionally needs.
func (u usage) settledWithin(before usage, nodes int) bool {
	return u.goroutines <= before.goroutines+20 && u.files <= before.files+15 && u.connections <= nodes*12
}

// settles waits until a node holds no more than before of what can leak.
func (c *Cluster) settles(t *testing.T, n *Node, before usage) usage {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		now := c.usage(t, n)
		switch {
		case now.settledWithin(before, len(c.Nodes)):
			return now
		case time.Since(began) > patience:
			t.Errorf("%s holds %+v, and held %+v before", n.Addr, now, before)
			t.Log(Send(t.Context(), http.MethodGet, "http://"+n.Admin+"/debug/pprof/goroutine?debug=1", "").Body)
			return now
		}
	}
}

// counted returns the sum of a node's counter over its labels.
func (n *Node) counted(t *testing.T, name string) (sum float64) {
	t.Helper()
	metrics := uncut(t, func() Answer { return Send(t.Context(), http.MethodGet, "http://"+n.Admin+"/metrics", "") })
	for line := range strings.Lines(metrics.Body) {
		var value float64
		if !strings.HasPrefix(line, name) {
			continue
		}
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &value); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		sum += value
	}
	return sum
}

// TestF18ReloadsUnderLoadOnThreeNodes: a client that repeats cut requests does not notice that a node reloads its configuration, and few
// requests are cut. Streams continue, and still end with their token. Nothing leaks. What is cut are connections that the kernel has
// accepted on the old socket when it is closed, and Caddy has not. A bare Caddy is measured for comparison.
func TestF18ReloadsUnderLoadOnThreeNodes(t *testing.T) {
	besideOthers(t)
	reloads, bad := either(6, 500), either(3, 100)
	c := StartCluster(t, 3, multiplexing(Setup{
		Upstream: streamingUpstream(t) + " {\n\t\t\tstream_close_delay 1h\n\t\t\ttransport http {\n\t\t\t\tkeepalive off\n\t\t\t}\n\t\t}",
	}))
	application := Application{c.URL, Console}
	holder := mustObtain(t, NewBrowser(Ben), application)
	var open []*stream
	for i := range len(streamKinds) * len(c.Nodes) {
		open = append(open, mustOpen(t, c.Nodes[i/len(streamKinds)], holder.AccessToken, i))
		open[i].watchSilent()
	}
	var before []usage
	var counters []float64
	for _, n := range c.Nodes {
		before, counters = append(before, c.usage(t, n)), append(counters, n.counted(t, "gatehouse_tokens_issued_total"))
	}

	quiet := c.variedLoad(t)
	quiet.goOn(either(100, 5000))
	quiet.stop()
	busy := c.variedLoad(t)
	for i := range reloads {
		began := time.Now()
		if err := mustBe(c.Nodes[i%3].reload(t, c.Nodes[i%3].configuration()), http.StatusOK, "", "reloading"); err != nil {
			t.Error(err)
		}
		if i%max(1, reloads/bad) == 0 {
			broken := strings.Replace(c.Nodes[i%3].configuration(), "refresh_grace", "refresh_grease", 1)
			if err := mustBe(c.Nodes[i%3].reload(t, broken), http.StatusBadRequest, "", "loading nonsense"); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Until(began.Add(300 * time.Millisecond)))
	}
	busy.goOn(100)
	busy.report(t, reloads, quiet)
	reloadBareCaddy(t, either(2, 100))

	for i, s := range open {
		if err := s.goesOn(); err != nil {
			t.Errorf("stream %d after the reloads: %v", i, err)
		}
	}
	for i, n := range c.Nodes {
		if now := n.counted(t, "gatehouse_tokens_issued_total"); now <= counters[i] {
			t.Errorf("%s has counted %v tokens, and %v before", n.Addr, now, counters[i])
		}
		now := c.settles(t, n, before[i])
		measured(t, fmt.Sprintf("F18: node %d before and after %d reloads", i, reloads), "goroutines %d and %d, files %d and %d; connections of all nodes to the database %d",
			before[i].goroutines, now.goroutines, before[i].files, now.files, now.connections)
	}
	ended := new(times)
	if err := mustBe(application.Revoke(t.Context(), holder.RefreshToken), http.StatusOK, "", "revoking"); err != nil {
		t.Fatal(err)
	}
	awaitEnds(t, open, time.Now(), ended)
	ended.arrived(t, "a stream that has seen reloads")
}

// variety is load by the different kinds of clients.
type variety struct {
	fresh, multiplexed, kept *load
	transports               []*http.Transport
}

// variedLoad starts clients with a connection for each request, with HTTP/2, and with kept connections.
func (c *Cluster) variedLoad(t *testing.T) *variety {
	t.Helper()
	pause := 5 * time.Millisecond
	v := &variety{fresh: newLoad(t, pause), multiplexed: newLoad(t, pause), kept: newLoad(t, pause)}
	v.fresh.start(either(3, 6), c.URL, nil)
	for _, n := range c.Nodes {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		two, one := &http.Transport{Protocols: protocols}, new(http.Transport)
		v.transports = append(v.transports, one, two)
		v.multiplexed.start(1, n.URL, two)
		v.kept.start(either(1, 2), n.URL, one)
	}
	return v
}

func (v *variety) all() []*load { return []*load{v.fresh, v.multiplexed, v.kept} }

func (v *variety) goOn(requests int) {
	for _, l := range v.all() {
		l.goOn(requests)
	}
}

// stop stops all clients, and closes kept connections.
func (v *variety) stop() {
	for _, l := range v.all() {
		l.stop()
	}
	for _, transport := range v.transports {
		transport.CloseIdleConnections()
	}
}

// report fails the test for errors, and measures the rest.
func (v *variety) report(t *testing.T, reloads int, quiet *variety) {
	t.Helper()
	v.stop()
	for i, kind := range []string{"a connection for each request", "HTTP/2", "kept HTTP/1.1 connections"} {
		l, was := v.all()[i], quiet.all()[i]
		l.allAnswered()
		// A reload cuts a client's request at most once: the next connection is to the new server.
		most := l.count * reloads
		if i > 0 { // these stay with one node, which gets its share of the reloads
			most = l.count * (reloads/(len(v.transports)/2) + 1)
		}
		if len(l.broken) > most {
			t.Errorf("%s: %d of %d requests failed at first, want %d at most; the last: %s", kind, len(l.broken), l.requests(), most, l.broken[len(l.broken)-1].answer)
		}
		measured(t, fmt.Sprintf("F18: %d reloads, %s", reloads, kind), "%d requests, %d failed at first, 0 after sending again; p99 %v, without reloads %v",
			l.requests(), len(l.broken), l.latency.quantile(0.99).Round(100*time.Microsecond), was.latency.quantile(0.99).Round(100*time.Microsecond))
	}
}

// reloadBareCaddy measures what the same reloads cost the clients of a Caddy without Gatehouse in its configuration.
func reloadBareCaddy(t *testing.T, reloads int) {
	t.Helper()
	n := New(t, Setup{})
	_, port, _ := strings.Cut(n.Addr, ":")
	bare := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n}\nhttp://:%s {\n\tbind 127.0.0.1\n\trespond ok\n}\n", n.Admin, port)
	if err := os.WriteFile(n.caddyfile(), []byte(bare), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Launch(); err != nil {
		t.Fatal(err)
	}
	ask := func() Answer { return Send(t.Context(), http.MethodGet, n.URL+"/", "") }
	soon(t, "a bare Caddy to answer", func() bool { return ask().Status == http.StatusOK })
	l := newLoad(t, 5*time.Millisecond)
	for range either(3, 6) {
		l.running.Go(func() {
			for !l.isStopped() {
				l.ask("GET", ask)
			}
		})
	}
	for range reloads {
		began := time.Now()
		if err := mustBe(n.reload(t, bare), http.StatusOK, "", "reloading a bare Caddy"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Until(began.Add(300 * time.Millisecond)))
	}
	l.allAnswered()
	measured(t, fmt.Sprintf("F18: %d reloads of a bare Caddy, a connection for each request", reloads), "%d requests, %d failed at first", l.requests(), len(l.broken))
}
