package caddymodule

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
)

// oneSlot lets one password be hashed at a time.
func oneSlot(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// crowd is twenty callers that send requests continuously, each again after its turn. They never give up, so the
// number of turns shows who was next, however long a turn takes on this machine.
type crowd struct {
	*userDoor
	turns atomic.Int64
}

// crowd starts them and returns when a quarter of the twenty have had a turn. They stop when the test ends.
func (u *userDoor) crowd(ask func(i, n int) (status int), want int) *crowd {
	u.app().node.Passwords.Patience = time.Minute
	c := &crowd{userDoor: u}
	flood, done := context.WithCancel(u.t.Context())
	var all sync.WaitGroup
	u.t.Cleanup(func() { done(); all.Wait() })
	began := make(chan struct{}, 20)
	for i := range cap(began) {
		all.Go(func() {
			for n := 0; flood.Err() == nil; n++ {
				if status := ask(i, n); status != want {
					u.t.Errorf("the crowd: %d", status)
					return
				}
				if c.turns.Add(1); n == 0 {
					began <- struct{}{}
				}
			}
		})
	}
	for range cap(began) / 4 {
		select {
		case <-began:
		case <-time.After(time.Minute):
			u.t.Fatal("the crowd has no turns")
		}
	}
	return c
}

// aheadOfNobody checks that a sign-in succeeds before half of the crowd has had another turn. At the end of the
// queue, it would wait for all of it.
func (c *crowd) aheadOfNobody(who string, signIn func() (status int), want int) {
	c.t.Helper()
	before := c.turns.Load()
	if status := signIn(); status != want {
		c.t.Errorf("%s: %d", who, status)
	}
	if turns := c.turns.Load() - before; turns >= 10 {
		c.t.Errorf("%s: after %d of the crowd", who, turns)
	}
}

// TestA140ManyAddressesAndAccountsHoldUpNoKnownBrowser: continuous guesses, each from another address at another
// account → a sign-in in a known browser is next in turn.
func TestA140ManyAddressesAndAccountsHoldUpNoKnownBrowser(t *testing.T) {
	oneSlot(t)
	u := openUsers(t)
	b := u.signedInAt("127.0.0.9", ada)
	c := u.crowd(func(i, n int) int {
		email := fmt.Sprintf("u%d-%d@nowhere.example", i, n)
		return u.from(fmt.Sprintf("127.1.0.%d", i+1)).ask(t, "/oauth/token", requestOf("conf").asPassword(email, "wrong").Encode()).status
	}, http.StatusBadRequest)
	for range 2 {
		p := b.ask(requestOf("conf").with("prompt", "login"))
		c.aheadOfNobody("in a known browser", func() int { return b.signIn(p, ada, peoplePassword).status }, http.StatusSeeOther)
	}
}

// TestT121OneAccountClosesSignInForNobody: one account signs in continuously from many addresses → others are next in
// turn; more than 600 a minute from one address → 429 before hashing. Meanwhile all other users can sign in, also
// from the same address: with the password grant, on the page, and again for prompt=login.
func TestT121OneAccountClosesSignInForNobody(t *testing.T) {
	oneSlot(t)
	// As slow as a current hash, or slightly faster: the crowd proves its password at most 600 times in a minute.
	u := openUsers(t, "user u-max {\n\t\t\temail max@acme.example\n\t\t\tpassword HASH", "user u-max {\n\t\t\temail max@acme.example\n\t\t\tpassword "+cheapHash(19456))
	r := requestOf("conf")
	c := u.crowd(func(int, int) int {
		return u.ask(t, "/oauth/token", r.asPassword(maxim, peoplePassword).Encode()).status
	}, http.StatusOK)
	b := u.browserAt("127.0.0.10")
	form := r.asPassword(ada, peoplePassword).Encode()
	c.aheadOfNobody("from the same address", func() int { return u.ask(t, "/oauth/token", form).status }, http.StatusOK)
	c.aheadOfNobody("from another address", func() int { return u.from("127.0.0.7").ask(t, "/oauth/token", form).status }, http.StatusOK)
	p := b.open("/oauth/login")
	c.aheadOfNobody("on the page", func() int { return b.signIn(p, ada, peoplePassword).status }, http.StatusSeeOther)
	p = b.ask(r.with("prompt", "login"))
	c.aheadOfNobody("again", func() int { return b.signIn(p, ada, peoplePassword).status }, http.StatusSeeOther)
}

// TestA141WhoFindsNoSlotIsCounted: attempts while all hashing slots are taken → 503, counted against the address and not against the
// account.
func TestA141WhoFindsNoSlotIsCounted(t *testing.T) {
	oneSlot(t)
	now := setClock(t)
	u := openUsers(t, "\t\t\tlogin off\n", "\t\t\tlogin 2/1m per account\n\t\t\tlogin 3/1m per ip\n")
	known := u.signedInAt("127.0.0.9", ada)
	grant := func(from, email string) int {
		return u.from(from).ask(t, "/oauth/token", requestOf("conf").asPassword(email, peoplePassword).Encode()).status
	}
	if status := grant("127.0.0.8", maxim); status != http.StatusOK {
		t.Fatal(status)
	}
	now.advance(10 * time.Millisecond) // a sign-in of the same instant would satisfy the request
	u.app().node.Passwords.Patience = 10 * time.Millisecond
	free, err := u.app().node.Passwords.Enter(t.Context(), passwords.Attempt{}) // the one slot
	check(t, err)
	for i, want := range []int{503, 503, 503, 429} {
		if status := grant("127.0.0.7", fmt.Sprintf("u%d@nowhere.example", i)); status != want {
			t.Errorf("attempt %d from one address: %d, want %d", i, status, want)
		}
		if status := grant(fmt.Sprintf("127.0.1.%d", i+1), "grace@acme.example"); status != 503 {
			t.Errorf("attempt %d for one account: %d", i, status)
		}
		if status := grant("127.0.0.8", maxim); status != 503 {
			t.Errorf("attempt %d from an address that knows the password: %d", i, status)
		}
		if p := known.signInPage(ada, peoplePassword); p.status != 503 {
			t.Errorf("attempt %d in a known browser: %d", i, p.status)
		}
	}
	free()
	for from, email := range map[string]string{"127.0.0.8": maxim, "127.0.0.6": "grace@acme.example"} {
		if status := grant(from, email); status != http.StatusOK {
			t.Errorf("%s afterwards: %d", email, status)
		}
	}
	if p := known.signInPage(ada, peoplePassword); p.status != http.StatusSeeOther {
		t.Errorf("in the known browser afterwards: %d", p.status)
	}
}
