package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// newTestMixture returns a mixture with another issuer's tokens in place of our own.
func newTestMixture(t *testing.T) *mixture {
	t.Helper()
	b := newTestBench(t)
	b.conns = 2
	m := &mixture{bench: b}
	for range algorithms {
		m.setup.trusted = append(m.setup.trusted, b.startProvider(0))
	}
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"access_token":%q}`, m.setup.trusted[0].token("ES256"))
	}))
	t.Cleanup(issuer.Close)
	m.ours = &server{sites: sites{Issuer: issuer.Listener.Addr().String()}}
	m.known = []string{"known.a.b", "known.c.d"}
	m.owned = m.known[:1]
	m.bad = m.badTokens()
	return m
}

// TestAMixtureHoldsWhatItSays checks that any hundred consecutive requests have as many of each kind as any other
// hundred.
func TestAMixtureHoldsWhatItSays(t *testing.T) {
	m := newTestMixture(t)
	const hundreds = 8
	errands := m.errands(hundreds*mixedEverything, "bench.example")
	seen := make(map[string]bool)
	for hundred := range slices.Chunk(errands, mixedEverything) {
		count := make(map[string]int)
		for _, e := range hundred {
			text := string(e.request)
			switch {
			case e.status == http.StatusUnauthorized:
				count["bad"]++
			case strings.Contains(text, "/oauth/introspect"):
				count["questions"]++
			case strings.Contains(text, "/oauth/token"):
				count["tokens"]++
			case strings.Contains(text, "Bearer known."):
				count["known"]++
				continue
			default:
				count["first"]++
			}
			if (count["bad"] > 0 || count["first"] > 0) && !strings.HasPrefix(text, "POST") && seen[text] {
				t.Errorf("shown twice: %s", text)
			}
			seen[text] = true
		}
		rest := mixedEverything - mixedBad - mixedFirst - mixedQuestions - mixedTokens
		want := map[string]int{"bad": mixedBad, "first": mixedFirst, "questions": mixedQuestions, "tokens": mixedTokens, "known": rest}
		if fmt.Sprint(count) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", count, want)
		}
	}
}

// TestAnErrandKnowsItsAnswer checks that an errand compares status and body.
func TestAnErrandKnowsItsAnswer(t *testing.T) {
	l := send("bench.example", []errand{{nil, http.StatusOK, `"active":true`}})
	for _, test := range []struct {
		name   string
		status int
		body   string
		right  bool
	}{
		{"right", http.StatusOK, `{"active":true}`, true},
		{"another status", http.StatusServiceUnavailable, `{"active":true}`, false},
		{"another body", http.StatusOK, `{"active":false}`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := l.Response(0, &load.Response{Status: test.status, Body: []byte(test.body)})
			if (err == nil) != test.right {
				t.Error(err)
			}
		})
	}
}

// TestAGaugeSeesWhenAServerIsWarm checks the time until a server is warm and the refusals until then.
func TestAGaugeSeesWhenAServerIsWarm(t *testing.T) {
	odd := errors.New("odd")
	g := &gauge{start: time.Now(), bad: func(i int) bool { return i == 0 }, answers: &load.Answers{Elapsed: time.Hour}}
	l := g.watch(load.Load{Status: http.StatusOK, Response: func(i int, _ *load.Response) error {
		if i == 1 {
			return odd
		}
		return nil
	}})
	at := func(moment time.Duration, i, status int) {
		l.Observe(i, g.start.Add(moment), time.Millisecond)
		_ = l.Response(i, &load.Response{Status: status})
	}
	at(0, 0, http.StatusOK) // its latency is left out
	at(0, 1, http.StatusOK)
	at(0, 2, http.StatusTooManyRequests)
	for i := range 30 {
		at(2*gaugeWindow+time.Duration(i)*gaugeWindow/10, 3+i, http.StatusOK)
	}
	if refused := newTestBench(t).refusedWrongly("this", gauges{g}); refused != 2 || !errors.Is(g.firstWrong, odd) {
		t.Errorf("%v refused, first %v", refused, g.firstWrong)
	}
	if longest := (gauges{g}).longest(); g.first.Count() != 2 || g.all().Count() != 32 || g.firstSecond() != 32 || longest != time.Millisecond {
		t.Errorf("%d, %d, %v, %v", g.first.Count(), g.all().Count(), g.firstSecond(), longest)
	}
	if after := g.until(100); after != 2*gaugeWindow {
		t.Errorf("warm after %v", after)
	}
	if after := g.until(200); after != time.Hour {
		t.Errorf("a rate that never was is reached after %v", after)
	}
}
