package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
)

// TestG140AFloodOfOpaqueTokensDelaysNobodyElse: a flood of unknown opaque tokens from one source → half of the questions at most, then
// 503; others are asked about next. Tokens from elsewhere are asked about all the same.
func TestG140AFloodOfOpaqueTokensDelaysNobodyElse(t *testing.T) {
	source := func(i int) string { return fmt.Sprintf("2001:db8:0:7::%x", i+1) } // addresses of one network
	p := startProvider(t)
	site := strings.Replace(trustSite, "\toauth {\n", "\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}\n\toauth {\n", 1)
	g := startTrustGate(t, p, site, "introspection "+p.url+providerIntrospect+" {", "\tclient gateway gateway-secret", "}")
	s := &floodScene{gateway: g.gateway}
	said := map[string]any{"active": true, "sub": "ada", "aud": g.url, "token_type": "Bearer", "exp": node.Clock().Unix() + 3600}
	ended, end := context.WithCancel(t.Context())
	var mu sync.Mutex
	var underWay, most int // questions about tokens of the flood
	p.says(providerIntrospect, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.PostFormValue("token"), "flood-") {
			mu.Lock()
			underWay++
			most = max(most, underWay)
			mu.Unlock()
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ended.Done():
			}
			mu.Lock()
			underWay--
			mu.Unlock()
		}
		_ = json.NewEncoder(w).Encode(p.introspect(r))
	})
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer end()
	busy := make(chan struct{})
	isBusy := sync.OnceFunc(func() { close(busy) })
	for i := range 400 {
		crowd.Go(func() {
			for n := 0; ended.Err() == nil; n++ {
				if status, _ := s.send(source(i), "/any/x", fmt.Sprintf("flood-%d-%d", i, n)); status == http.StatusServiceUnavailable {
					isBusy()
				}
			}
		})
	}
	<-busy // some have waited in vain: whatever the flood may have it has
	for n := range 3 {
		if status, _ := s.send(stranger, "/any/x", p.knows(fmt.Sprintf("fresh-%d-c9f0f895fb98ab9159f51fd0297e236d", n), said)); status != http.StatusOK {
			t.Errorf("a token from elsewhere: %d", status)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if most != 32 {
		t.Errorf("%d questions of the flood at once, want half of 64", most)
	}
}
