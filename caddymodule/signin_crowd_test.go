package caddymodule

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// oneSlot leaves one password to be hashed at a time.
func oneSlot(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// TestA140ManyAddressesAndAccountsHoldUpNoKnownBrowser: guesses come without end, each from another address at another account.
// Somebody whose browser has signed in before signs in beside them.
func TestA140ManyAddressesAndAccountsHoldUpNoKnownBrowser(t *testing.T) {
	oneSlot(t)
	u := openUsers(t)
	b := u.browserAt("127.0.0.9")
	if p := b.signIn(b.open("/oauth/login"), ada, peoplePassword); p.status != http.StatusSeeOther {
		t.Fatal(p.status)
	}
	flood, done := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	defer func() { done(); crowd.Wait() }()
	busy := make(chan struct{}, 40)
	for i := range cap(busy) {
		crowd.Go(func() {
			from := u.from(fmt.Sprintf("127.1.0.%d", i+1))
			for n, told := 0, false; flood.Err() == nil; n++ {
				email := fmt.Sprintf("u%d-%d@nowhere.example", i, n)
				if a := from.ask(t, "/oauth/token", requestOf("conf").asPassword(email, "wrong").Encode()); a.status == http.StatusServiceUnavailable && !told {
					told = true
					busy <- struct{}{}
				}
			}
		})
	}
	for range cap(busy) / 2 {
		<-busy
	}
	for range 5 {
		// On a machine that is starved even the next turn may come too late. Among the strangers a turn comes once in forty times.
		status := http.StatusServiceUnavailable
		for tries := 0; tries < 10 && status == http.StatusServiceUnavailable; tries++ {
			status = b.signInPage(ada, peoplePassword).status
		}
		if status != http.StatusSeeOther {
			t.Errorf("in a known browser: %d", status)
		}
	}
}

// TestA141WhoFindsNoSlotIsCounted against the address, and not against the account, or whoever has shown to know a password.
func TestA141WhoFindsNoSlotIsCounted(t *testing.T) {
	oneSlot(t)
	now := setClock(t)
	u := openUsers(t, "\t\t\tlogin off\n", "\t\t\tlogin 2/1m per account\n\t\t\tlogin 3/1m per ip\n")
	known := u.browserAt("127.0.0.9")
	if p := known.signIn(known.open("/oauth/login"), ada, peoplePassword); p.status != http.StatusSeeOther {
		t.Fatal(p.status)
	}
	grant := func(from, email string) int {
		return u.from(from).ask(t, "/oauth/token", requestOf("conf").asPassword(email, peoplePassword).Encode()).status
	}
	if status := grant("127.0.0.8", maxim); status != http.StatusOK {
		t.Fatal(status)
	}
	now.advance(10 * time.Millisecond) // a sign-in of the same moment is the one that is asked for
	taken, end := context.WithCancel(t.Context())
	var operator sync.WaitGroup
	for range 8 { // whose turn is always the next one
		operator.Go(func() {
			for taken.Err() == nil {
				_, _ = u.app().node.Passwords.Hash(taken, oauth.NewSecret(peoplePassword))
			}
		})
	}
	t.Cleanup(func() { end(); operator.Wait() })
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
	end()
	operator.Wait()
	for from, email := range map[string]string{"127.0.0.8": maxim, "127.0.0.6": "grace@acme.example"} {
		if status := grant(from, email); status != http.StatusOK {
			t.Errorf("%s afterwards: %d", email, status)
		}
	}
	if p := known.signInPage(ada, peoplePassword); p.status != http.StatusSeeOther {
		t.Errorf("in the known browser afterwards: %d", p.status)
	}
}
