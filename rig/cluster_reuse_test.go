//go:build linux

package rig

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hasty is a client whose refresh tokens have a short grace, within the time of a test.
const (
	hasty      = "hasty"
	hastyGrace = 2 * time.Second
)

var hastySetup = Setup{OAuth: fmt.Sprintf(`client %s %s {
			grants authorization_code refresh_token
			scopes public trusted refresh_token
			redirect_uris %s
			first_party
			tokens {
				refresh_grace %v
			}
		}`, hasty, Secret(hasty), Callback, hastyGrace)}

// TestT84ReuseEndsTheFamilyOnAllNodes: a refresh token that is sent again to any node, after its successor has been used or its grace is
// over, ends the family, and within a second every node knows.
func TestT84ReuseEndsTheFamilyOnAllNodes(t *testing.T) {
	besideOthers(t)
	c := StartCluster(t, 3, hastySetup)
	spread := new(times)
	for range either(5, 300) {
		application := Application{c.URL, Console}
		first := mustObtain(t, NewBrowser(Ada), application)
		second := c.mustRefresh(t, application.at(c.Nodes[0]), first.RefreshToken)
		third := c.mustRefresh(t, application.at(c.Nodes[1]), second.RefreshToken)
		c.mustAcceptEverywhere(t, application, first, second, third)
		if err := mustBe(application.at(c.Nodes[2]).Refresh(t.Context(), first.RefreshToken), http.StatusBadRequest, "invalid_grant", "reuse"); err != nil {
			t.Fatal(err)
		}
		spread.add(c.mustRefuseEverywhere(t, application, first, second, third))
	}
	measured(t, "T84: from a reuse until three nodes refuse the family's tokens", "%v", spread)
	spread.arrived(t, "a reuse")
	if log := c.Nodes[2].Log(); !strings.Contains(log, "refresh_token_reused") {
		t.Error("the audit log of the node that has seen the reuse does not say so")
	}
	if n := c.Nodes[2].counted(t, "gatehouse_refresh_reuse_total"); n < 1 {
		t.Errorf("the node that has seen the reuse has counted %v", n)
	}

	t.Run("after the grace", func(t *testing.T) {
		application := Application{c.URL, hasty}
		first := mustObtain(t, NewBrowser(Ada), application)
		began := time.Now()
		second := c.mustRefresh(t, application.at(c.Nodes[0]), first.RefreshToken)
		var answer Answer
		soon(t, "the end of the grace", func() bool {
			answer = application.at(c.Nodes[1]).Refresh(t.Context(), first.RefreshToken)
			if answer.Status == http.StatusOK {
				mustSucceed(t, answer, second.RefreshToken)
			}
			return answer.Status != http.StatusOK
		})
		if err := mustBe(answer, http.StatusBadRequest, "invalid_grant", "after the grace"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < hastyGrace {
			t.Errorf("the grace was over after %v", took)
		}
		c.mustRefuseEverywhere(t, application, first, second)
	})
}

// mustSucceed fails unless an answer has that refresh token.
func mustSucceed(t *testing.T, answer Answer, successor string) {
	t.Helper()
	tokens, err := ReadTokens(answer)
	if err != nil {
		t.Fatal(err)
	}
	if tokens.RefreshToken != successor {
		t.Fatal("a refresh token has two successors")
	}
}

// mustRefuseEverywhere waits until no node accepts any of the tokens, and returns how long that took.
func (c *Cluster) mustRefuseEverywhere(t *testing.T, a Application, all ...Tokens) time.Duration {
	t.Helper()
	began := time.Now()
	for _, n := range c.Nodes {
		for _, tokens := range all {
			if _, err := refusedBy(t.Context(), a, tokens.AccessToken, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	took := time.Since(began)
	for _, n := range c.Nodes {
		for _, tokens := range all {
			if err := mustBe(a.at(n).Refresh(t.Context(), tokens.RefreshToken), http.StatusBadRequest, "invalid_grant", "a dead token"); err != nil {
				t.Fatal(err)
			}
		}
	}
	return took
}

// TestT86ALostAnswerIsRepeatedByAllNodes: a client that has not received the successor asks again, at any node and after all of them were
// restarted, and gets the same one.
func TestT86ALostAnswerIsRepeatedByAllNodes(t *testing.T) {
	besideOthers(t)
	c := StartCluster(t, 2, Setup{})
	application := Application{c.URL, Console}
	first := mustObtain(t, NewBrowser(Ada), application)

	c.Lose(func(*http.Response) bool { return true })
	if answer := application.Refresh(t.Context(), first.RefreshToken); !answer.Lost() {
		t.Fatalf("the answer was not lost: %s", answer)
	}
	if n := c.count(t, `SELECT generation FROM families WHERE client_id = $1`, Console); n != 2 {
		t.Fatalf("the lost answer was for generation %d, want 2", n)
	}
	second := c.mustRefresh(t, application.at(c.Nodes[0]), first.RefreshToken)
	mustSucceed(t, application.at(c.Nodes[1]).Refresh(t.Context(), first.RefreshToken), second.RefreshToken)
	for _, n := range c.Nodes {
		n.Kill()
	}
	c.Start()
	for _, n := range c.Nodes {
		mustSucceed(t, application.at(n).Refresh(t.Context(), first.RefreshToken), second.RefreshToken)
		if !strings.Contains(n.Log(), `"repeated":true`) {
			t.Errorf("the audit log of %s does not tell a repetition from a first answer", n.Addr)
		}
	}
	if n := c.count(t, `SELECT generation FROM families WHERE client_id = $1 AND revoked_at IS NULL`, Console); n != 2 {
		t.Errorf("after the repetitions the family has generation %d, want 2", n)
	}
	third := c.mustRefresh(t, application.at(c.Nodes[1]), second.RefreshToken)
	c.mustAcceptEverywhere(t, application, first, second, third)
}

// TestT88ARevocationSurvivesTheRestartOfAllNodes: the nodes lose all that they had in memory.
func TestT88ARevocationSurvivesTheRestartOfAllNodes(t *testing.T) {
	besideOthers(t)
	c := StartCluster(t, 3, Setup{})
	application := Application{c.URL, Console}
	browser := NewBrowser(Ada)
	first, kept := mustObtain(t, browser, application), mustObtain(t, browser, application)
	second := c.mustRefresh(t, application.at(c.Nodes[0]), first.RefreshToken)
	c.mustAcceptEverywhere(t, application, first, second, kept)
	if err := mustBe(application.at(c.Nodes[1]).Revoke(t.Context(), second.RefreshToken), http.StatusOK, "", "revoking"); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		n.Kill() // as soon as one of them has acknowledged
	}
	c.Start()
	for _, n := range c.Nodes {
		for _, tokens := range []Tokens{first, second} {
			// A node that serves has read all revocations before, and needs no further second.
			if err := mustBe(application.at(n).Use(t.Context(), tokens.AccessToken), http.StatusUnauthorized, "", "a revoked token"); err != nil {
				t.Error(err)
			}
			if err := mustBe(application.at(n).Refresh(t.Context(), tokens.RefreshToken), http.StatusBadRequest, "invalid_grant", "a revoked token"); err != nil {
				t.Error(err)
			}
		}
	}
	c.mustAcceptEverywhere(t, application, kept, c.mustRefresh(t, application, kept.RefreshToken))
}
