package caddymodule

import (
	"io"
	"net/http"
	"testing"
)

// TestG81NothingIsHeldBetweenGoodRequests: an answer that is held back on a connection that carries good tokens too, those of a proxy
// that nobody has called trusted perhaps, would keep them waiting. Other connections of that address gain nothing by it, and neither
// does one whose good requests needed no token.
func TestG81NothingIsHeldBetweenGoodRequests(t *testing.T) {
	setClock(t)
	s := startFloodScene(t, floodSite)
	s.must(t, 200, stranger, "/api/x", s.good)
	s.flood(t, flooder, 12)
	held := s.heldSince()
	for _, test := range []struct {
		name  string
		path  string
		token string
		bad   string // who fails on that connection
		held  int
	}{
		{"good ones between", "/api/x", s.good, flooder, 0},
		{"without a token", "/optional/x", "", flooder, 3},
		{"those of another client", "/api/x", s.good, "192.0.2.9", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.bad != flooder {
				s.flood(t, test.bad, 12)
				held = s.heldSince()
			}
			client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: patience}
			defer client.CloseIdleConnections()
			ask := func(address, path, token string, want int) {
				request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
				check(t, err)
				request.Header.Set("X-Forwarded-For", address)
				if token != "" {
					request.Header.Set("Authorization", "Bearer "+token)
				}
				response, err := client.Do(request)
				check(t, err)
				defer func() { _ = response.Body.Close() }()
				if _, _ = io.Copy(io.Discard, response.Body); response.StatusCode != want {
					t.Errorf("%s: %d", path, response.StatusCode)
				}
			}
			for range 3 {
				ask(flooder, test.path, test.token, 200)
				ask(flooder, test.path, test.token, 200)
				ask(test.bad, "/api/x", "bad", 401)
			}
			if n := s.heldSince() - held; n != test.held {
				t.Errorf("%d refusals are held, want %d", n, test.held)
			}
		})
	}
	held = s.heldSince()
	if s.send(flooder, "/api/x", "bad"); s.heldSince() != held+1 {
		t.Error("what another connection has carried counts")
	}
}
