//go:build linux

package rig

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestKillingOneOfThreeNodes: a node that is killed loses only the requests in progress, and a client that repeats what is safe to repeat
// is always answered.
func TestKillingOneOfThreeNodes(t *testing.T) {
	besideOthers(t)
	kills := either(3, 60)
	c := StartCluster(t, 3, Setup{})
	l := newLoad(t, 5*time.Millisecond)
	l.start(either(6, 16), c.URL, nil)
	var deaths [][2]time.Time
	for i := range kills {
		l.goOn(either(60, 500))
		n, began := c.Nodes[i%3], time.Now()
		n.Kill()
		deaths = append(deaths, [2]time.Time{began, time.Now()})
		l.goOn(either(60, 500))
		n.Restart()
	}
	l.goOn(60)
	l.allAnswered()
	for _, a := range l.broken {
		inFlight := false
		for _, death := range deaths {
			inFlight = inFlight || a.from.Before(death[1]) && a.until.After(death[0])
		}
		if !inFlight {
			t.Errorf("%s, from %s to %s, was in flight at no death: %s", a.what, a.from.Format(time.StampMilli), a.until.Format(time.StampMilli), a.answer)
		}
	}
	measured(t, "killing 1 of 3 nodes under load", "%d kills, %d requests, %d broken in flight, 0 others, 0 after sending again",
		kills, l.requests(), len(l.broken))
}

// TestARollingRestartOfThreeNodes: each node in turn is ended by SIGTERM and restarted. Clients that repeat refused or cut requests
// notice nothing.
func TestARollingRestartOfThreeNodes(t *testing.T) {
	besideOthers(t)
	rounds := either(1, 15)
	c := StartCluster(t, 3, Setup{})
	l := newLoad(t, 5*time.Millisecond)
	l.start(either(6, 16), c.URL, nil)
	for range rounds {
		for _, n := range c.Nodes {
			l.goOn(either(60, 300))
			n.Restart()
		}
	}
	l.goOn(60)
	l.allAnswered()
	measured(t, "F22: rolling restarts of 3 nodes under load", "%d restarts, %d requests, %d cut, 0 after sending again",
		3*rounds, l.requests(), len(l.broken))
}

// TestF21SIGTERMLosesNothingOnTwoNodes: SIGTERM → the node is not ready at once, serves until the balancer has heard and finishes what it
// has begun; no request has to be sent again.
func TestF21SIGTERMLosesNothingOnTwoNodes(t *testing.T) {
	besideOthers(t)
	slow := newSlowUpstream(t)
	delay := either("8s", "3s") // once and long, because a busy machine must notice in time that a node is leaving; by hand often
	c := StartCluster(t, 2, Setup{Global: "shutdown_delay " + delay, Upstream: slow.address})
	watched := c.watchReadiness(t)
	token := mustObtain(t, NewBrowser(Ada), Application{c.URL, Console}).AccessToken
	l := newLoad(t, 5*time.Millisecond)
	l.start(either(6, 16), c.URL, nil)
	rounds := either(1, 20)
	for i := range rounds {
		n := c.Nodes[i%2]
		l.goOn(60)
		answer := slow.ask(t, n, token)
		n.Signal(syscall.SIGTERM)
		soon(t, "the node to say that it is leaving", func() bool { return !isReady(t, n) })
		if err := mustBe(Application{n.URL, Server}.ForItself(t.Context()), http.StatusOK, "", "a node that is leaving"); err != nil {
			t.Error(err)
		}
		soon(t, "the node to refuse connections", func() bool { return refuses(n) })
		slow.release()
		if err := mustBe(<-answer, http.StatusOK, "", "what was in flight"); err != nil {
			t.Error(err)
		}
		select {
		case <-n.Gone():
		case <-time.After(patience):
			t.Fatal("the node does not end")
		}
		if err := n.life().err; err != nil {
			t.Errorf("the node ended with %v", err)
		}
		n.Restart()
		soon(t, "the balancer to find the node again", func() bool { return watched.uses(n) })
	}
	l.unbroken("while a node was leaving")
	for _, n := range c.Nodes {
		n.Kill() // an orderly end was checked already, and takes long
	}
	measured(t, "F21: SIGTERM under load, shutdown_delay "+delay, "%d times, %d requests, 0 lost, 0 sent again", rounds, l.requests())
}

func refuses(n *Node) bool {
	connection, err := net.Dial("tcp", n.Addr)
	if err == nil {
		_ = connection.Close()
	}
	return err != nil
}

func isReady(t *testing.T, n *Node) bool {
	return Send(AtOnce(t.Context()), http.MethodGet, n.URL+"/oauth/ready", "").Status == http.StatusOK
}

// healthCheck is what a balancer knows of its nodes.
type healthCheck struct {
	mu    sync.Mutex
	ready []*Node
}

func (h *healthCheck) uses(n *Node) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, other := range h.ready {
		if other == n {
			return true
		}
	}
	return false
}

// watchReadiness makes the balancer use the nodes that are ready, as balancers with a health check do.
func (c *Cluster) watchReadiness(t *testing.T) *healthCheck {
	t.Helper()
	h, done, ended := new(healthCheck), make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(done)
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			var ready []*Node
			for _, n := range c.Nodes {
				if isReady(t, n) {
					ready = append(ready, n)
				}
			}
			h.mu.Lock()
			h.ready = ready
			h.mu.Unlock()
			c.Use(ready...)
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return h
}

// slowUpstream answers at once, except for requests that wait until they are released.
type slowUpstream struct {
	address string
	arrived chan struct{}
	goOn    chan struct{}
}

func newSlowUpstream(t *testing.T) *slowUpstream {
	t.Helper()
	u := &slowUpstream{arrived: make(chan struct{}), goOn: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/slow" {
			u.arrived <- struct{}{}
			<-u.goOn
		}
		_, _ = fmt.Fprint(w, "ok")
	}))
	t.Cleanup(server.Close)
	u.address = server.Listener.Addr().String()
	return u
}

// ask sends a request that waits, and returns when it has arrived.
func (u *slowUpstream) ask(t *testing.T, n *Node, token string) <-chan Answer {
	t.Helper()
	answer := make(chan Answer, 1)
	go func() {
		answer <- Send(t.Context(), http.MethodGet, n.URL+"/api/slow", "", "Authorization", "Bearer "+token)
	}()
	select {
	case <-u.arrived:
	case <-time.After(patience):
		t.Fatal("the request does not arrive")
	}
	return answer
}

func (u *slowUpstream) release() { u.goOn <- struct{}{} }
