package gate

import (
	"context"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestOrdinaryRequestAllocates bounds the allocations for a request with a cached token: the state of the request,
// its header, the credential, and a context that can be cancelled. Rules add none.
func TestOrdinaryRequestAllocates(t *testing.T) {
	const ordinary = 8
	tok := &token.AccessToken{
		Subject: "u-ada", ClientID: "portal", Scopes: oauth.Scopes{"public"}, SignIn: token.SignIn{Organisation: "acme", Role: "admin"},
		ExpiresAt: time.Now().Add(time.Hour),
	}
	for _, test := range []struct {
		name   string
		change func(*Protect)
		most   float64
	}{
		{"no rule", func(*Protect) {}, ordinary},
		{"scopes of the route", func(p *Protect) { p.rules.scopes = []string{"public"} }, ordinary},
		{"rules", func(p *Protect) {
			p.rules.require = []*rule.Rule{
				{Scopes: []string{"public"}}, {AnyScope: []string{"trusted", "public"}}, {Roles: []string{"member", "admin"}},
				{Claim: "org", Values: []string{"acme"}},
			}
		}, ordinary},
		{"streams keep", func(p *Protect) { p.Streams = keepStreams }, ordinary - 2},
		{"strip", func(p *Protect) { p.credentials.upstreamToken = stripToken }, ordinary},
		{"forward off", func(p *Protect) { p.forwarding.claims = nil }, ordinary - 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := benchmarkedGate(tok)
			test.change(p)
			w := &discard{make(http.Header)}
			ctx, cancel := context.WithCancel(t.Context()) // as http.Server does
			defer cancel()
			r := caddyhttp.PrepareRequest(ordinaryRequest().WithContext(ctx), caddy.NewReplacer(), w, new(caddyhttp.Server))
			credential := r.Header["Authorization"]
			sent, passed := 0, 0
			next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
				passed++
				w.WriteHeader(http.StatusOK)
				_, err := w.Write(okBody)
				return err
			})
			least := allocations(test.most, func() {
				sent++
				r.Header["Authorization"] = credential
				if err := p.ServeHTTP(w, r, next); err != nil {
					t.Fatal(err)
				}
			})
			t.Logf("%v allocations", least)
			if least > test.most || passed != sent {
				t.Errorf("%v allocations, at most %v are due; %d of %d requests passed", least, test.most, passed, sent)
			}
		})
	}
}

// allocations returns the smallest number of allocations per call in up to ten measurements, because other goroutines of the
// process allocate too. It stops once the number is at most most.
func allocations(most float64, call func()) float64 {
	least := math.Inf(1)
	for looks := 0; looks < 10 && least > most; looks++ {
		least = min(least, testing.AllocsPerRun(100, call))
	}
	return least
}

var okBody = []byte("ok")
