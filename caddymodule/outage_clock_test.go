package caddymodule

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// clockAlarm is part of the log line about clocks that are too far apart.
const clockAlarm = "clock and the database's are too far apart"

// agreed waits until the node has measured the offset between its clock and the database's.
func (o *remoteDoor) agreed(ahead time.Duration) {
	o.t.Helper()
	o.eventually("the clocks have been compared", func() bool {
		return (o.app().node.Status().ClockSkew + ahead).Abs() < 2*time.Second
	})
}

// TestF17ClockOfANode: a node whose clock is wrong from the start → codes and refresh tokens are judged by the
// database's clock, and the operator is warned.
func TestF17ClockOfANode(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"90 s behind": -90 * time.Second, "beyond 2038": 15 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			clock := runningClock(t)
			clock.advance(ahead)
			o := openRemote(t, pgtest.Shared(t))
			o.agreed(ahead) // after a slow reading of the database's time, the node retries later
			o.judgesByTheDatabase(ahead)
			if !strings.Contains(o.logs(), clockAlarm) {
				t.Error("the log has no alarm")
			}
		})
	}
}

// judgesByTheDatabase creates good codes and tokens, and some that have expired by the database's clock. Access
// tokens are issued by the database's clock and verified by the node's, which is ahead. Their age is then that
// difference.
func (o *remoteDoor) judgesByTheDatabase(ahead time.Duration) {
	o.t.Helper()
	r, db := requestOf("conf"), o.beside()
	code := o.code(r, ada)
	if expires := o.family(code[:22]).Code.ExpiresAt; time.Until(expires) > time.Minute+hangs || time.Until(expires) < 0 {
		o.t.Errorf("the code expires in %s by the database's clock", time.Until(expires))
	}
	got := o.gives(r.exchange(code))
	if lives := ahead < 6*time.Hour; o.alive(got.AccessToken) != lives {
		o.t.Errorf("that the gate accepts a token of its own node is %t, want %t", !lives, lives)
	}
	got = o.gives(r.refresh(got.RefreshToken))
	late, old := o.code(r, ada), o.userTokens(r, ada)
	past := time.Now().Add(-time.Second).UnixMicro()
	o.exec(db, `UPDATE families SET code_expires_at = $1 WHERE id = $2`, past, late[:22])
	o.denied(r.exchange(late), badGrant("code_expired"))
	o.exec(db, `UPDATE families SET expires_at = $1 WHERE id = $2`, past, claims(o.t, old.AccessToken)["sid"])
	o.denied(r.refresh(old.RefreshToken), badGrant("refresh_token_expired"))
	o.gives(r.refresh(got.RefreshToken))
}

// TestF17ClockThatJumps: the clock of a running node is set → nothing is revived, good tokens pass once the node has
// compared its clock with the database's, and an alarm is logged where the jump exceeds the leeway.
func TestF17ClockThatJumps(t *testing.T) {
	for _, c := range []struct {
		name string
		jump time.Duration
	}{{"a few seconds back", -7 * time.Second}, {"an hour ahead", time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			clock := runningClock(t)
			o := openRemote(t, pgtest.Shared(t))
			r, db := requestOf("conf"), o.beside()
			good, old, revoked := o.userTokens(r, ada).AccessToken, o.userTokens(r, ada), o.userTokens(r, ada)
			past := time.Now().Add(-time.Second).UnixMicro()
			o.exec(db, `UPDATE families SET expires_at = $1 WHERE id = $2`, past, claims(t, old.AccessToken)["sid"])
			o.denied(r.refresh(old.RefreshToken), badGrant("refresh_token_expired"))
			o.ask(t, "/oauth/revoke", r.about(revoked.RefreshToken).Encode())
			o.gone(revoked.AccessToken)
			clock.advance(c.jump)
			o.denied(r.refresh(old.RefreshToken), badGrant("refresh_token_expired"))
			if o.alive(revoked.AccessToken) {
				t.Error("the jump revived a revoked token")
			}
			o.agreed(c.jump)
			o.eventually("the gate knows again", func() bool { return o.alive(good) })
			o.denied(r.refresh(old.RefreshToken), badGrant("refresh_token_expired"))
			o.gone(revoked.AccessToken)
			o.judgesByTheDatabase(c.jump)
			if got := strings.Contains(o.logs(), clockAlarm); got != (c.jump.Abs() > store.Leeway) {
				t.Errorf("an alarm: %t", got)
			}
		})
	}
}
