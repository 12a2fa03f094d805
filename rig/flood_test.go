//go:build linux

package rig

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// forger makes bad tokens from a good one. No two are equal.
type forger struct {
	header    string // with the kid of a key that signs
	claims    map[string]any
	signature string // a valid one, of other claims
}

func newForger(t *testing.T, good string) forger {
	t.Helper()
	parts := strings.Split(good, ".")
	if len(parts) != 3 {
		t.Fatalf("no token: %s", good)
	}
	f := forger{header: parts[0], signature: parts[2]}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(text, &f.claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// encode encodes a part of a token.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// payload returns the good token's payload with another id.
func (f forger) payload() string {
	claims := map[string]any{}
	for name, value := range f.claims {
		claims[name] = value
	}
	claims["jti"] = rand.Text()
	return encode(claims)
}

// badKinds are the kinds of tokens in a flood. The last one needs a verification, the others no cryptography.
var badKinds = []struct {
	name  string
	forge func(forger) string
}{
	{"opaque", func(forger) string { return rand.Text() + rand.Text() }},
	{"too long", func(f forger) string {
		return f.header + "." + rand.Text() + strings.Repeat("A", 8<<10) + "." + f.signature
	}},
	{"unknown kid", func(f forger) string {
		return encode(map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": rand.Text()}) + "." + f.payload() + "." + f.signature
	}},
	{"bad signature", func(f forger) string { return f.header + "." + f.payload() + "." + f.signature }},
}

// flood is clients that send one bad token after the other, each on a kept connection.
type flood struct {
	node   *Node
	forger forger
	clients
	// refused counts refused tokens. putOff counts those answered with a 503 that says when to come back, and lost those without an
	// answer.
	refused, putOff, lost atomic.Int64

	mu    sync.Mutex
	wrong []Answer // other answers than a refusal
}

// startFlood starts the clients of a flood, which run until stop.
func startFlood(t *testing.T, n *Node, count int, f forger) *flood {
	t.Helper()
	fl := &flood{node: n, forger: f}
	fl.begin(t)
	for i := range count {
		fl.running.Go(func() { fl.client(i) })
	}
	return fl
}

// client sends bad tokens of all kinds in turn.
func (f *flood) client(turn int) {
	kept := new(http.Transport)
	defer kept.CloseIdleConnections()
	ctx := AtOnce(Via(f.life, kept))
	for ; f.life.Err() == nil; turn++ {
		kind := badKinds[turn%len(badKinds)]
		answer := Send(ctx, http.MethodGet, f.node.URL+"/api/orders", "", "Authorization", "Bearer "+kind.forge(f.forger))
		switch {
		case f.life.Err() != nil:
		case answer.Status == http.StatusUnauthorized:
			f.refused.Add(1)
		case answer.IsDeferred(): // the machine is too busy for an answer
			f.putOff.Add(1)
		case answer.Err != nil: // the node is down, or shutting down
			f.lost.Add(1)
			time.Sleep(10 * time.Millisecond)
		default:
			f.mu.Lock()
			f.wrong = append(f.wrong, answer)
			f.mu.Unlock()
		}
	}
}

// reaches waits until that many tokens were refused.
func (f *flood) reaches(t *testing.T, refused int64) {
	t.Helper()
	soon(t, fmt.Sprintf("%d bad tokens to be refused", refused), func() bool { return f.refused.Load() >= refused })
}

// report stops the flood, and fails the test for every other answer than a refusal.
func (f *flood) report(t *testing.T) {
	t.Helper()
	f.stop()
	if n := f.putOff.Load(); n > 0 {
		t.Logf("%d bad tokens were put off with a 503, %d were refused", n, f.refused.Load())
		// One kind in four needs a verification of its signature, and waits for its turn.
		if all := n + f.refused.Load(); n > all/int64(len(badKinds)) {
			t.Errorf("%d of %d bad tokens are put off", n, all)
		}
	}
	reportFirst(t, "the answer to a bad token", f.wrong)
}

// neighbours is the number of well-behaved clients during a flood.
const neighbours = 6

// gateTraffic sends valid requests to the gate with a few tokens, and pauses after each. It fills no cache: the growth of a node's memory
// is due to the flood.
func gateTraffic(t *testing.T, n *Node, pause time.Duration) *load {
	t.Helper()
	l := newLoad(t, pause)
	for i := range neighbours {
		a, token, ctx := Application{n.URL, Server}, serverToken(t, n.URL), AtOnce(t.Context())
		if i%2 == 0 {
			kept := new(http.Transport)
			t.Cleanup(kept.CloseIdleConnections)
			ctx = Via(ctx, kept)
		}
		l.running.Go(func() {
			for !l.isStopped() {
				l.ask("GET gate", func() Answer { return a.Use(ctx, token) })
			}
		})
	}
	return l
}

// mostGrowth is how much the memory of a node may grow in a flood, whatever its length.
const mostGrowth = 32 * mebibyte

// TestG81AFloodOfBadTokens sends a node thousands of distinct bad tokens: its memory does not grow, and well-behaved clients are served.
func TestG81AFloodOfBadTokens(t *testing.T) {
	n := Start(t, Setup{})
	f := newForger(t, serverToken(t, n.URL))
	quiet := gateTraffic(t, n, 5*time.Millisecond)
	quiet.goOn(either(300, 5000))
	quiet.stop()
	warm := startFlood(t, n, 4, f)
	warm.reaches(t, int64(either(1000, 20_000))) // until then buffers and pools grow once
	warm.report(t)
	goroutines, files, live, before, from := n.goroutines(t), n.files(t), n.live(t), n.resident(t), time.Now()
	fl := startFlood(t, n, 4, f)
	busy := gateTraffic(t, n, 5*time.Millisecond)
	var most int64
	fl.reaches(t, 4000)
	busy.goOn(300)
	for most = n.resident(t); time.Since(from) < either(0, 10*time.Minute); time.Sleep(100 * time.Millisecond) {
		most = max(most, n.resident(t))
	}
	shown, took := fl.refused.Load(), time.Since(from)
	fl.report(t)
	busy.unbroken("in a flood of bad tokens")
	if fl.lost.Load() > 0 {
		t.Errorf("%d bad tokens got no answer", fl.lost.Load())
	}
	n.settles(t, goroutines, files)
	measured(t, "G81: a flood of distinct bad tokens", "%d refused in %v (%.0f a second)", shown, took.Round(time.Second), float64(shown)/took.Seconds())
	measured(t, "G81: good requests beside the flood", "%d, all answered; %s", busy.requests(), beside(quiet, busy))
	measured(t, "G81: memory in the flood", "%d MiB before, %d MiB at most, %d MiB afterwards", before/mebibyte, most/mebibyte, n.resident(t)/mebibyte)
	if grown := most - before; grown > either[int64](5, 1)*mostGrowth { // the race detector keeps some bytes for each byte
		t.Errorf("the node has grown by %d MiB", grown/mebibyte)
	}
	// The tokens of a short run are some ten MiB.
	if kept := n.live(t) - live; kept > either[int64](2*mebibyte, mostGrowth) {
		t.Errorf("after %d bad tokens %d KiB more are in use", shown, kept>>10)
	}
}

// TestF23AFloodInLittleMemory: 256 MiB, a flood of bad tokens and slow clients, a kill → answers all the time, back at once, nothing
// forgotten.
func TestF23AFloodInLittleMemory(t *testing.T) {
	n := Start(t, Setup{Environment: []string{"GOMEMLIMIT=256MiB"}})
	application := Application{n.URL, Console}
	tokens, gone := mustObtain(t, NewBrowser(Ada), application), mustObtain(t, NewBrowser(Ben), application)
	if err := mustBe(application.Revoke(t.Context(), gone.RefreshToken), http.StatusOK, "", "revoking"); err != nil {
		t.Fatal(err)
	}
	fl := startFlood(t, n, either(4, 8), newForger(t, tokens.AccessToken))
	c := newCrowd(t, n, tokens.AccessToken, time.Second)
	c.gather(t, "body", either(200, 3000))
	c.gather(t, "idle", either(200, 3000))
	l := goodTraffic(t, n)
	fl.reaches(t, int64(either(1000, 100_000)))
	l.goOn(either(300, 3000))
	l.unbroken("in a flood, with little memory")
	measured(t, "F23: memory of a node that may use 256 MiB, in a flood", "%d MiB", n.resident(t)/mebibyte)

	spread := new(times)
	for range either(2, 20) {
		l := goodTraffic(t, n)
		l.goOn(50)
		n.Signal(syscall.SIGKILL)
		<-n.Gone()
		spread.add(n.Restart())
		l.goOn(50)
		l.allAnswered()
		before := fl.refused.Load()
		fl.reaches(t, before+100) // the node did not wait for the flood to pass
	}
	measured(t, "F23: killed in a flood, from exec until it is ready", "%v", spread)
	fl.report(t)
	c.stop()
	if err := mustBe(application.Use(t.Context(), tokens.AccessToken), http.StatusOK, "", "a token from before"); err != nil {
		t.Error(err)
	}
	if err := mustBe(application.Use(t.Context(), gone.AccessToken), http.StatusUnauthorized, "", "a token that was revoked before"); err != nil {
		t.Error(err)
	}
	if _, err := ReadTokens(application.Refresh(t.Context(), tokens.RefreshToken)); err != nil {
		t.Error(err)
	}
}
