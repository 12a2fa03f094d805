package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// TestF20ReloadDuringAnOutage: a reload while the database is silent → the gate goes on, nothing is lost, and what the new configuration ends
// ends when the database is back.
func TestF20ReloadDuringAnOutage(t *testing.T) {
	o := openRemote(t, pgtest.Shared(t))
	r := requestOf("conf")
	good, first, max := o.userTokens(r, ada).AccessToken, o.userTokens(r, ada), o.userTokens(r, "max@acme.example")
	before := o.app().node
	stop := o.guarding(good)
	o.proxy.Blackhole()
	site := peopleSite("store memory", o.store)
	from := strings.Index(site, "\t\tuser u-max {")
	to := from + strings.Index(site[from:], "\n\t\t}\n") + len("\n\t\t}\n")
	began := time.Now()
	o.reload(site[:from] + site[to:])
	took := time.Since(began)
	t.Logf("the reload took %s", took)
	if machine.Fair(took) > hangs {
		t.Errorf("the reload took %s", took)
	}
	if o.app().node != before {
		t.Error("the reload made another node")
	}
	if a := o.ask(t, "/oauth/token", r.refresh(first.RefreshToken).Encode()); a.status != http.StatusServiceUnavailable {
		t.Errorf("token: %d %s", a.status, a.body)
	}
	o.proxy.Restore()
	o.eventually("what is declared no more has ended", func() bool { return !o.alive(max.AccessToken) })
	stop()
	o.met(o.needs())
	o.gives(r.refresh(first.RefreshToken))
	o.denied(r.refresh(max.RefreshToken), badGrant(""))
}
