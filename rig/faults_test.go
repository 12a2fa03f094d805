//go:build linux && failpoint

package rig

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver for inspecting a database after a crash
	_ "modernc.org/sqlite"             // likewise

	"github.com/gatehouse-auth/gatehouse/internal/failpoint"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// point is where a node is killed, and whether its step has happened then.
type point struct {
	at string
	// happened is the value for SQLite, and postgres for PostgreSQL.
	happened, postgres bool
}

// aroundStep returns the points of a step that is a transaction of several statements.
func aroundStep(name string) []point {
	return []point{{"before: " + name, false, false}, {"after step: " + name, false, false}, {"after commit: " + name, true, true}}
}

// aroundStatement returns those of a step that is one statement: PostgreSQL has committed it when it has answered.
func aroundStatement(name string) []point {
	return []point{{"before: " + name, false, false}, {"after step: " + name, false, true}, {"after commit: " + name, true, true}}
}

// inAnswer returns the points of an answer.
func inAnswer(request string) []point {
	return []point{{"before response: " + request, true, true}, {"mid-response: " + request, true, true}}
}

// beforeRedirect returns the point of an answer without a body.
func beforeRedirect(request string) point { return point{"before response: " + request, true, true} }

// fault is what a node is doing when it is killed.
type fault struct {
	name   string
	points []point
	// prepare brings the scene to the moment before, act sends the request during which the node dies, and check checks the state
	// afterwards, whether the step has happened or not.
	prepare func(*scene)
	act     func(*scene) Answer
	check   func(s *scene, happened bool)
}

// faults are the steps of row F1 that a request causes. Between the authentication of the client and the step nothing is written, and one
// point therefore stands for both of the row's.
var faults = []fault{
	{
		"authorize", append(aroundStatement("adding family"), beforeRedirect("GET /oauth/authorize")),
		func(s *scene) { s.signedIn(Console) }, (*scene).authorize, (*scene).checkAuthorized,
	}, {
		"consent", append(aroundStatement("adding family"), beforeRedirect("POST /oauth/consent")),
		func(s *scene) { s.signedIn(Device); s.openForm() }, (*scene).sendForm, (*scene).checkAuthorized,
	}, {
		"sign-in", append(aroundStatement("adding family"), beforeRedirect("POST /oauth/login")),
		(*scene).openSignIn, (*scene).sendForm, (*scene).checkSignedIn,
	}, {
		"code", append(aroundStatement("redeeming code"), inAnswer("POST /oauth/token")...),
		(*scene).haveCode, (*scene).redeem, (*scene).checkRedeemed,
	}, {
		"S68 sign-in at a host", aroundStatement("redeeming code"),
		(*scene).haveAttempt, (*scene).comeBack, (*scene).checkAtHost,
	}, {
		"S68 end of a sign-in", aroundStep("ending families"),
		(*scene).atHost, (*scene).endSignIn, (*scene).checkSignInEnded,
	}, {
		"refresh", append(aroundStatement("rotating refresh token"), inAnswer("POST /oauth/token")...),
		(*scene).haveTokens, (*scene).refresh, (*scene).checkRefreshed,
	}, {
		"created token", append(aroundStatement("adding family"), inAnswer("POST "+creation)...),
		(*scene).haveTokens, (*scene).create, (*scene).checkCreated,
	}, {
		"revocation", append(aroundStep("ending families"), inAnswer("POST /oauth/revoke")...),
		(*scene).haveTokens, (*scene).revoke, (*scene).checkRevoked,
	}, {
		"disabled user", aroundStep("changing user"),
		(*scene).haveUser, (*scene).disable, (*scene).checkDisabled,
	}, {
		"key rotation", aroundStep("adding signing key"),
		(*scene).haveTokens, (*scene).rotateKeys, (*scene).checkRotated,
	}, {
		"key revocation", aroundStep("revoking signing key"),
		func(s *scene) { s.haveTokens(); s.kid = s.signingKey() }, (*scene).revokeKey, (*scene).checkKeyRevoked,
	},
}

const creation = "/api/v1/organisations/me/users/" + Grace + "/access_tokens"

// stores are the databases that a node is killed on.
var stores = []struct {
	name string
	open func(t *testing.T) *scene
}{
	{"sqlite", func(t *testing.T) *scene {
		n := New(t, Setup{})
		return newScene(t, n, "sqlite", "file:"+n.Dir+"/gatehouse.db?_pragma=busy_timeout(60000)", false)
	}},
	{"postgres", func(t *testing.T) *scene {
		dsn := pgtest.Shared(t).Database(t)
		c := &Cluster{t: t, DSN: dsn, Balancer: NewBalancer(t)}
		return newScene(t, c.Add(Setup{}, dsn), "pgx", dsn, true)
	}},
}

// scene is one node on its own database, with one person and one application.
type scene struct {
	t        *testing.T
	node     *Node
	postgres bool
	db       *sql.DB

	browser     *Browser
	application Application
	request     Request
	page        Answer // the one with a form
	at          string // its URL
	code        string
	tokens      Tokens
	kid, user   string
	hosts       int // living host sessions
	// families, decided and keys are the numbers before the step.
	families, decided, keys int
}

func newScene(t *testing.T, n *Node, driver, dsn string, postgres bool) *scene {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &scene{t: t, node: n, postgres: postgres, db: db}
}

// count queries the database for a number.
func (s *scene) count(query string) int {
	s.t.Helper()
	var n int
	if err := s.db.QueryRowContext(s.t.Context(), query).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scene) counts() (families, decided, keys int) {
	s.t.Helper()
	return s.count(`SELECT COUNT(*) FROM families`), s.count(`SELECT COUNT(*) FROM decided_requests`),
		s.count(`SELECT COUNT(*) FROM signing_keys`)
}

