//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hands is how many callers have the same code or refresh token in a race, half of them at each of two nodes.
const hands = 8

// raced sends the same request from many callers at the same moment, and returns all answers.
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
// ends.
func TestT52CodesRacedOnTwoNodes(t *testing.T) {
	besideOthers(t)
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
	// A request that was deferred may have created a family whose code was not received.
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

// haveCode proceeds until there is a code. If a redirect deferred it, it begins again, as people do, and counts a repetition.
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

// raceForACode lets many callers redeem a code. The code is spent unseen if a request that was deferred, and therefore sent again, has
// spent it nevertheless.
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

// isDead returns an error unless every node refuses the tokens of an answer.
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

// TestT87RefreshTokensRacedOnTwoNodes: parallel refreshes with one token, at two nodes → one new generation, the same successor in every 200.
func TestT87RefreshTokensRacedOnTwoNodes(t *testing.T) {
	besideOthers(t)
	families, rounds := either(6, 50), either(20, 200)
	c := StartCluster(t, 2, Setup{})
	began := time.Now()
	concurrently(either(3, 4), func(i int) {
		for range share(families, either(3, 4), i) {
			if err := c.raceForRefreshTokens(t.Context(), rounds); err != nil {
				t.Error(err)
				return
			}
		}
	})
	measured(t, "T87: refresh tokens that 8 threads use on 2 nodes", "%d tokens in %v", families*rounds, time.Since(began).Round(time.Second))
	if n := c.count(t, `SELECT count(*) FROM families WHERE has_code AND revoked_at IS NULL AND generation = $1`, rounds+1); n != families {
		t.Errorf("%d of %d families have had %d generations", n, families, rounds+1)
	}
}

func (c *Cluster) raceForRefreshTokens(ctx context.Context, rounds int) error {
	application := Application{c.URL, Console}
	tokens, err := obtain(ctx, NewBrowser(Grace), application)
	if err != nil {
		return err
	}
	for round := range rounds {
		n := hands
		if round == 0 {
			n = 64
		}
		newest := tokens.RefreshToken
		for i, answer := range raced(n, func(hand int) Answer {
			return application.at(c.Nodes[hand%len(c.Nodes)]).Refresh(ctx, newest)
		}) {
			mine, err := ReadTokens(answer)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if i > 0 && mine.RefreshToken != tokens.RefreshToken {
				return fmt.Errorf("round %d: two successors of one refresh token", round)
			}
			tokens = mine
		}
		if tokens.RefreshToken == newest {
			return errors.New("a refresh token is its own successor")
		}
	}
	return nil
}

// TestT89RevocationRacesRefreshOnTwoNodes: a revocation races a refresh → once it is acknowledged, its node accepts no token of the family, and
// the other node none soon after.
func TestT89RevocationRacesRefreshOnTwoNodes(t *testing.T) {
	besideOthers(t)
	rounds, people := either(60, 10_000), 4
	c := StartCluster(t, 2, Setup{})
	elsewhere := new(times)
	concurrently(people, func(i int) {
		browser := NewBrowser(Ben)
		for range share(rounds, people, i) {
			if err := c.raceWithARevocation(t.Context(), browser, elsewhere); err != nil {
				t.Error(err)
				return
			}
		}
	})
	measured(t, "T89: revocations that race refreshes, until the other node refuses", "%v", elsewhere)
	elsewhere.arrived(t, "a token on the other node")
}

func (c *Cluster) raceWithARevocation(ctx context.Context, browser *Browser, elsewhere *times) error {
	application := Application{c.URL, Console}
	tokens, err := obtain(ctx, browser, application)
	if err != nil {
		return err
	}
	access := []string{tokens.AccessToken}
	var acknowledged time.Time
	var here error
	answers := raced(5, func(hand int) Answer {
		if hand > 0 {
			return application.at(c.Nodes[hand%len(c.Nodes)]).Refresh(ctx, tokens.RefreshToken)
		}
		answer := application.at(c.Nodes[0]).Revoke(ctx, tokens.RefreshToken)
		acknowledged = time.Now()
		here = mustBe(application.at(c.Nodes[0]).Use(ctx, tokens.AccessToken), http.StatusUnauthorized, "", "after the revocation")
		return answer
	})
	if err := errors.Join(here, mustBe(answers[0], http.StatusOK, "", "revoking")); err != nil {
		return err
	}
	for _, answer := range answers[1:] {
		if refreshed, err := ReadTokens(answer); err == nil {
			access = append(access, refreshed.AccessToken)
		} else if err := mustBe(answer, http.StatusBadRequest, "invalid_grant", "refreshing"); err != nil {
			return err
		}
	}
	for _, token := range access {
		if err := mustBe(application.at(c.Nodes[0]).Use(ctx, token), http.StatusUnauthorized, "", "after the revocation"); err != nil {
			return err
		}
	}
	for _, token := range access {
		if _, err := refusedBy(ctx, application, token, c.Nodes[1]); err != nil {
			return err
		}
	}
	elsewhere.add(time.Since(acknowledged))
	return mustBe(application.at(c.Nodes[1]).Refresh(ctx, tokens.RefreshToken), http.StatusBadRequest, "invalid_grant", "refreshing")
}
