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

// counts is what all workers have done.
type counts struct {
	codes, refreshes, revocations, created, own, uses, visits, signOuts atomic.Int64
	// lost are the answers that did not arrive.
	lost atomic.Int64
}

// items is how many codes and tokens were acknowledged.
func (c *counts) items() int64 {
	return c.codes.Load() + c.refreshes.Load() + c.created.Load() + c.own.Load() + c.visits.Load()
}

// books is what all workers know, and what they found wrong.
type books struct {
	began  time.Time
	slack  slack
	counts counts

	mu       sync.Mutex
	families []*grown
	own      []string // tokens of the client that acts for itself
	wrong    []string
}

// complain notes something that may not be.
func (b *books) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf("after %v: ", time.Since(b.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// isHopeless reports whether so much is wrong that nothing is gained by going on.
func (b *books) isHopeless() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.wrong) >= 20
}

// grown is a family as its client knows it: what the last fully received answers said.
type grown struct {
	*history
	application Application
	// access and refresh are the tokens received last, before is the refresh token that gave them, and old one that was used
	// before that.
	access, refresh, before, old string
	// ended: the client goes on as if it had; told: it was told so.
	ended, told bool
}

// worker is a client of the rig, with a person who uses it.
type worker struct {
	*books
	random  *rand.Rand
	issuer  string
	browser *Browser
	// admin is the family in whose name tokens are created.
	admin *grown
	// kept are families that live on, and gone some that have ended.
	kept, gone []*grown
	visits     []*webVisit
}

// maxKept is how many families a worker comes back to.
const maxKept = 40

// run works until stop is closed. What it has begun it brings to its end: a request that were broken off could still do
// what it asks for. The context is for emergencies.
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

// chance is true once in n.
func (w *worker) chance(n int) bool { return w.random.IntN(n) == 0 }

// again reports whether a request has to be sent again, and waits a moment before it says so. A worker that has been stopped
// gives up.
func (w *worker) again(ctx context.Context, a Answer) bool {
	if ctx.Err() != nil || !a.Unsent && !a.Lost() {
		return false
	}
	pause := 5 * time.Millisecond
	if a.Lost() {
		w.counts.lost.Add(1)
	}
	if a.Status == http.StatusServiceUnavailable {
		pause = 50 * time.Millisecond // its Retry-After would be kinder, and a longer test
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

// keep remembers a family for another time.
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

// newFamily walks through the code flow. It is nil when the worker was stopped on the way. With race, two requests redeem
// the code at a time.
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

// note opens a page in the books.
func (w *worker) note(application Application) *grown {
	f := &grown{history: &history{began: w.began}, application: application}
	w.mu.Lock()
	w.families = append(w.families, f)
	w.mu.Unlock()
	return f
}

// tell writes down a request about a family. One that no node has seen, or that a stopped worker broke off, is none.
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

// redeemCode sends the code until there is an answer. It may be a refusal when the answer to an earlier request was lost, or
// when there are two at a time.
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

// both does two things at a time.
func both(one, other func()) {
	var group sync.WaitGroup
	group.Go(one)
	group.Go(other)
	group.Wait()
}

// refreshOnce uses the newest refresh token until it has the successor. Sometimes two requests do so at a time.
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

// useOnce shows the newest access token to the gate until there is an answer.
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

// revoke ends a family by a refresh token, until that is acknowledged. The access token may be one of before a refresh whose
// answer was lost, and would end alone.
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
