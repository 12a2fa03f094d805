//go:build linux

package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// TestF15ARevocationReachesAllNodes: a revocation acknowledged by one node → the gates of the others refuse the token soon, by
// notification, and by the poll alone when the connections on which they listen have died silently.
func TestF15ARevocationReachesAllNodes(t *testing.T) {
	besideOthers(t)
	rounds := either(24, 1000)
	t.Run("by notification", func(t *testing.T) {
		c := StartCluster(t, 3, Setup{})
		spread := c.revoke(t, rounds, either(2, 4), 0)
		measured(t, "T95: from a revocation until the other gates refuse", "%v", spread)
		spread.arrived(t, "a revocation")
	})
	t.Run("by the poll alone", func(t *testing.T) {
		c := NewCluster(t)
		c.Add(Setup{}, c.DSN)
		for range 2 {
			c.Add(Setup{}, pgtest.Via(c.DSN, deafening(t, c.DSN).Addr()))
		}
		c.Start()
		spread := c.revoke(t, rounds, 8, time.Second)
		measured(t, "F15: the same without notifications", "%v", spread)
		// A poll each second, and the time that a poll and a request take.
		spread.arrivedWithin(t, "a revocation", usualEnd+250*time.Millisecond)
	})
}

// deafening returns a proxy in front of the database through which no LISTEN is ever answered.
func deafening(t *testing.T, dsn string) *faultproxy.Proxy {
	t.Helper()
	_, address, _ := strings.Cut(dsn, "@")
	address, _, _ = strings.Cut(address, "/")
	p := faultproxy.Start(t, address)
	for range 2000 { // one for each attempt
		p.SwallowReplies([]byte("LISTEN gatehouse"))
	}
	return p
}

// revoke obtains tokens and revokes them at the first node, in concurrent goroutines, and measures when the other gates refuse them. A pause
// of random length keeps the goroutines from synchronizing with a poll.
func (c *Cluster) revoke(t *testing.T, rounds, lanes int, pause time.Duration) *times {
	t.Helper()
	spread := new(times)
	concurrently(lanes, func(i int) {
		browser := NewBrowser(Ada)
		for range share(rounds, lanes, i) {
			if pause > 0 {
				time.Sleep(rand.N(pause))
			}
			if err := c.revokeOne(t.Context(), browser, spread); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return spread
}

func (c *Cluster) revokeOne(ctx context.Context, browser *Browser, spread *times) error {
	application := Application{c.URL, Console}
	tokens, err := obtain(ctx, browser, application)
	if err != nil {
		return err
	}
	others := c.Nodes[1:]
	for _, n := range others { // they cache their verdict
		if err := mustBe(application.at(n).Use(ctx, tokens.AccessToken), http.StatusOK, "", "a good token"); err != nil {
			return err
		}
	}
	refused, failed := make([]time.Time, len(others)), make([]error, len(others))
	var polling sync.WaitGroup
	for i, n := range others {
		polling.Go(func() { refused[i], failed[i] = pollGate(ctx, application.at(n), tokens.AccessToken) })
	}
	answer := application.at(c.Nodes[0]).Revoke(ctx, tokens.RefreshToken)
	acknowledged := time.Now()
	polling.Wait()
	for i := range others {
		if failed[i] != nil {
			return failed[i]
		}
		spread.add(max(0, refused[i].Sub(acknowledged)))
	}
	return mustBe(answer, http.StatusOK, "", "revoking")
}

// pollInterval is how often a gate is polled.
const pollInterval = 5 * time.Millisecond

// pollGate sends a token to a gate again and again, on one connection, and returns when it was first refused. From then on every answer
// must be a refusal.
func pollGate(ctx context.Context, a Application, token string) (refused time.Time, err error) {
	kept := new(http.Transport)
	defer kept.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(Via(ctx, kept), patience)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for more := 3; more > 0; <-ticker.C {
		answer := a.Use(ctx, token)
		switch {
		case answer.Status == http.StatusUnauthorized && refused.IsZero():
			refused = time.Now()
		case answer.Status == http.StatusUnauthorized:
			more--
		case answer.Status != http.StatusOK:
			return refused, fmt.Errorf("at the gate of %s: %s", a.URL, answer)
		case !refused.IsZero():
			return refused, fmt.Errorf("the gate of %s accepts a token that it has refused", a.URL)
		}
	}
	return refused, nil
}
