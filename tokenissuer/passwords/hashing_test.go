package passwords

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestT78A140NoMoreHashesAtOnceThanSlots: a sign-in that waits in vain for a tenth of a second is refused, in a known browser after a
// second, and the first use of a client's imported secret after ten.
func TestT78A140NoMoreHashesAtOnceThanSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHasher(2)
		ctx := t.Context()
		leave := []func(){mustEnter(t, p, Attempt{Account: "a", Address: "1"}), mustEnter(t, p, Attempt{Account: "b", Address: "2"})}
		began := time.Now()
		_, err := p.Enter(ctx, Attempt{Account: "c", Address: "3"})
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
		if waited := time.Since(began); waited != p.Patience {
			t.Errorf("waited %s", waited)
		}
		began = time.Now()
		_, err = p.Enter(ctx, Attempt{Account: "c", Address: "3", Known: true})
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
		if waited := time.Since(began); waited != 10*p.Patience {
			t.Errorf("a known browser waited %s", waited)
		}
		began = time.Now()
		_, err = p.Enter(ctx, Attempt{Account: "client", Address: "3", Learns: true})
		tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
		if waited := time.Since(began); waited != 100*p.Patience {
			t.Errorf("a client whose secret is learnt waited %s", waited)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		began = time.Now()
		_, err = p.Enter(gone, Attempt{Account: "c", Address: "3"})
		if tokentest.WantCode(t, err, oauth.TemporarilyUnavailable); time.Since(began) != 0 {
			t.Error("a caller that has gone waits")
		}
		if _, err := p.Hash(ctx, oauth.NewSecret(knownPassword)); err == nil {
			t.Error("a third hash at once")
		}
		time.AfterFunc(p.Patience/2, leave[0])
		third := mustEnter(t, p, Attempt{Account: "c", Address: "3"})
		leave[1]()
		third()
		if hash, err := p.Hash(ctx, oauth.NewSecret(knownPassword)); err != nil || hash.IsEmpty() {
			t.Error(err)
		}
	})
	if n := NewHasher().slots; n < 1 {
		t.Errorf("%d slots", n)
	}
}

// TestT121A140HashesAreSharedOut: a single sign-in waits only for the running hash, and not for other sign-ins' queues.
func TestT121A140HashesAreSharedOut(t *testing.T) {
	for name, v := range map[string]struct {
		crowd func(i string) Attempt
		one   Attempt
	}{
		"one account":                        {func(string) Attempt { return Attempt{Account: "eve", Address: "1"} }, Attempt{Account: "ada", Address: "2"}},
		"one account at the same address":    {func(string) Attempt { return Attempt{Account: "eve", Address: "1"} }, Attempt{Account: "ada", Address: "1"}},
		"one account from everywhere":        {func(i string) Attempt { return Attempt{Account: "eve", Address: i} }, Attempt{Account: "ada", Address: "x"}},
		"one account in many known browsers": {func(i string) Attempt { return Attempt{Account: "eve", Address: i, Known: true} }, Attempt{Account: "ada", Address: "x"}},
		"many accounts at one address":       {func(i string) Attempt { return Attempt{Account: i, Address: "1"} }, Attempt{Account: "ada", Address: "2"}},
		"strangers beside a known browser":   {func(i string) Attempt { return Attempt{Account: "ada", Address: i} }, Attempt{Account: "ada", Address: "x", Known: true}},
		"many accounts at many addresses beside a known browser": {
			func(i string) Attempt { return Attempt{Account: i, Address: i} }, Attempt{Account: "ada", Address: "x", Known: true},
		},
		"many accounts at the address of a known browser": {
			func(i string) Attempt { return Attempt{Account: i, Address: "1"} }, Attempt{Account: "ada", Address: "1", Known: true},
		},
		"many clients' secrets beside a known browser": {
			func(i string) Attempt { return Attempt{Account: i, Address: i, Learns: true} }, Attempt{Account: "ada", Address: "x", Known: true},
		},
		"many clients' secrets beside a stranger": {
			func(i string) Attempt { return Attempt{Account: i, Address: i, Learns: true} }, Attempt{Account: "ada", Address: "x"},
		},
		"many known browsers beside a stranger": {
			func(i string) Attempt { return Attempt{Account: i, Address: i, Known: true} }, Attempt{Account: "ada", Address: "x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newHasher(1)
				leave := mustEnter(t, p, v.crowd("0"))
				var order []string // only the holder of the slot writes it
				wait := func(who string, h Attempt) {
					go func() {
						if leave, err := p.Enter(t.Context(), h); err == nil {
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
		p := newHasher(4)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		begun := func(h Attempt) bool { // the slot must be free at once
			_, err := p.Enter(gone, h)
			return err == nil
		}
		if !begun(Attempt{Account: "eve", Address: "1"}) || begun(Attempt{Account: "eve", Address: "2"}) {
			t.Error("strangers hash for one account in several slots")
		}
		if !begun(Attempt{Account: "a", Address: "1"}) || !begun(Attempt{Account: "b", Address: "1"}) || begun(Attempt{Account: "c", Address: "1"}) {
			t.Error("one address has not three of four slots")
		}
		if !begun(Attempt{Account: "ada", Address: "4"}) {
			t.Error("no slot is left to others")
		}
	})
}

// mustEnter returns the function that releases the slot.
func mustEnter(t *testing.T, p *Hasher, h Attempt) (leave func()) {
	t.Helper()
	leave, err := p.Enter(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}
