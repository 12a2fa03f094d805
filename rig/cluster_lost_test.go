//go:build linux

package rig

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// TestF29LostAnswersLogNobodyOutOnThreeNodes: one answer in twenty of the token endpoint is lost after its commit → no client has to sign
// in again. Clients repeat the request, and in the end each has a valid refresh token.
func TestF29LostAnswersLogNobodyOutOnThreeNodes(t *testing.T) {
	besideOthers(t)
	clients, refreshes := either(12, 100), either(12, 200)
	c := StartCluster(t, 3, Setup{})
	var answers, lost atomic.Int64
	c.Lose(func(answer *http.Response) bool {
		if answer.Request.URL.Path != "/oauth/token" || answer.StatusCode != http.StatusOK || answers.Add(1)%20 != 0 {
			return false
		}
		lost.Add(1)
		return true
	})
	held := make([]Tokens, clients)
	application := Application{c.URL, Console}
	for i := range held {
		held[i] = mustObtain(t, NewBrowser(Ada), application.at(c.Nodes[i%3])) // the first answer must not be lost: its code is spent
	}
	concurrently(clients, func(i int) {
		for range refreshes {
			tokens, err := refreshUntilAnswered(t.Context(), application, held[i].RefreshToken)
			if err != nil {
				t.Errorf("client %d is logged out: %v", i, err)
				return
			}
			held[i] = tokens
		}
	})
	measured(t, "F29: 5 % of the answers lost after the commit", "%d clients, %d refreshes, %d answers lost, all still logged in",
		clients, clients*refreshes, lost.Load())
	if lost.Load() == 0 {
		t.Error("no answer was lost")
	}
	if n := c.count(t, `SELECT count(*) FROM families WHERE client_id = $1 AND revoked_at IS NULL AND generation = $2`, Console, refreshes+1); n != clients {
		t.Errorf("%d of %d families live and have had %d generations", n, clients, refreshes+1)
	}
	c.mustAcceptEverywhere(t, application, held...)
}

// refreshUntilAnswered sends a refresh token until an answer arrives completely.
func refreshUntilAnswered(ctx context.Context, a Application, token string) (Tokens, error) {
	for began := time.Now(); ; {
		answer := a.Refresh(ctx, token)
		if !answer.Lost() || time.Since(began) > patience {
			return ReadTokens(answer)
		}
	}
}

func (c *Cluster) mustAcceptEverywhere(t *testing.T, a Application, all ...Tokens) {
	t.Helper()
	for _, tokens := range all {
		for _, n := range c.Nodes {
			if err := mustBe(a.at(n).Use(t.Context(), tokens.AccessToken), http.StatusOK, "", "a good token"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
