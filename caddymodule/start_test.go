package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// TestF20ConfigurationThatIsLeftEndsNothing: the background work of an earlier configuration → it neither ends what the next one declares
// nor replaces its list.
func TestF20ConfigurationThatIsLeftEndsNothing(t *testing.T) {
	g := startPeople(t, "store memory", "store sqlite DIR/left.db")
	old := g.loaded().starting
	text := peopleSite("store memory", "store sqlite DIR/left.db")
	g.reload(cutBlock(t, text, "user u-ben {"))
	left := g.loaded().starting
	g.reload(text)
	stays := g.userTokens(requestOf("conf"), ada)
	for name, app := range map[string]*starting{"first": old, "second": left} {
		if err := app.settle(reconcileTimeout); err == nil {
			t.Errorf("the %s configuration has settled after its end", name)
		}
		app.beginLater()
		app.settleLater()
	}
	if !g.alive(stays.AccessToken) {
		t.Error("a configuration that was left has ended what the one after it declares")
	}
	if strings.Contains(g.logs(), "the store does not answer") {
		t.Error("a configuration that was left has begun again")
	}
}

// TestI4CollisionFoundLate: a configuration loaded while the database is away gives a stored client's id to a user → nothing is served as
// soon as that shows.
func TestI4CollisionFoundLate(t *testing.T) {
	o := openRemote(t, pgtest.Shared(t))
	o.must(http.StatusCreated, http.MethodPost, "/oauth/clients", `{"id":"late","name":"late"}`)
	token := o.userTokens(requestOf("conf"), ada).AccessToken
	good := peopleSite("store memory", o.store)
	o.proxy.Cut()
	o.reload(strings.Replace(good, "user u-max {", "user late {", 1))
	o.proxy.Restore()
	o.eventually("the contradiction shows", func() bool { return strings.Contains(o.logs(), "a client in the store has this id") })
	o.eventually("nothing is served", func() bool { return !o.app().life.isServing(t.Context()) })
	for name, a := range map[string]answer{
		"token": o.ask(t, "/oauth/token", ccGrant+"&"+asConf),
		"keys":  o.send(t, http.MethodGet, "/oauth/jwks", ""),
		"gate":  o.send(t, http.MethodGet, "/api/x", "", "Authorization", "Bearer "+token),
	} {
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	o.reload(good)
	o.awaitServing()
	if !o.alive(token) {
		t.Error("after the configuration was mended a good token is dead")
	}
}
