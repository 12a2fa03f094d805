package caddymodule

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// otherNode is a second issuer on the gatehouse's database, with connections and counters of its own.
func (g *gatehouse) otherNode(dsn string) *issuer.Parts {
	g.t.Helper()
	g.awaitServing()
	here := g.app()
	settings := here.settings.Node
	settings.DSN, settings.Rotation = dsn, settings.Rotation+time.Hour
	use, err := node.Acquire(settings, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = use.Release() })
	other := use.Value
	if err := other.Open(); err != nil {
		g.t.Fatal(err)
	}
	p := here.newIssuer(g.loaded().others.clientKeys.value)
	p.Families.Opened = families.Opened{
		Store: other.Store(), Directory: store.OverlayDirectory{Declared: here.settings.Issuer.Declared, Stored: other.Store()},
		Master: other.MasterKey(), JTIMAC: p.Families.JTIMAC,
	}
	p.SignIns.Hasher, p.Families.Limits.Attempts = other.Passwords, other.Attempts
	return p
}

// onPostgres is people with the failures that the default allows, within a time that is not over soon, on a database of its own.
// What is looked at is the sum of several nodes: a database that answers late on a busy machine is another matter.
func onPostgres(t *testing.T) (caddyfile, dsn string) {
	before := node.CountTimeout
	node.CountTimeout = patience
	t.Cleanup(func() { node.CountTimeout = before })
	dsn = pgtest.Shared(t).Database(t)
	return peopleSite("store memory", "store postgres "+dsn, "\t\t\tlogin off\n", "\t\t\tlogin 10/1h per account\n\t\t\tlogin 1000/1h per ip\n"), dsn
}

// guessAt tries a wrong password at the other node and returns the code of the refusal.
func guessAt(t *testing.T, node *issuer.Parts, email string) oauth.ErrorCode {
	_, err := node.SignIns.SignIn(t.Context(), signin.Attempt{Email: email, Password: oauth.NewSecret("wrong password"), Address: "127.0.0.2"})
	return oauth.AsError(err).Code
}

// TestT72OneCountForAllNodes: failures by password grant, sign-in page, another node and another spelling of the address → one count,
// then 429. Counted by each node, a guesser would have the limit once per node.
func TestT72OneCountForAllNodes(t *testing.T) {
	caddyfile, dsn := onPostgres(t)
	g := startGatehouse(t, caddyfile)
	node := g.otherNode(dsn)
	for i := range 3 {
		g.refused(nobodysClient.asPassword("ada@acme.example", "wrong password"), http.StatusBadRequest, "invalid_grant")
		b := g.browser()
		if p := b.signIn(b.open("/oauth/login"), "ADA@acme.example", "wrong password"); p.status != http.StatusOK {
			t.Fatalf("guess %d on the page: %d", i, p.status)
		}
		if code := guessAt(t, node, " ada@acme.example"); code != oauth.InvalidGrant {
			t.Fatalf("guess %d at the other node: %s", i, code)
		}
	}
	if code := guessAt(t, node, "Ada@Acme.example"); code != oauth.InvalidGrant {
		t.Fatalf("the tenth guess: %s", code)
	}
	g.refused(nobodysClient.asPassword("ada@acme.example", peoplePassword), http.StatusTooManyRequests, "temporarily_unavailable")
	if code := guessAt(t, node, "ada@acme.example"); code != oauth.RateLimited {
		t.Errorf("then the other node: %s", code)
	}
	g.obtain(nobodysClient.asPassword("grace@acme.example", peoplePassword))
}

// TestT73ParallelGuessesOnTwoNodes: 200 parallel guesses at two nodes → at most the limit and one per node are judged.
func TestT73ParallelGuessesOnTwoNodes(t *testing.T) {
	const limit, nodes, each = 10, 2, 100
	caddyfile, dsn := onPostgres(t)
	g := startGatehouse(t, caddyfile)
	node := g.otherNode(dsn)
	var judged, limited atomic.Int64
	// insist guesses again and again: a node that is busy hashing turns a guess away, and it counts no more.
	insist := func(guess func() oauth.ErrorCode) {
		for range 5 {
			switch code := guess(); code {
			case oauth.InvalidGrant:
				judged.Add(1)
			case oauth.RateLimited:
				limited.Add(1)
			case oauth.TemporarilyUnavailable:
			default:
				t.Errorf("a guess was answered with %s", code)
			}
		}
	}
	var guesses sync.WaitGroup
	for range each {
		guesses.Go(func() {
			insist(func() oauth.ErrorCode {
				status, _, body := g.post("/oauth/token", nobodysClient.asPassword("ada@acme.example", "wrong password"))
				if status == http.StatusTooManyRequests {
					return oauth.RateLimited
				}
				return oauth.ErrorCode(member(t, body, "error"))
			})
		})
		guesses.Go(func() { insist(func() oauth.ErrorCode { return guessAt(t, node, "ada@acme.example") }) })
	}
	guesses.Wait()
	if n := judged.Load(); n > limit+nodes || n == 0 || limited.Load() == 0 {
		t.Errorf("%d guesses were judged and %d limited, want at most %d judged", n, limited.Load(), limit+nodes)
	}
}
