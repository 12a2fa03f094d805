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
		leave := []func(){mustEnter(t, p, hasher{account: "a", address: "1"}), mustEnter(t, p, hasher{account: "b", address: "2"})}
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
		time.AfterFunc(hashPatience/2, leave[0])
		third := mustEnter(t, p, hasher{account: "c", address: "3"})
		leave[1]()
		third()
		if hash, err := p.Hash(ctx, NewSecret(knownPassword)); err != nil || hash.IsEmpty() {
			t.Error(err)
		}
	})
	if n := NewPasswords().slots; n < 1 {
		t.Errorf("%d slots", n)
	}
}

// TestT121A140HashesAreSharedOut: who signs in once waits for the hash that is running, and for nobody's queue.
func TestT121A140HashesAreSharedOut(t *testing.T) {
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
		"many accounts at many addresses beside a known browser": {
			func(i string) hasher { return hasher{account: i, address: i} }, hasher{account: "ada", address: "x", known: true},
		},
		"many accounts at the address of a known browser": {
			func(i string) hasher { return hasher{account: i, address: "1"} }, hasher{account: "ada", address: "1", known: true},
		},
		"many known browsers beside a stranger": {
			func(i string) hasher { return hasher{account: i, address: i, known: true} }, hasher{account: "ada", address: "x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPasswords(1)
				leave := mustEnter(t, p, v.crowd("0"))
				var order []string // written with the one slot
				wait := func(who string, h hasher) {
					go func() {
						if leave, err := p.enter(t.Context(), h); err == nil {
							order = append(order, who)
							leave()
						}
					}()
					synctest.Wait()
				}
				for i := range 40 {
					wait("the crowd", v.crowd(strconv.Itoa(i)))
				}
				wait("one", v.one)
				if len(order) > 0 {
					t.Fatal("two hashes in one slot")
				}
				leave()
				synctest.Wait()
				if len(order) != 41 || order[0] != "one" {
					t.Errorf("the order is %v", order)
				}
			})
		})
	}
	t.Run("many slots", func(t *testing.T) {
		p := newPasswords(4)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		begun := func(h hasher) bool { // without waiting
			_, err := p.enter(gone, h)
			return err == nil
		}
		if !begun(hasher{account: "eve", address: "1"}) || begun(hasher{account: "eve", address: "2"}) {
			t.Error("strangers hash for one account in several slots")
		}
		if !begun(hasher{account: "a", address: "1"}) || !begun(hasher{account: "b", address: "1"}) || begun(hasher{account: "c", address: "1"}) {
			t.Error("one address has not three of four slots")
		}
		if !begun(hasher{account: "ada", address: "4"}) {
			t.Error("no slot is left to others")
		}
	})
}

// mustEnter returns what ends the turn.
func mustEnter(t *testing.T, p *Passwords, h hasher) (leave func()) {
	t.Helper()
	leave, err := p.enter(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}
