//go:build linux

package rig

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestS69ASignOutReachesAllNodes: a host session made at one of several nodes → good on all at once; a sign-out at one → refused by all
// within a second. The test measures how long the gates of the other nodes accept the session.
func TestS69ASignOutReachesAllNodes(t *testing.T) {
	besideOthers(t)
	c := StartCluster(t, 3, Setup{})
	rounds, lanes := either(24, 1000), either(2, 4)
	spread := new(times)
	concurrently(lanes, func(i int) {
		for range share(rounds, lanes, i) {
			if err := c.signOutOne(t.Context(), spread); err != nil {
				t.Error(err)
				return
			}
		}
	})
	measured(t, "S69: from a sign-out until the other gates refuse the session", "%v", spread)
	spread.arrived(t, "a sign-out")
}

// signOutOne signs a browser in at any node, and out at the first.
func (c *Cluster) signOutOne(ctx context.Context, spread *times) error {
	browser, host := NewBrowser(Ada), WebOf(c.URL)
	if _, err := browser.Visit(ctx, host+WebPage); err != nil {
		return err
	}
	copied := browser.keep(host)
	others := c.Nodes[1:]
	for _, n := range others { // they cache the session
		if answer := copied.See(to(ctx, n), host+WebPage); answer.Status != http.StatusOK {
			return fmt.Errorf("a session that was made by another node: %s", answer)
		}
	}
	refused, failed := make([]time.Time, len(others)), make([]error, len(others))
	var polling sync.WaitGroup
	for i, n := range others {
		polling.Go(func() { refused[i], failed[i] = copied.pollHost(to(ctx, n), host) })
	}
	answer := browser.SignOut(to(ctx, c.Nodes[0]), host)
	acknowledged := time.Now()
	polling.Wait()
	for i := range others {
		if failed[i] != nil {
			return failed[i]
		}
		spread.add(max(0, refused[i].Sub(acknowledged)))
	}
	return mustBe(answer, http.StatusSeeOther, "", "signing out")
}

// to sends the requests of a context to a node, whatever host they name.
func to(ctx context.Context, n *Node) context.Context {
	dialer := new(net.Dialer)
	return Via(ctx, &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, n.Addr)
	}})
}

// pollHost opens the page again and again, and returns when the session was first refused. From then on every answer must be a refusal.
func (b *Browser) pollHost(ctx context.Context, host string) (refused time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for more := 3; more > 0; <-ticker.C {
		answer := b.See(ctx, host+WebPage)
		switch {
		case answer.Status == http.StatusSeeOther && refused.IsZero():
			refused = time.Now()
		case answer.Status == http.StatusSeeOther:
			more--
		case answer.Status != http.StatusOK:
			return refused, fmt.Errorf("at the gate: %s", answer)
		case !refused.IsZero():
			return refused, fmt.Errorf("the gate accepts a session that it has refused")
		}
	}
	return refused, nil
}
