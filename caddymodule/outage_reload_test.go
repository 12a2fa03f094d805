package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// TestF20ReloadDuringAnOutage: a new configuration is taken while the database is away. The gate does not notice, nothing
// is lost, and what the configuration has ended ends when the database is back.
func TestF20ReloadDuringAnOutage(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(*faultproxy.Proxy)
	}{{"refused", (*faultproxy.Proxy).Cut}, {"silent", (*faultproxy.Proxy).Blackhole}} {
		t.Run(c.name, func(t *testing.T) {
			o := openRemote(t, pgtest.Shared(t))
			r := requestOf("conf")
			good, first, max := o.userTokens(r, ada).AccessToken, o.userTokens(r, ada), o.userTokens(r, "max@acme.example")
			before := o.app().node
			stop := o.guarding(good)
			c.cut(o.proxy)
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
		})
	}
}

// moveTo loads a configuration with another database. One whose opening is slow, migrations included, counts as one that is away,
// for which nothing that runs is given up: it is loaded once more.
func (o *remoteDoor) moveTo(caddyfile string) {
	o.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := o.tryReload(caddyfile)
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), node.ErrAway.Error()) || time.Now().After(deadline) {
			o.t.Fatal(err)
		}
	}
	o.awaitOneListener()
	o.client.CloseIdleConnections() // see door.reload
	o.awaitServing()
}

// TestF20AnotherDatabase: another database is another state: it has other keys, sign-ins and people. Tokens are good where
// they were issued, before and after, and nowhere else.
func TestF20AnotherDatabase(t *testing.T) {
	server := pgtest.Shared(t)
	o := openRemote(t, server)
	r := requestOf("conf")
	elsewhere := peopleSite("store memory", "store postgres "+server.Database(t))
	kids, first, code := o.kids(), o.userTokens(r, ada), o.code(r, ada)
	o.moveTo(elsewhere)
	if now := o.kids(); now == kids {
		t.Errorf("the keys are those of the other database: %s", now)
	}
	if o.alive(first.AccessToken) {
		t.Error("the gate takes a token of another database")
	}
	o.denied(r.refresh(first.RefreshToken), badGrant("refresh_token_unknown"))
	o.denied(r.exchange(code), badGrant("code_unknown"))
	if p := o.browserOf(ada).open("/oauth/account"); p.status == http.StatusOK {
		t.Error("the browser is signed in")
	}
	second := o.userTokens(r, ada)
	o.moveTo(peopleSite("store memory", o.store))
	if now := o.kids(); now != kids {
		t.Errorf("back again the keys are %s, were %s", now, kids)
	}
	if !o.alive(first.AccessToken) || o.alive(second.AccessToken) {
		t.Error("back again a token is not what it was")
	}
	o.gives(r.refresh(first.RefreshToken))
	o.denied(r.refresh(second.RefreshToken), badGrant("refresh_token_unknown"))
}
