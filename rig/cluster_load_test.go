//go:build linux

package rig

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"
)

// load is clients that use what they have, and repeat requests that were not answered, as is safe for all of them. Each checks whether
// the nodes agree: it uses at the next node what the previous one has issued or ended.
type load struct {
	t *testing.T
	// pause is the time between two requests of a client.
	pause time.Duration
	clients
	count int // how many start has started

	mu      sync.Mutex
	asked   int
	putOff  int       // answered with a 503 that says when to come back
	broken  []attempt // sent again for any other reason
	wrong   []Answer  // not corrected by a second attempt
	latency times
}

type attempt struct {
	what        string
	from, until time.Time
	answer      Answer
}

func (a attempt) String() string {
	return fmt.Sprintf("%s, from %s to %s: %s", a.what, a.from.Format(time.StampMilli), a.until.Format(time.StampMilli), a.answer)
}

func newLoad(t *testing.T, pause time.Duration) *load {
	t.Helper()
	l := &load{t: t, pause: pause}
	l.begin(t)
	return l
}

// start starts clients that talk to a URL, over a transport or, if it is nil, with a connection for each request.
func (l *load) start(count int, at string, by http.RoundTripper) {
	ctx := l.t.Context()
	if by != nil {
		ctx = Via(ctx, by)
	}
	l.count += count
	for i := range count {
		a := Application{at, []string{Console, Portal, Device}[i%3]}
		l.running.Go(func() { l.client(ctx, a) })
	}
}

// client signs in, and then uses, refreshes and introspects in turn.
func (l *load) client(ctx context.Context, a Application) {
	tokens, answer, err := obtainOnce(ctx, NewBrowser(Grace), a)
	for began := time.Now(); err != nil; { // a step may be cut, or no node be there for a while, and a person would begin again
		switch mayRepeat := answer.Lost() || answer.Unsent || answer.Repeated > 0; {
		case l.isStopped():
			return
		case !mayRepeat || time.Since(began) > patience:
			l.t.Error(err)
			return
		}
		time.Sleep(50 * time.Millisecond)
		tokens, answer, err = obtainOnce(ctx, NewBrowser(Grace), a)
	}
	ctx = AtOnce(ctx) // ask repeats
	for turn := 0; !l.isStopped(); turn++ {
		token := tokens.AccessToken
		switch turn % 3 {
		case 0:
			own, err := ReadTokens(l.ask("POST token", func() Answer { return Application{a.URL, Server}.ForItself(ctx) }))
			if err != nil {
				return // it is in the books
			}
			token = own.AccessToken
		case 1:
			refreshed, err := ReadTokens(l.ask("POST refresh", func() Answer { return a.Refresh(ctx, tokens.RefreshToken) }))
			if err != nil {
				return
			}
			tokens, token = refreshed, refreshed.AccessToken
		case 2:
			l.ask("POST introspect", func() Answer {
				return Application{a.URL, Console}.post(ctx, "/oauth/introspect", url.Values{"token": {token}})
			})
		}
		l.ask("GET gate", func() Answer { return a.Use(ctx, token) })
	}
}

// ask sends a request until it is answered, and records the attempts. An answer other than 200 is wrong, unless it says that the node
// cannot tell now.
func (l *load) ask(what string, send func() Answer) Answer {
	for began := time.Now(); ; {
		a := attempt{what: what, from: time.Now()}
		a.answer = send()
		a.until = time.Now()
		again := l.note(a, time.Since(began) < patience)
		time.Sleep(l.pause)
		if !again {
			return a.answer
		}
		if a.answer.IsDeferred() {
			time.Sleep(50 * time.Millisecond) // waiting for Retry-After would make the test longer
		}
	}
}

// note records how an attempt ended, and reports whether there is to be another.
func (l *load) note(a attempt, mayRepeat bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	switch {
	case a.answer.Status == http.StatusOK:
		l.latency.add(a.until.Sub(a.from))
		return false
	case mayRepeat && a.answer.IsDeferred():
		l.putOff++
		return true
	case mayRepeat && (a.answer.Unsent || a.answer.Lost()):
		l.broken = append(l.broken, a)
		return true
	}
	l.wrong = append(l.wrong, a.answer)
	return false
}

// requests returns how many requests were sent.
func (l *load) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// goOn waits until the clients have sent that many more requests.
func (l *load) goOn(requests int) {
	l.t.Helper()
	until := l.requests() + requests
	soon(l.t, "the load to go on", func() bool { return l.requests() >= until })
}

// The rows require that every valid request is answered. A node may defer a request, with a 503 that says when to come back, when all of
// its slots for hashing or for the database are in use on a busy machine, or when it has just started. Either is rare: once in a hundred
// requests, and in a short run at most fewestPutOff times.
const (
	onePutOffIn  = 100
	fewestPutOff = 5
)

// allAnswered stops the load, and fails the test unless everything was answered in the end, and almost everything at once.
func (l *load) allAnswered() {
	l.t.Helper()
	l.stop()
	if l.putOff > 0 {
		l.t.Logf("%d of %d requests were put off with a 503", l.putOff, l.asked)
	}
	if most := max(fewestPutOff, l.asked/onePutOffIn); l.putOff > most {
		l.t.Errorf("%d of %d requests were put off with a 503, want %d at most", l.putOff, l.asked, most)
	}
	reportFirst(l.t, "wrong", l.wrong)
}

// unbroken stops the load, and fails the test if a request got no answer.
func (l *load) unbroken(what string) {
	l.t.Helper()
	l.allAnswered()
	reportFirst(l.t, what, l.broken)
}
