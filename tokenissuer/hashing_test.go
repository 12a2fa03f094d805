package tokenissuer

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestT78NoMoreHashesAtOnceThanSlots: who waits for a tenth of a second in vain is sent away.
func TestT78NoMoreHashesAtOnceThanSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords(2)
		ctx := t.Context()
		turns := []*hashTurn{mustEnter(t, p, hasher{account: "a", address: "1"}), mustEnter(t, p, hasher{account: "b", address: "2"})}
		began := time.Now()
		_, err := p.enter(ctx, hasher{account: "c", address: "3"})
		wantCode(t, err, TemporarilyUnavailable)
		if waited := time.Since(began); waited != hashPatience {
			t.Errorf("waited %s", waited)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		began = time.Now()
		_, err = p.enter(gone, hasher{account: "c", address: "3"})
		if wantCode(t, err, TemporarilyUnavailable); time.Since(began) != 0 {
			t.Error("a caller that has gone waits")
		}
		if _, err := p.Hash(ctx, NewSecret(knownPassword)); err == nil {
			t.Error("a third hash at once")
		}
		time.AfterFunc(hashPatience/2, func() { p.leave(turns[0]) })
		third := mustEnter(t, p, hasher{account: "c", address: "3"})
		p.leave(turns[1])
		p.leave(third)
		if hash, err := p.Hash(ctx, NewSecret(knownPassword)); err != nil || hash.IsEmpty() {
			t.Error(err)
		}
		if len(p.waiting)+len(p.present)+len(p.hashing)+p.taken != 0 {
			t.Errorf("left behind: %+v", p)
		}
	})
	if n := NewPasswords().slots; n < 1 {
		t.Errorf("%d slots", n)
	}
}

// TestT121HashesAreSharedOut: who signs in once waits for the hash that is running, and for nobody's queue.
func TestT121HashesAreSharedOut(t *testing.T) {
	for name, v := range map[string]struct {
		crowd func(i string) hasher
		one   hasher
	}{
		"one account":                        {func(string) hasher { return hasher{account: "eve", address: "1"} }, hasher{account: "ada", address: "2"}},
		"one account at the same address":    {func(string) hasher { return hasher{account: "eve", address: "1"} }, hasher{account: "ada", address: "1"}},
		"one account from everywhere":        {func(i string) hasher { return hasher{account: "eve", address: i} }, hasher{account: "ada", address: "x"}},
		"one account in many known browsers": {func(i string) hasher { return hasher{account: "eve", address: i, known: true} }, hasher{account: "ada", address: "x"}},
		"many accounts at one address":       {func(i string) hasher { return hasher{account: i, address: "1"} }, hasher{account: "ada", address: "2"}},
		"strangers beside a known browser":   {func(i string) hasher { return hasher{account: "ada", address: i} }, hasher{account: "ada", address: "x", known: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPasswords(1)
			first := p.arrive(v.crowd("0"))
			for i := range 40 {
				p.arrive(v.crowd(strconv.Itoa(i)))
			}
			one := p.arrive(v.one)
			if hasBegun(one) {
				t.Fatal("two hashes in one slot")
			}
			p.leave(first)
			if !hasBegun(one) {
				t.Error("another one came first")
			}
		})
	}
	t.Run("many slots", func(t *testing.T) {
		p := newPasswords(4)
		begun := func(h hasher) bool { return hasBegun(p.arrive(h)) }
		eve := p.arrive(hasher{account: "eve", address: "1"})
		if !hasBegun(eve) || begun(hasher{account: "eve", address: "2"}) || begun(hasher{account: "eve", address: "3", known: true}) {
			t.Error("one account hashes in several slots")
		}
		if !begun(hasher{account: "a", address: "1"}) || !begun(hasher{account: "b", address: "1"}) || begun(hasher{account: "c", address: "1"}) {
			t.Error("one address has not three of four slots")
		}
		if !begun(hasher{account: "ada", address: "4"}) {
			t.Error("no slot is left to others")
		}
		if p.leave(eve); begun(hasher{}) {
			t.Error("who waits was passed over")
		}
	})
}

func mustEnter(t *testing.T, p *Passwords, h hasher) *hashTurn {
	t.Helper()
	turn, err := p.enter(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func hasBegun(t *hashTurn) bool {
	select {
	case <-t.begin:
		return true
	default:
		return false
	}
}
