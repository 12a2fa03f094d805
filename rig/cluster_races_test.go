//go:build linux

package rig

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hands is how many hold one code or one refresh token in a race, half of them at each of two nodes.
const hands = 8

// raced sends the same at the same moment from many hands, and returns all answers.
func raced(n int, send func(hand int) Answer) []Answer {
	answers, start := make([]Answer, n), make(chan struct{})
	var racing sync.WaitGroup
	for i := range n {
		racing.Go(func() {
			<-start
			answers[i] = send(i)
		})
	}
	close(start)
	racing.Wait()
	return answers
}

// TestT52CodesRacedOnTwoNodes: codes raced by many callers at two nodes on one PostgreSQL → exactly one success each, and the family
// ends. The others' attempts end the family.
func TestT52CodesRacedOnTwoNodes(t *testing.T) {
	codes, people := either(100, 10_000), 4
	c := StartCluster(t, 2, Setup{})
	began := time.Now()
	var repeated, unseen atomic.Int64
	ctx := Counting(t.Context(), &repeated)
	concurrently(people, func(i int) {
		browser := NewBrowser(Ada)
		for range share(codes, people, i) {
			request, code, err := haveCode(ctx, browser, Application{c.URL, Console}, &repeated)
			if err == nil {
				err = c.raceForACode(ctx, request, code, &unseen)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	measured(t, "T52: codes that 8 threads redeem on 2 nodes", "%d codes in %v, %d requests sent again after a 503 and walks begun anew, %d codes spent unseen",
		codes, time.Since(began).Round(time.Second), repeated.Load(), unseen.Load())
	if n := unseen.Load(); n > int64(codes/10) {
		t.Errorf("nobody got tokens for %d of %d codes", n, codes)
	}
	count := func(condition string) int {
		return c.count(t, `SELECT count(*) FROM families WHERE client_id = $1 AND has_code`+condition, Console)
	}
	// A request that was put off may have made a family, whose code nobody has seen.
	if n, most := count(``), codes+int(repeated.Load()); n < codes || n > most {
		t.Errorf("%d families with a code, want %d, or up to %d", n, codes, most)
	}
	if n := count(` AND code_spent_at IS NOT NULL AND generation = 1`); n != codes {
		t.Errorf("%d spent codes, want %d", n, codes)
	}
	if n := count(` AND revoked_at IS NOT NULL`); n != codes {
		t.Errorf("%d families that ended, want %d", n, codes)
	}
}

// haveCode walks as far as the code. Who is put off by a redirect begins anew, as people do, and it is counted among what was
// repeated.
func haveCode(ctx context.Context, b *Browser, a Application, repeated *atomic.Int64) (Request, string, error) {
	for tries := 1; ; tries++ {
		request := a.Ask()
		code, answer, err := b.Authorize(ctx, request)
		if err == nil || tries == 5 || !answer.isPutOff() {
			return request, code, err
		}
		repeated.Add(1)
	}
}

// raceForACode lets many hands redeem a code. It is spent unseen when a request that was put off, and therefore sent again, has
// spent it all the same.
func (c *Cluster) raceForACode(ctx context.Context, request Request, code string, unseen *atomic.Int64) error {
	var won []Answer
	isSentAgain := false
	for _, answer := range raced(hands, func(hand int) Answer {
		mine := request
		mine.URL = c.Nodes[hand%len(c.Nodes)].URL
		return mine.Redeem(ctx, code)
	}) {
		isSentAgain = isSentAgain || answer.Repeated > 0
		if answer.Status == http.StatusOK {
			won = append(won, answer)
		} else if err := mustBe(answer, http.StatusBadRequest, "invalid_grant", "redeeming a code"); err != nil {
			return err
		}
	}
	switch {
	case len(won) == 1:
		return c.isDead(ctx, request.Application, won[0])
	case len(won) == 0 && isSentAgain:
		unseen.Add(1)
		return nil
	}
	return fmt.Errorf("%d of %d got tokens for one code: %v", len(won), hands, won)
}

// isDead returns an error unless the tokens of an answer open nothing, on whichever node.
func (c *Cluster) isDead(ctx context.Context, a Application, answer Answer) error {
	tokens, err := ReadTokens(answer)
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := mustBe(a.at(n).Refresh(ctx, tokens.RefreshToken), http.StatusBadRequest, "invalid_grant", "refreshing"); err != nil {
			return err
		}
		if _, err := refusedBy(ctx, a, tokens.AccessToken, n); err != nil {
			return err
		}
	}
	return nil
}
