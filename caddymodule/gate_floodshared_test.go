package caddymodule

import (
	"strings"
	"testing"
	"time"
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
	s.eventually("so many answers are held", func() bool { return flood.Held() >= n })
	return func() {
		close(gone)
		for range n {
			<-left
		}
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
	done, err := app.gates.AdmitSignature(t.Context()) // as a stream asks, outside of a request
	check(t, err)
	done(true)
}
