//go:build linux

package rig

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// passing is a client whose tokens live only a moment.
const (
	passing     = "passing"
	passingLife = 4 * time.Second
)

var passingSetup = Setup{OAuth: fmt.Sprintf(`client %s %s {
			grants client_credentials
			tokens {
				client_credentials %v
			}
		}`, passing, Secret(passing), passingLife)}

// TestG71StreamsEndOnAllNodes: WebSockets and event streams whose token is revoked at another node or expires → they end; those of other
// tokens go on, and nothing is left.
func TestG71StreamsEndOnAllNodes(t *testing.T) {
	besideOthers(t)
	setup := multiplexing(passingSetup)
	setup.Upstream = streamingUpstream(t)
	c := StartCluster(t, 3, setup)
	const each = 8 // streams of one token
	tokens := either(2, 125)

	application, browser := Application{c.URL, Console}, NewBrowser(Ada)
	keeper := mustObtain(t, browser, application)
	var kept []*stream
	for i := range streamKinds {
		kept = append(kept, mustOpen(t, c.Nodes[1], keeper.AccessToken, i))
		kept[i].watchSilent()
	}
	var before []usage
	for _, n := range c.Nodes {
		before = append(before, c.usage(t, n))
	}
	expiring, expiry := c.openPassing(t)
	families, open := make([]Tokens, tokens), make([][]*stream, tokens)
	for i := range families {
		families[i] = mustObtain(t, browser, application)
		for n := range each { // on the other nodes than the one that revokes
			open[i] = append(open[i], mustOpen(t, c.Nodes[1+n/len(streamKinds)], families[i].AccessToken, n))
		}
	}

	revoked := new(times)
	concurrently(4, func(i int) {
		for n := range share(tokens, 4, i) {
			family := n*4 + i
			asked := time.Now()
			if err := mustBe(application.at(c.Nodes[0]).Revoke(t.Context(), families[family].RefreshToken), http.StatusOK, "", "revoking"); err != nil {
				t.Error(err)
				return
			}
			awaitEnds(t, open[family], asked, revoked)
		}
	})
	measured(t, "G71: from a revocation until the streams on the other nodes end", "%v", revoked)
	revoked.arrived(t, "a stream of a revoked token")

	expired := new(times)
	awaitEnds(t, expiring, expiry, expired)
	measured(t, "G71: from the end of a token's life until its streams end", "%v", expired)
	expired.arrived(t, "a stream of an expired token")

	for i, n := range c.Nodes {
		c.settles(t, n, before[i])
	}
	for i, s := range kept {
		if err := s.goesOn(); err != nil {
			t.Errorf("%s with a good token: %v", streamKinds[i].name, err)
		}
	}
	ended := new(times)
	asked := time.Now()
	if err := mustBe(application.at(c.Nodes[0]).Revoke(t.Context(), keeper.RefreshToken), http.StatusOK, "", "revoking"); err != nil {
		t.Fatal(err)
	}
	awaitEnds(t, kept, asked, ended)
	ended.arrived(t, "a stream whose token outlived others")
}

// openPassing opens streams of all kinds on all nodes with a token that will soon expire, and returns when it does. On a machine that is
// too slow to open them in time it begins again with another token.
func (c *Cluster) openPassing(t *testing.T) (streams []*stream, expiry time.Time) {
	t.Helper()
	for range 10 {
		brief, err := ReadTokens(Application{c.URL, passing}.ForItself(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		streams, expiry = nil, time.Unix(brief.CreatedAt+int64(brief.ExpiresIn), 0)
		for i := range 3 * len(streamKinds) {
			s, err := tryOpen(t, c.Nodes[i%len(c.Nodes)], brief.AccessToken, i)
			if err != nil && time.Now().Before(expiry.Add(-time.Second)) {
				t.Fatal(err)
			}
			if err != nil {
				break
			}
			s.watchEnd()
			streams = append(streams, s)
		}
		if len(streams) == 3*len(streamKinds) {
			return streams, expiry
		}
	}
	t.Fatal("a token expires before its streams are open")
	return nil, time.Time{}
}
