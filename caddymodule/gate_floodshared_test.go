package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestG81AFloodBehindAProxy does not take all of the proxy's connections: of those only some are held back at once. A client
// that comes itself is held all the same.
func TestG81AFloodBehindAProxy(t *testing.T) {
	for name, test := range map[string]struct {
		trusted string
		held    int
	}{"client": {"198.51.100.1/32", 1}, "trusted proxy": {"127.0.0.1/32", 0}} {
		t.Run(name, func(t *testing.T) {
			setClock(t)
			s := startFloodScene(t, strings.Replace(floodSite, "127.0.0.1/32", test.trusted, 1))
			s.must(t, 200, stranger, "/api/x", s.good)
			for range 10 {
				s.must(t, 401, flooder, "/api/x", "bad")
			}
			release := s.holdMany(64)
			defer release()
			s.must(t, 401, flooder, "/api/x", "bad")
			if n := s.heldSince(); n != test.held {
				t.Errorf("%d refusals are held beside 64 others, want %d", n, test.held)
			}
		})
	}
}

// holdMany holds so many answers back until the function is called that it returns.
func (s *floodScene) holdMany(n int) (release func()) {
	gone, left := make(chan struct{}), make(chan struct{}, n)
	flood := s.app().gates.Floodgate()
	for range n {
		go func() {
			flood.Hold(time.Hour, false, gone, nil)
			left <- struct{}{}
		}()
	}
	for deadline := time.Now().Add(patience); flood.Held() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("only %d answers are held", flood.Held())
		}
	}
	return func() {
		close(gone)
		for range n {
			<-left
		}
	}
}

// TestG81WhatIsDearToHold: a place in a proxy's connections, and a body that is kept in memory because nobody reads it.
func TestG81WhatIsDearToHold(t *testing.T) {
	for name, test := range map[string]struct {
		version int
		body    string
		trusted bool
		want    bool
	}{
		"HTTP/1": {1, "", false, false}, "HTTP/1 with a body": {1, "x", false, false}, "HTTP/1 of a proxy": {1, "", true, true},
		"HTTP/2": {2, "", false, false}, "HTTP/2 with a body": {2, "x", false, true}, "HTTP/2 of a proxy": {2, "", true, true},
		"HTTP/3 with a body": {3, "x", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(test.body))
			r.ProtoMajor = test.version
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, nil)
			caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, test.trusted)
			if got := isDear(r); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestG81AStreamWaitsForNobody: when its token is looked at again, a flood in the lanes neither ends it nor delays that look.
func TestG81AStreamWaitsForNobody(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	s.must(t, 200, stranger, "/api/x", s.good)
	s.flood(t, flooder, 15)
	app := s.app()
	s.fillLane(t)
	done, err := app.gates.admitSignature(t.Context()) // as a stream asks, outside of a request
	if err != nil {
		t.Fatal(err)
	}
	done(true)
}
