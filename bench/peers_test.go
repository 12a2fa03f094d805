package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestTheSmallVerifierVerifies: a peer that let every request pass would be the fastest.
func TestTheSmallVerifierVerifies(t *testing.T) {
	b := newTestBench(t)
	p := b.startProvider(0)
	other := &provider{issuer: "https://another.example", keys: p.keys} // only the issuer differs
	good := p.token("ES256")
	f := newForger(good)
	verify := verifier(p.keys["ES256"].key, p.issuer, "ES256")
	for _, test := range []struct {
		name, authorization string
		want                int
	}{
		{"good", "Bearer " + good, http.StatusNoContent},
		{"another algorithm", "Bearer " + p.token("RS256"), http.StatusUnauthorized},
		{"another issuer", "Bearer " + other.token("ES256"), http.StatusUnauthorized},
		{"forged", "Bearer " + f.with(map[string]any{"sub": "u-mallory"}), http.StatusUnauthorized},
		{"no bearer", good, http.StatusUnauthorized},
		{"none", "", http.StatusUnauthorized},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/verify", nil)
			request.Header.Set("Authorization", test.authorization)
			answer := httptest.NewRecorder()
			verify(answer, request)
			if answer.Code != test.want || (answer.Header().Get("X-Auth-Subject") == "u-eve") != (test.want == http.StatusNoContent) {
				t.Errorf("%d %q, want %d", answer.Code, answer.Header(), test.want)
			}
		})
	}
}

// TestWhatPeersAreToldIsWhole: a missing word would show only on a machine where that peer is built.
func TestWhatPeersAreToldIsWhole(t *testing.T) {
	w := peerWords{
		Dir: "/dir", Admin: "a:1", Addr: "a:2", API: "a:3", Upstream: "a:4", Helper: "a:5", Host: "a", Port: "2", APIPort: "3",
		Issuer: "http://issuer", Audience: externalAudience, Algorithm: "ES256", KeyFile: "/dir/key.pem",
	}
	for _, one := range gatePeers {
		t.Run(one.name, func(t *testing.T) {
			all := ""
			for _, text := range one.arguments {
				all += w.in(text) + "\n"
			}
			for name, text := range one.files {
				if !strings.Contains(all+strings.Join(slices.Collect(maps.Values(one.files)), ""), name) {
					t.Errorf("nobody reads %s", name)
				}
				all += w.in(text)
			}
			if strings.Contains(all, "{{") || strings.Contains(all, "<no value>") || !strings.Contains(all, w.Upstream) {
				t.Errorf("not whole:\n%s", all)
			}
			if one.asks != strings.Contains(all, w.Helper) {
				t.Errorf("it asks the verifier: %v, and its configuration says otherwise", one.asks)
			}
		})
	}
}
