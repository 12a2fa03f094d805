//go:build linux && failpoint

package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// counts are the totals of all workers.
type counts struct {
	codes, refreshes, revocations, created, own, uses, visits, signOuts atomic.Int64
	// lost counts the answers that did not arrive.
	lost atomic.Int64
}

// items returns how many codes and tokens were acknowledged.
func (c *counts) items() int64 {
	return c.codes.Load() + c.refreshes.Load() + c.created.Load() + c.own.Load() + c.visits.Load()
}

// books are what all workers know, and the errors that they found.
type books struct {
	began  time.Time
	slack  slack
	counts counts

	mu       sync.Mutex
	families []*grown
	own      []string // tokens that act for the client itself
	wrong    []string
}

// complain records an error.
func (b *books) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf("after %v: ", time.Since(b.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// isHopeless reports whether there are so many errors that going on is pointless.
func (b *books) isHopeless() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.wrong) >= 20
}

// grown is a family as its client knows it from the last completely received answers.
type grown struct {
	*history
	application Application
	// access and refresh are the tokens received last, before is the refresh token that was exchanged for them, and old is one that was
	// used before that.
	access, refresh, before, old string
	// ended: the client treats the family as ended; told: an answer confirmed it.
	ended, told bool
}

// worker is a client of the rig, with a person who uses it.
type worker struct {
	*books
	random  *rand.Rand
	issuer  string
	browser *Browser
	// admin is the family with which tokens are created.
	admin *grown
	// kept are living families, and gone some that have ended.
	kept, gone []*grown
	visits     []*webVisit
}

// maxKept is how many families a worker uses again.
const maxKept = 40

// run works until stop is closed. It completes what it has begun, because a cancelled request could still take effect. The context is for
// emergencies.
func (w *worker) run(ctx context.Context, stop <-chan struct{}) {
	for ctx.Err() == nil && !w.isHopeless() {
		select {
		case <-stop:
			return
		default:
		}
		switch n := w.random.IntN(100); {
		case n < 45:
			w.grow(ctx)
		case n < 60:
			w.create(ctx)
		case n < 65:
			w.actForItself(ctx)
		case n < 82:
			w.comeBack(ctx)
		case n < 92:
			w.visitHosts(ctx)
		default:
			w.visitTheDead(ctx)
		}
	}
}

// chance returns true once in n times.
func (w *worker) chance(n int) bool { return w.random.IntN(n) == 0 }

