//go:build linux

package rig

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// serverToken obtains a token that acts for the client itself.
func serverToken(t *testing.T, at string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {Server}, "client_secret": {Secret(Server)}}
	answer := Send(t.Context(), http.MethodPost, at+"/oauth/token", form.Encode(), "Content-Type", formType)
	tokens, err := ReadTokens(answer)
	if err != nil {
		t.Fatal(err)
	}
	return tokens.AccessToken
}

// TestANodeComesBack starts a node, ends it in both ways and restarts it, at the same address and on the same data: a token from its
// first run is valid in the others.
func TestANodeComesBack(t *testing.T) {
	n := Start(t, Setup{})
	token := serverToken(t, n.URL)
	use := func() Answer {
		return Send(t.Context(), http.MethodGet, n.URL+"/api/x", "", "Authorization", "Bearer "+token)
	}
	if answer := use(); answer.Status != http.StatusOK {
		t.Fatalf("in its first life: %s", answer)
	}
	for name, end := range map[string]func(){"SIGKILL": n.Kill, "SIGTERM": n.Stop} {
		end()
		if answer := use(); !answer.Unsent {
			t.Errorf("after %s somebody answers: %s", name, answer)
		}
		t.Logf("serving %v after its start", n.Restart())
		if answer := use(); answer.Status != http.StatusOK {
			t.Errorf("after %s and a new start: %s", name, answer)
		}
	}
	if n.Log() == "" {
		t.Error("the node has logged nothing")
	}
}

// TestTheBalancerFindsTheNodeThatIsThere: a request reaches a live node whatever the others are doing, and a client learns when no node
// has seen its request.
func TestTheBalancerFindsTheNodeThatIsThere(t *testing.T) {
	b := NewBalancer(t)
	down, up := New(t, Setup{Issuer: b.URL}), New(t, Setup{Issuer: b.URL})
	b.Use(down, up)
	ask := func() Answer {
		return Send(context.Background(), http.MethodGet, b.URL+"/.well-known/oauth-authorization-server", "")
	}
	if answer := ask(); !answer.Unsent || answer.Lost() {
		t.Errorf("without nodes: %s", answer)
	}
	up.Restart()
	for range 4 {
		if answer := ask(); answer.Status != http.StatusOK {
			t.Errorf("with one of two: %s", answer)
		}
	}
}

// complaints is a test that records its errors instead of failing.
type complaints struct {
	testing.TB
	all []string
}

func (c *complaints) Errorf(format string, values ...any) {
	c.all = append(c.all, fmt.Sprintf(format, values...))
}

// TestTheEndOfANodeIsLookedAt: a node that does not end in order, and one whose runtime has reported something, fail their test.
func TestTheEndOfANodeIsLookedAt(t *testing.T) {
	c := &complaints{TB: t}
	n := Start(c, Setup{})
	n.Restart()
	if len(c.all) > 0 {
		t.Fatalf("an orderly end: %s", c.all)
	}
	n.Pause() // it then dies by the signal after SIGTERM, and its status is not 0
	last := n.life()
	go func() {
		time.Sleep(10 * time.Millisecond)
		_ = last.command.Process.Kill()
	}()
	n.Stop()
	if len(c.all) != 1 || !strings.Contains(c.all[0], "signal: killed") {
		t.Errorf("a status other than 0: %q", c.all)
	}
	for sign, want := range map[string]int{
		`{"level":"info"}`: 0, "WARNING: DATA RACE\nWrite at 0x00c0": 1, "panic: runtime error": 1, "fatal error: concurrent map writes": 1,
		"WARNING: DATA RACE\nWrite\n  " + knownRace + "\n==================":                             0,
		"WARNING: DATA RACE\nWrite\n  " + knownRace + "\n==================\nWARNING: DATA RACE\nRead\n": 1,
	} {
		if got := reportsIn("{}\n" + sign + "\n{}\n"); len(got) != want {
			t.Errorf("in a log with %q: %q", sign, got)
		}
	}
}
