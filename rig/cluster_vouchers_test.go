//go:build linux

package rig

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// reaches waits until a counter of a node has come to at least that.
func (n *Node) reaches(t *testing.T, name string, least float64) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := n.counted(t, name)
		if got >= least {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s of %s is %v, want %v", name, n.Addr, got, least)
		}
		time.Sleep(pollInterval)
	}
}

// The counters of what nodes say to each other about the tokens that they have signed.
const (
	sparedMetric  = "gatehouse_signatures_spared_total"
	heardMetric   = "gatehouse_vouched_tokens_heard_total"
	droppedMetric = "gatehouse_vouched_tokens_dropped_total"
	refusedMetric = "gatehouse_vouchers_refused_total"
)

// becomeSiblings waits until the other node has heard of everything that the one has issued, the last token included: they are told in
// the order in which they were issued, so that none is still to come that would be taken for a later one.
func becomeSiblings(t *testing.T, one, other *Node) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for known := false; !known; time.Sleep(pollInterval) {
		heard, spared := other.counted(t, heardMetric), other.counted(t, sparedMetric)
		last := one.mustGetToken(t)
		for wait := time.Now().Add(time.Second); other.counted(t, heardMetric) == heard && time.Now().Before(wait); {
			time.Sleep(pollInterval)
		}
		other.uses(t, last, http.StatusOK)
		known = other.counted(t, sparedMetric) > spared
		if time.Now().After(deadline) {
			t.Fatalf("%s never hears of the tokens of %s", other.Addr, one.Addr)
		}
	}
}

// uses shows a token to a node's gate, and ends the test unless the answer has that status.
func (n *Node) uses(t *testing.T, token string, status int) {
	t.Helper()
	if err := mustBe(Application{n.URL, Server}.Use(t.Context(), token), status, "", "using a token"); err != nil {
		t.Fatal(err)
	}
}

// TestK15TokensAreVouchedForBetweenNodes: a node does not verify signatures of another one, and everything else as ever. Who
// writes into the database what he likes gains nothing by it.
func TestK15TokensAreVouchedForBetweenNodes(t *testing.T) {
	c := StartCluster(t, 2, Setup{})
	a, b := c.Nodes[0], c.Nodes[1]
	becomeSiblings(t, a, b)
	hear := func(issue func()) {
		t.Helper()
		before := b.counted(t, heardMetric)
		issue()
		b.reaches(t, heardMetric, before+1)
	}
	t.Run("good", func(t *testing.T) {
		const n = 50
		before, sparedBefore := b.counted(t, heardMetric), b.counted(t, sparedMetric)
		var tokens []string
		for range n {
			tokens = append(tokens, a.mustGetToken(t))
		}
		b.reaches(t, heardMetric, before+n)
		for _, token := range tokens {
			b.uses(t, token, http.StatusOK)
			b.uses(t, token, http.StatusOK)
		}
		if got := b.counted(t, sparedMetric) - sparedBefore; got != n {
			t.Errorf("of %d signatures %v were spared", n, got)
		}
	})
	t.Run("altered", func(t *testing.T) {
		var token string
		hear(func() { token = a.mustGetToken(t) })
		for _, i := range []int{5, strings.IndexByte(token, '.') + 20, strings.LastIndexByte(token, '.') + 3} {
			b.uses(t, altered(token, i), http.StatusUnauthorized)
		}
		b.uses(t, token, http.StatusOK)
	})
	t.Run("revoked", func(t *testing.T) {
		var tokens Tokens
		hear(func() { tokens = mustObtain(t, NewBrowser(Ada), Application{a.URL, Console}) })
		if err := mustBe(Application{a.URL, Console}.Revoke(t.Context(), tokens.RefreshToken), http.StatusOK, "", "revoking"); err != nil {
			t.Fatal(err)
		}
		a.uses(t, tokens.AccessToken, http.StatusUnauthorized)
		if _, err := pollGate(t.Context(), Application{b.URL, Console}, tokens.AccessToken); err != nil {
			t.Error(err)
		}
	})
	t.Run("forged", func(t *testing.T) {
		token := altered(a.mustGetToken(t), -3)
		forgeVoucher(t, c.DSN, token)
		b.reaches(t, refusedMetric, 1)
		b.uses(t, token, http.StatusUnauthorized)
		// It is counted before somebody is told.
		soon(t, "somebody to be told", func() bool { return strings.Contains(b.Log(), "a voucher for tokens is not taken") })
	})
}

// altered is a token with another character at an index, from the end when it is negative.
func altered(token string, index int) string {
	if index < 0 {
		index += len(token)
	}
	other := "A"
	if token[index] == 'A' {
		other = "B"
	}
	return token[:index] + other + token[index+1:]
}

// forgeVoucher writes into the database that a node has signed a token.
func forgeVoucher(t *testing.T, dsn, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	digest := sha256.Sum256([]byte(token))
	soon(t, "a voucher to copy", func() bool {
		done, err := db.Exec(ctx, `WITH next AS (UPDATE counters SET position = position + 1 WHERE name = 'vouchers' RETURNING position)
			INSERT INTO vouchers SELECT next.position, 'mallory', 1, issuer, written_at, $1, mac
			FROM next, vouchers LIMIT 1`, digest[:])
		if err != nil {
			t.Fatal(err)
		}
		return done.RowsAffected() == 1
	})
}

// TestF32TokensWithoutADatabaseOnTwoNodes: while the database is away from one node, it issues tokens all the same, and the
// other, who cannot hear of them, verifies their signatures. Afterwards it hears of them again.
func TestF32TokensWithoutADatabaseOnTwoNodes(t *testing.T) {
	c := NewCluster(t)
	_, address, _ := strings.Cut(c.DSN, "@")
	address, _, _ = strings.Cut(address, "/")
	proxy := faultproxy.Start(t, address)
	a := c.Add(Setup{}, pgtest.Via(c.DSN, proxy.Addr()))
	b := c.Add(Setup{}, c.DSN)
	c.Start()
	becomeSiblings(t, a, b)
	proxy.Cut()
	before := b.counted(t, sparedMetric)
	for range 20 {
		b.uses(t, a.mustGetToken(t), http.StatusOK)
	}
	a.reaches(t, droppedMetric, 1)
	if got := b.counted(t, sparedMetric) - before; got != 0 {
		t.Errorf("%v signatures were spared", got)
	}
	proxy.Restore()
	becomeSiblings(t, a, b)
}