// again reports whether a request has to be sent again, after a short pause. A stopped worker gives up.
func (w *worker) again(ctx context.Context, a Answer) bool {
	if ctx.Err() != nil || !a.Unsent && !a.Lost() {
		return false
	}
	pause := 5 * time.Millisecond
	if a.Lost() {
		w.counts.lost.Add(1)
	}
	if a.Status == http.StatusServiceUnavailable {
		pause = 50 * time.Millisecond // waiting for Retry-After would make the test longer
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// grow takes a family from the request for a code to its first refresh tokens, and then keeps or ends it.
func (w *worker) grow(ctx context.Context) {
	f := w.newFamily(ctx, []string{Portal, Console, Device}[w.random.IntN(3)], w.chance(10))
	if f == nil {
		return
	}
	if f.ended {
		w.tryDead(ctx, f)
		return
	}
	for range w.random.IntN(5) {
		w.refreshOnce(ctx, f)
		w.useOnce(ctx, f)
	}
	switch n := w.random.IntN(100); {
	case n < 40:
		w.revoke(ctx, f)
	case n < 50 && f.old != "":
		w.misuseOld(ctx, f)
	}
	w.keep(f)
}

// keep adds a family to those that are used again.
func (w *worker) keep(f *grown) {
	list := &w.kept
	if f.ended {
		list = &w.gone
	}
	if len(*list) < maxKept {
		*list = append(*list, f)
		return
	}
	(*list)[w.random.IntN(maxKept)] = f
}

// newFamily walks through the code flow. It returns nil if the worker was stopped meanwhile. With race, two concurrent requests redeem
// the code.
func (w *worker) newFamily(ctx context.Context, client string, race bool) *grown {
	application := Application{URL: w.issuer, ID: client}
	for ctx.Err() == nil {
		request := application.Ask()
		code, answer, err := w.browser.Authorize(ctx, request)
		if err != nil {
			if w.again(ctx, answer) {
				continue
			}
			if ctx.Err() == nil {
				w.complain("%v", err)
			}
			return nil
		}
		f := w.note(application)
		w.redeemCode(ctx, f, race, func() Answer { return request.Redeem(ctx, code) })
		return f
	}
	return nil
}

// note starts the history of a family.
func (w *worker) note(application Application) *grown {
	f := &grown{history: &history{began: w.began}, application: application}
	w.mu.Lock()
	w.families = append(w.families, f)
	w.mu.Unlock()
	return f
}

// tell records a request about a family. It ignores a request that no node has seen, or that a stopped worker cancelled.
func (w *worker) tell(f *grown, d deed, sent time.Time, a Answer) (outcome, Tokens) {
	o := outcome{lost: a.Lost()}
	var tokens Tokens
	switch {
	case a.Unsent:
		return o, tokens
	case o.lost:
	case a.Status == http.StatusOK, a.Status == http.StatusCreated:
		o.accepted = true
		if d.verb == redeem || d.verb == refresh {
			var err error
			if tokens, err = ReadTokens(a); err != nil || tokens.RefreshToken == "" {
				w.complain("%s: %v", d.verb, a)
			}
			o.next = tokens.RefreshToken
		}
	case d.verb == use && a.Status != http.StatusUnauthorized, d.verb != use && a.Status != http.StatusBadRequest:
		w.complain("%s: an answer that nobody expects: %v", d.verb, a)
	}
	f.add(d, sent, o, w.slack)
	return o, tokens
}

// redeemCode sends the code until there is an answer. A refusal is valid if the answer to an earlier request was lost, or with two
// concurrent requests.
func (w *worker) redeemCode(ctx context.Context, f *grown, race bool, send func() Answer) {
	w.counts.codes.Add(1)
	var mu sync.Mutex
	winners := 0
	once := func() Answer {
		sent := time.Now()
		a := send()
		o, tokens := w.tell(f, deed{verb: redeem, misuse: race}, sent, a)
		mu.Lock()
		defer mu.Unlock()
		if o.accepted {
			winners++
			f.access, f.refresh = tokens.AccessToken, tokens.RefreshToken
		}
		return a
	}
	if race {
		both(func() { once() }, func() { once() })
		f.ended = true // unless one of them did not arrive: the model knows
	} else {
		for w.again(ctx, once()) {
		}
		f.ended = winners == 0
	}
	if winners > 1 {
		w.complain("a code was redeemed %d times", winners)
	}
}

// both runs two functions concurrently.
func both(one, other func()) {
	var group sync.WaitGroup
	group.Go(one)
	group.Go(other)
	group.Wait()
}

// refreshOnce uses the newest refresh token until it has the successor, sometimes with two concurrent requests.
func (w *worker) refreshOnce(ctx context.Context, f *grown) {
	token := f.refresh
	var mu sync.Mutex
	once := func() Answer {
		sent := time.Now()
		a := f.application.Refresh(ctx, token)
		o, tokens := w.tell(f, deed{verb: refresh, token: token}, sent, a)
		mu.Lock()
		defer mu.Unlock()
		if o.accepted {
			f.access, f.refresh = tokens.AccessToken, tokens.RefreshToken
			w.counts.refreshes.Add(1)
		} else if !o.lost && !a.Unsent {
			w.complain("an acknowledged refresh token is refused: %v", a)
			f.ended = true
		}
		return a
	}
	until := func() {
		for w.again(ctx, once()) {
		}
	}
	if w.chance(10) {
		both(until, until)
	} else {
		until()
	}
	if f.refresh != token {
		f.old, f.before = f.before, token
	}
}

// useOnce sends the newest access token to the gate until there is an answer.
func (w *worker) useOnce(ctx context.Context, f *grown) {
	once := func() Answer {
		sent := time.Now()
		a := f.application.Use(ctx, f.access)
		if a.Status != 0 && !a.Lost() {
			w.tell(f, deed{verb: use}, sent, a)
			w.counts.uses.Add(1)
		}
		return a
	}
	for w.again(ctx, once()) {
	}
}

// revoke ends a family by a refresh token, until that is acknowledged. The access token may precede a refresh whose answer was lost, and
// would be revoked alone.
func (w *worker) revoke(ctx context.Context, f *grown) {
	token := f.refresh
	once := func() Answer {
		sent := time.Now()
		a := f.application.Revoke(ctx, token)
		if o, _ := w.tell(f, deed{verb: revoke}, sent, a); o.accepted {
			f.ended, f.told = true, true
			w.counts.revocations.Add(1)
		}
		return a
	}
	for w.again(ctx, once()) {
	}
}
