//go:build linux && failpoint

package rig

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
)

// misuseOld sends a refresh token that was used and whose successor was used. The answer is a refusal, and the family ends.
func (w *worker) misuseOld(ctx context.Context, f *grown) {
	once := func() Answer {
		sent := time.Now()
		a := f.application.Refresh(ctx, f.old)
		if o, _ := w.tell(f, deed{verb: refresh, token: f.old, misuse: true}, sent, a); !o.lost && !a.Unsent {
			f.ended, f.told = true, !o.accepted
		}
		return a
	}
	for w.again(ctx, once()) {
	}
}

// create obtains a token for a member of the organisation. An answer that was not received cannot be requested again: the next request
// creates another token.
func (w *worker) create(ctx context.Context) {
	if w.admin == nil || w.admin.ended {
		if w.admin = w.newFamily(ctx, Console, false); w.admin == nil {
			return
		}
	}
	for !w.admin.ended {
		sent := time.Now()
		answer := w.admin.application.CreateToken(ctx, w.admin.access, Grace)
		switch {
		case answer.Status == http.StatusCreated:
			f := w.note(w.admin.application)
			_, tokens := w.tell(f, deed{verb: redeem}, sent, answer)
			f.access, f.refresh = tokens.AccessToken, tokens.RefreshToken
			w.counts.created.Add(1)
			w.useOnce(ctx, f)
			if w.chance(3) {
				w.revoke(ctx, f)
			}
			w.keep(f)
			return
		case answer.Status == http.StatusTooManyRequests:
			return // an admin can create some sixty a minute
		case w.again(ctx, answer):
		default:
			if ctx.Err() == nil {
				w.complain("creating a token: %v", answer)
			}
			return
		}
	}
}

// actForItself obtains a token that acts for the client, and uses it now and later.
func (w *worker) actForItself(ctx context.Context) {
	answer := Application{URL: w.issuer, ID: Server}.ForItself(ctx)
	if w.again(ctx, answer) || ctx.Err() != nil {
		return
	}
	tokens, err := ReadTokens(answer)
	if err != nil {
		w.complain("client_credentials: %v", err)
		return
	}
	w.counts.own.Add(1)
	w.mu.Lock()
	w.own = append(w.own, tokens.AccessToken)
	mine := slices.Clone(w.own[max(0, len(w.own)-50):])
	w.mu.Unlock()
	token := mine[w.random.IntN(len(mine))]
	answer = Application{URL: w.issuer}.Use(ctx, token)
	if answer.Status != 0 && !answer.Lost() && !answer.Unsent && answer.Status != http.StatusOK {
		w.complain("a token of the client's own is refused: %v", answer)
	}
}

// comeBack continues a family that was unused for a while.
func (w *worker) comeBack(ctx context.Context) {
	if len(w.kept) == 0 {
		return
	}
	i := w.random.IntN(len(w.kept))
	f := w.kept[i]
	w.useOnce(ctx, f)
	w.refreshOnce(ctx, f)
	if w.chance(3) && !f.ended {
		w.revoke(ctx, f)
	}
	if f.ended {
		w.kept = slices.Delete(w.kept, i, i+1)
		w.keep(f)
	}
}

// visitTheDead uses the tokens of a family that has ended.
func (w *worker) visitTheDead(ctx context.Context) {
	if len(w.gone) == 0 {
		return
	}
	w.tryDead(ctx, w.gone[w.random.IntN(len(w.gone))])
}

// tryDead uses the tokens of a family that has ended, once, and ignores the results.
func (w *worker) tryDead(ctx context.Context, f *grown) {
	if f.access == "" {
		return
	}
	w.useOnce(ctx, f)
	sent := time.Now()
	w.tell(f, deed{verb: refresh, token: f.refresh, misuse: true}, sent, f.application.Refresh(ctx, f.refresh))
}

// audit runs when no node is killed any longer. Every living family yields its next refresh token, and none that has ended yields
// anything.
func (w *worker) audit(ctx context.Context, families []*grown) {
	for _, f := range families {
		switch {
		case f.ended:
			if f.told {
				w.awaitEnd(ctx, f)
			}
			w.tryDead(ctx, f)
		case f.refresh != "":
			w.useOnce(ctx, f)
			w.refreshOnce(ctx, f)
		}
	}
}

// awaitEnd waits until no gate accepts the access token of a family that has ended.
func (w *worker) awaitEnd(ctx context.Context, f *grown) {
	if f.access == "" {
		return
	}
	began := time.Now()
	for refusals := 0; refusals < nodes && ctx.Err() == nil; { // one after the other: each node must have refused it
		answer := f.application.Use(ctx, f.access)
		switch {
		case answer.Status == http.StatusUnauthorized:
			refusals++
			continue
		case machine.Fair(time.Since(began)) > longestEnd:
			w.complain("after everything a gate answers to a token that has ended: %v", answer)
			return
		}
		refusals = 0
		time.Sleep(5 * time.Millisecond)
	}
}