// arm returns the environment that kills a node at a point.
func arm(at string) string { return failpoint.Variable + "=kill 1 " + at }

// TestF1KilledAtEveryPoint: a node is killed at every point of every step, also of a sign-in at a host (S68), and starts again → each
// step is done or not, and its repetition has the documented answer.
func TestF1KilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			s := store.open(t)
			for _, f := range faults {
				for _, p := range f.points {
					t.Run(f.name+"/"+p.at, func(t *testing.T) { s.die(t, f, p) })
				}
			}
		})
	}
}

// die tests one step: 1 prepare it, 2 an armed node dies during it, 3 check the state with a node that is not armed.
func (s *scene) die(t *testing.T, f fault, p point) {
	s.t, s.browser = t, nil
	defer func() {
		if t.Failed() {
			s.node.Kill() // it may still be armed
		}
	}()
	if !s.node.Alive() {
		s.node.Restart()
	}
	f.prepare(s)
	s.families, s.decided, s.keys = s.counts()
	s.node.Kill()
	s.node.Restart(arm(p.at))
	if answer := f.act(s); !answer.Lost() || answer.Status != 0 {
		t.Errorf("the answer has arrived: %v", answer)
	}
	s.awaitDeath()
	s.node.Restart()
	happened := p.happened
	if s.postgres {
		happened = p.postgres
	}
	f.check(s, happened)
}

// awaitDeath waits until the node has killed itself.
func (s *scene) awaitDeath() {
	s.t.Helper()
	select {
	case <-s.node.Gone():
	case <-time.After(patience):
		s.t.Fatal("the node has not come to the point where it dies")
	}
}

// TestF1KilledWhileMigrating kills a node before and after every migration of an empty database, and at random moments. The next node
// completes the migration.
func TestF1KilledWhileMigrating(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			for version := 1; version <= migrations(t); version++ {
				for _, moment := range []string{"before", "after"} {
					t.Run(moment+" "+strconv.Itoa(version), func(t *testing.T) {
						s := store.open(t)
						if err := s.node.Launch(arm(moment + " migration: " + strconv.Itoa(version))); err != nil {
							t.Fatal(err)
						}
						s.awaitDeath()
						s.node.Restart()
						s.haveTokens()
						s.mustRefresh()
					})
				}
			}
			t.Run("whenever", func(t *testing.T) {
				s := store.open(t)
				for life := time.Millisecond; life < longestStart; life += longestStart / 20 {
					if err := s.node.Launch(); err != nil {
						t.Fatal(err)
					}
					time.Sleep(life)
					s.node.Kill()
				}
				s.node.Restart()
				s.haveTokens()
				s.mustRefresh()
			})
		})
	}
}

// longestStart is about how long a node takes to migrate an empty database, from the start of its process.
const longestStart = 300 * time.Millisecond

// TestF1KilledWhilePurging kills a node while it deletes expired records. Living ones are unchanged, and the next housekeeper deletes the
// rest.
func TestF1KilledWhilePurging(t *testing.T) {
	t.Parallel()
	const expired = 600 // more than one batch
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			s := store.open(t)
			s.node.Restart()
			s.haveTokens()
			s.node.Kill()
			s.multiply(expired, "dead", "1")
			for _, p := range aroundStep("dropping families") {
				s.vacate()
				before := s.dead()
				if err := s.node.Launch(arm(p.at)); err != nil {
					t.Fatal(err)
				}
				s.awaitDeath()
				if left := s.dead(); (left < before) != p.happened {
					t.Errorf("%s: %d of %d are left", p.at, left, before)
				}
			}
			s.vacate()
			s.node.Restart()
			for deadline := time.Now().Add(patience); s.dead() > 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d are left", s.dead())
				}
			}
			s.mustRefresh()
		})
	}
}

// dead counts the expired families.
func (s *scene) dead() int { return s.count(`SELECT COUNT(*) FROM families WHERE id LIKE 'dead%'`) }

// vacate ends the lease of a dead housekeeper, as two minutes would.
func (s *scene) vacate() {
	s.t.Helper()
	if _, err := s.db.ExecContext(s.t.Context(), `DELETE FROM leases`); err != nil {
		s.t.Fatal(err)
	}
}

// multiply adds copies of the existing family that expire at that moment.
func (s *scene) multiply(n int, name, expires string) {
	s.t.Helper()
	rows, err := s.db.QueryContext(s.t.Context(), `SELECT * FROM families LIMIT 0`)
	if err != nil {
		s.t.Fatal(err)
	}
	columns, err := rows.Columns()
	if err = errors.Join(err, rows.Close()); err != nil {
		s.t.Fatal(err)
	}
	values := slices.Clone(columns)
	values[slices.Index(columns, "id")] = "'" + name + "' || CAST(i AS TEXT)"
	values[slices.Index(columns, "expires_at")] = expires
	_, err = s.db.ExecContext(s.t.Context(), fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d),
		one AS (SELECT * FROM families WHERE client_id = '%s' LIMIT 1)
		INSERT INTO families (%s) SELECT %s FROM one, n`,
		n, Console, strings.Join(columns, ", "), strings.Join(values, ", ")))
	if err != nil {
		s.t.Fatal(err)
	}
}

// adminPost sends a request to the node's admin endpoint.
func (s *scene) adminPost(path, body string) Answer {
	return Send(s.t.Context(), http.MethodPost, "http://"+s.node.Admin+path, body, "Content-Type", "application/json")
}
