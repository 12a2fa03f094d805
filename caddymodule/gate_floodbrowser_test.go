package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG81ABrowserThatSignsInHasFailed with a token in its header all the same: a signature of another issuer's costs as much where
// browsers sign in as anywhere. Who has a good token is held back nowhere, nor who has none.
func TestG81ABrowserThatSignsInHasFailed(t *testing.T) {
	setClock(t)
	p := startProvider(t)
	site := strings.Replace(floodSite, "\t\tlimits {", "\t\ttrust corp PROVIDER {\n\t\t\taudience http://ADDR\n\t\t\tallow_private_network\n\t\t}\n\t\tlimits {", 1)
	site = strings.Replace(site, "\t\t\tchallenge browser\n", "\t\t\tchallenge browser\n\t\t\tissuer self corp\n", 1)
	s := startFloodScene(t, trusting(p, site))
	theirs := *p.signer()
	theirs.audience = s.url
	good, stranger := theirs.good(), strangerTo(t, &theirs)
	s.must(t, 200, flooder, "/browser/x", good)
	browse := func(token string) {
		t.Helper()
		s.must(t, 401, flooder, "/browser/x", token, "Accept", "text/html")
	}
	for range 10 {
		browse(stranger.good())
	}
	if n := s.heldSince(); n != 0 {
		t.Errorf("%d answers within the budget are held", n)
	}
	browse(stranger.good())
	if n := s.heldSince(); n != 1 {
		t.Errorf("%d answers beyond the budget are held, want 1", n)
	}
	s.must(t, 200, flooder, "/browser/x", good)
	s.must(t, 200, flooder, "/browser/x", theirs.good())
	s.must(t, 200, flooder, "/browser/x", s.good, "Accept", "text/html")
	s.must(t, 303, flooder, "/browser/x", "", "Accept", "text/html")
	if n := s.heldSince(); n != 1 {
		t.Errorf("%d answers are held, of somebody who has a good token or none", n)
	}
}

// TestG81AFullLaneIsNoAlarm: whoever floods a lane writes no errors into the log, nor a line for each request.
func TestG81AFullLaneIsNoAlarm(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	s.must(t, 200, stranger, "/api/x", s.good)
	s.flood(t, flooder, 15)
	app := s.app()
	s.fillLane(t)
	r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/api/x", nil), caddy.NewReplacer(), nil, nil)
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, stranger)
	tired, cancel := context.WithDeadline(r.Context(), time.Now()) // as if it had waited for long
	defer cancel()
	for range 20 {
		_, err := app.gates.AdmitSignature(tired)
		if e := oauth.AsError(err); e.Reason != oauth.ReasonVerificationBusy || errors.Is(err, context.Canceled) {
			t.Fatalf("a full lane: %v", err)
		}
		app.audit.Refused(r, "request refused at the gate", err)
	}
	log := s.logs()
	if n := strings.Count(log, `"reason":"verification_busy"`); n != 1 || strings.Contains(log, `"level":"error"`) {
		t.Errorf("%d lines:\n%s", n, log)
	}
}
