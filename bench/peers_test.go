package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTheSmallVerifierVerifies: a peer that lets everything pass would be the fastest.
func TestTheSmallVerifierVerifies(t *testing.T) {
	b := newTestBench(t)
	p, err := b.startProvider()
	if err != nil {
		t.Fatal(err)
	}
	other := &provider{issuer: "https://another.example", keys: p.keys} // so that nothing but the issuer differs
	token := func(from *provider, algorithm string) string {
		text, err := from.token(algorithm)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := token(p, "ES256")
	f, err := newForger(good)
	if err != nil {
		t.Fatal(err)
	}
	verify := verifier(p.keys["ES256"].key, p.issuer, "ES256")
	for _, test := range []struct {
		name, authorization string
		want                int
	}{
		{"good", "Bearer " + good, http.StatusNoContent},
		{"another algorithm", "Bearer " + token(p, "RS256"), http.StatusUnauthorized},
		{"another issuer", "Bearer " + token(other, "ES256"), http.StatusUnauthorized},
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

// TestWhatPeersAreToldIsWhole: a word that is missing would show only on a machine where that peer is built.
func TestWhatPeersAreToldIsWhole(t *testing.T) {
	w := peerWords{
		Dir: "/dir", Admin: "a:1", Addr: "a:2", API: "a:3", Upstream: "a:4", Helper: "a:5", Host: "a", Port: "2", APIPort: "3",
		Issuer: "http://issuer", Audience: externalAudience, Algorithm: "ES256", KeyFile: "/dir/key.pem",
	}
	for _, one := range gatePeers {
		t.Run(one.name, func(t *testing.T) {
			all := ""
			for _, text := range one.arguments {
				filled, err := expand(text, w)
				if err != nil {
					t.Fatal(err)
				}
				all += filled + "\n"
			}
			for name, text := range one.files {
				if !strings.Contains(all+strings.Join(mapValues(one.files), ""), name) {
					t.Errorf("nobody reads %s", name)
				}
				filled, err := expand(text, w)
				if err != nil {
					t.Fatal(err)
				}
				all += filled
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

func mapValues(m map[string]string) []string {
	var values []string
	for _, value := range m {
		values = append(values, value)
	}
	return values
}
