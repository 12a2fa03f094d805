//go:build linux && failpoint

package rig

import (
	"context"
	"net/http"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
)

// webVisit is a browser that has signed in at a host. It has its own sign-in, which ends with it. In the model its host session is a
// family: redeemed by the callback, used by each page, revoked by the sign-out.
type webVisit struct {
	*grown
	browser *Browser
	host    string
}

// visitHosts signs in at a host, or returns to one. A session that a browser has received exists, whatever was killed, until it is signed
// out.
func (w *worker) visitHosts(ctx context.Context) {
	var v *webVisit
	if len(w.visits) == 0 || w.chance(2) {
		if v = w.signInAtHost(ctx); v == nil {
			return
		}
		w.visits = append(w.visits, v)
	} else {
		v = w.visits[w.random.IntN(len(w.visits))]
	}
	for range 1 + w.random.IntN(3) {
		w.seeOnce(ctx, v)
	}
	if !v.ended && w.chance(3) {
		w.signOut(ctx, v)
	}
}

// signInAtHost opens a page at a host with a new browser until it sees it. It returns nil if the worker was stopped meanwhile. A session
// that the browser has not received does not belong to it.
func (w *worker) signInAtHost(ctx context.Context) *webVisit {
	v := &webVisit{browser: NewBrowser(Ben), host: WebOf(w.issuer)}
	for ctx.Err() == nil {
		sent := time.Now()
		answer, err := v.browser.Visit(ctx, v.host+WebPage)
		if err == nil {
			v.grown = w.note(Application{})
			v.add(deed{verb: redeem}, sent, outcome{accepted: true}, w.slack)
			w.counts.visits.Add(1)
			return v
		}
		if !w.again(ctx, answer) {
			if ctx.Err() == nil {
				w.complain("%v", err)
			}
			return nil
		}
	}
	return nil
}

// seeOnce opens the page until there is an answer: the page, or the redirect to sign in.
func (w *worker) seeOnce(ctx context.Context, v *webVisit) {
	once := func() Answer {
		sent := time.Now()
		a := v.browser.See(ctx, v.host+WebPage)
		switch {
		case a.Status == 0, a.Unsent, a.Lost():
		case a.Status == http.StatusOK, a.Status == http.StatusSeeOther:
			v.add(deed{verb: use}, sent, outcome{accepted: a.Status == http.StatusOK}, w.slack)
		default:
			w.complain("a page with a session: %v", a)
		}
		return a
	}
	for w.again(ctx, once()) {
	}
}

// signOut signs the browser out until that is acknowledged.
func (w *worker) signOut(ctx context.Context, v *webVisit) {
	once := func() Answer {
		sent := time.Now()
		a := v.browser.SignOut(ctx, v.host)
		switch {
		case a.Unsent:
		case a.Lost():
			v.add(deed{verb: revoke}, sent, outcome{lost: true}, w.slack)
		case a.Status == http.StatusOK, a.Status == http.StatusSeeOther: // 200 means that there is no session any longer
			v.add(deed{verb: revoke}, sent, outcome{accepted: true}, w.slack)
			v.ended = true
			w.counts.signOuts.Add(1)
		default:
			w.complain("signing out: %v", a)
		}
		return a
	}
	copied := v.browser.keep(v.host)
	for w.again(ctx, once()) {
	}
	v.browser = copied // the session's cookie is invalid, even if a browser still has it
}

// auditVisits uses every session once more when no node is killed any longer.
func (w *worker) auditVisits(ctx context.Context) {
	for _, v := range w.visits {
		if v.ended {
			w.awaitSignedOut(ctx, v)
		}
		w.seeOnce(ctx, v)
	}
}

// awaitSignedOut waits until no gate accepts the session of a browser that was signed out.
func (w *worker) awaitSignedOut(ctx context.Context, v *webVisit) {
	began := time.Now()
	for refusals := 0; refusals < nodes && ctx.Err() == nil; {
		answer := v.browser.See(ctx, v.host+WebPage)
		switch {
		case answer.Status == http.StatusSeeOther:
			refusals++
			continue
		case machine.Fair(time.Since(began)) > longestEnd:
			w.complain("after everything a gate answers to a session that was signed out: %v", answer)
			return
		}
		refusals = 0
		time.Sleep(5 * time.Millisecond)
	}
}
