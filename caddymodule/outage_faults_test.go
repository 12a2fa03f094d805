package caddymodule

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// commit ends a transaction of several statements on the wire.
var commit = []byte("commit\x00")

// statementNamed returns the wire form of a prepared statement's execution: its name, after the empty name of a
// portal. A new connection, opened because the previous one was too slow, prepares the statement first. It has done
// nothing if the answer to that is lost.
func statementNamed(text string) []byte {
	digest := sha256.Sum256([]byte(text))
	return []byte("\x00stmt_" + hex.EncodeToString(digest[:24]) + "\x00")
}

// familyBorn is the wire form of adjacent values in the statement that adds a family for the client conf: its id and the grant, with lengths.
var familyBorn = []byte("\x00\x00\x00\x04conf\x00\x00\x00\x12authorization_code")

// This is the store's single-use statement. A change there requires the same change here; otherwise the test fails
// and says so.
const (
	userStands = `(user_declared OR EXISTS (SELECT 1 FROM users WHERE users.id = families.user_id
		AND CAST(users.version AS TEXT) = families.user_version AND status = 'active' AND (password_hash <> '' OR external OR service)))`
	redeemStatement = `UPDATE families SET code_spent_at = $1, rotated_at = $1, generation = $2, expires_at = $3
		WHERE id = $4 AND has_code AND code_spent_at IS NULL AND code_expires_at >= $1 AND revoked_at IS NULL AND code_failures < $5 AND ` + userStands
)

// cutAt drops the answer to a statement while during runs, and checks that this has happened.
func (o *remoteDoor) cutAt(match []byte, during func()) {
	o.t.Helper()
	happened := o.proxy.CutAfterRequest(match)
	during()
	select {
	case <-happened:
	case <-time.After(patience):
		o.t.Fatal("the answer was not lost: is the statement another one now?")
	}
}

// TestF12AnswerOfTheCommitLost: the answer of a commit is lost → the client gets temporarily_unavailable, and the
// step is done once or not at all. On the retry it finds one grant, and not two. Packages grants and sqlstore have the other steps.
func TestF12AnswerOfTheCommitLost(t *testing.T) {
	o := openRemote(t, pgtest.Shared(t))
	r := requestOf("conf")
	down := unavailable("store_unavailable")
	for range 2 {
		o.gives(r.refresh(o.userTokens(r, ada).RefreshToken))
	}
	o.sub("code", func(o *remoteDoor) {
		code := o.code(r, ada)
		o.cutAt(statementNamed(redeemStatement), func() { o.denied(r.exchange(code), down) })
		if f := o.family(code[:22]); f.Code.SpentAt.IsZero() || f.Refresh.Generation != 1 {
			o.t.Fatalf("not spent: %+v", f)
		}
		o.denied(r.exchange(code), badGrant("code_replayed"))
		if f := o.family(code[:22]); f.RevokedAt.IsZero() {
			o.t.Error("the family lives")
		}
		o.userTokens(r, ada) // the application asks again, and the browser is still signed in
	})
	o.sub("consent", func(o *remoteDoor) {
		b, asking := o.browser(), r
		asking.more = url.Values{"prompt": {"consent"}}
		p := b.signIn(b.open(asking.path()), ada, peoplePassword)
		for p.header.Get("Location") != "" {
			p = b.open(p.header.Get("Location"))
		}
		before := o.families()
		o.cutAt(familyBorn, func() {
			// The application gets the error (RFC 6749 §4.1.2.1).
			answer := b.decide(p, "allow").location().Query()
			if answer.Get("error") != "temporarily_unavailable" || answer.Has("code") {
				o.t.Errorf("consent: %s", answer)
			}
		})
		again := b.decide(p, "allow")
		if more := o.families() - before; more > 1 {
			o.t.Errorf("%d families for one request", more)
		}
		if again.status == http.StatusServiceUnavailable || again.status == http.StatusInternalServerError {
			o.t.Errorf("the retry: %d %s", again.status, again.body)
		}
		if b.authorize(r, ada).location().Query().Get("code") == "" {
			o.t.Error("no code afterwards")
		}
	})
	o.sub("a client is added", func(o *remoteDoor) {
		o.cutAt(commit, func() {
			if a := o.operator(http.MethodPost, "/oauth/clients", `{"id":"late","name":"Late"}`); a.status != http.StatusServiceUnavailable {
				o.t.Errorf("%d %s", a.status, a.body)
			}
		})
		o.must(http.StatusConflict, http.MethodPost, "/oauth/clients", `{"id":"late","name":"Late"}`)
		secret := member(o.t, o.must(http.StatusOK, http.MethodPost, "/oauth/clients/late/rotate-secret", `{}`), "client_secret")
		if status, _ := o.tokenFor("late", secret); status != http.StatusOK {
			o.t.Errorf("with a secret of its own: %d", status)
		}
	})
}
