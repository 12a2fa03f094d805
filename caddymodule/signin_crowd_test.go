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

// crowd has forty ask without end, until the test is over, and returns when it has begun for half of them.
func (u *userDoor) crowd(ask func(i, n int) (status int), begun func(status int) bool) {
	flood, done := context.WithCancel(u.t.Context())
	var crowd sync.WaitGroup
	u.t.Cleanup(func() { done(); crowd.Wait() })
	began := make(chan struct{}, 40)
	for i := range cap(began) {
		crowd.Go(func() {
			for n, told := 0, false; flood.Err() == nil; n++ {
				if status := ask(i, n); begun(status) && !told {
					told = true
					began <- struct{}{}
				}
			}
		})
	}
	for range cap(began) / 2 {
		<-began
	}
}

// patiently asks again after a 503: on a machine that is starved even the next turn may come too late. Among strangers a turn comes
// once in forty times, so that it nearly always would.
func patiently(status func() int) (last int) {
	for range 5 {
		if last = status(); last != http.StatusServiceUnavailable {
			break
		}
	}
	return last
}

// TestA140ManyAddressesAndAccountsHoldUpNoKnownBrowser: guesses come without end, each from another address at another account.
// Somebody whose browser has signed in before signs in beside them.
func TestA140ManyAddressesAndAccountsHoldUpNoKnownBrowser(t *testing.T) {
	oneSlot(t)
	u := openUsers(t)
	b := u.signedInAt("127.0.0.9", ada)
	u.crowd(func(i, n int) int {
		email := fmt.Sprintf("u%d-%d@nowhere.example", i, n)
		return u.from(fmt.Sprintf("127.1.0.%d", i+1)).ask(t, "/oauth/token", requestOf("conf").asPassword(email, "wrong").Encode()).status
	}, func(status int) bool { return status == http.StatusServiceUnavailable })
	for range 5 {
		if status := patiently(func() int { return b.signInPage(ada, peoplePassword).status }); status != http.StatusSeeOther {
			t.Errorf("in a known browser: %d", status)
		}
	}
}

// TestT121OneAccountClosesSignInForNobody: somebody proves a password without end, over many connections. Everybody else signs
// in beside that, from the same address too: with the password grant, on the page, and again for prompt=login.
func TestT121OneAccountClosesSignInForNobody(t *testing.T) {
	oneSlot(t)
	// Cheap, so that a machine under load makes one in time, and yet forty of them take longer than anybody waits.
	u := openUsers(t, "user u-max {\n\t\t\temail max@acme.example\n\t\t\tpassword HASH", "user u-max {\n\t\t\temail max@acme.example\n\t\t\tpassword "+cheapHash(8192))
	r := requestOf("conf")
	u.crowd(func(int, int) int {
		status := u.ask(t, "/oauth/token", r.asPassword(maxim, peoplePassword).Encode()).status
		if status != http.StatusOK && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			t.Errorf("the crowd: %d", status)
		}
		return status
	}, func(int) bool { return true })
	for i, email := range []string{ada, "grace@acme.example", "ben@acme.example"} {
		b := u.browserAt(fmt.Sprintf("127.0.0.1%d", i))
		form := r.asPassword(email, peoplePassword).Encode()
		for name, test := range map[string]struct {
			ask  func() int
			want int
		}{
			"from the same address": {func() int { return u.ask(t, "/oauth/token", form).status }, http.StatusOK},
			"from another address":  {func() int { return u.from("127.0.0.7").ask(t, "/oauth/token", form).status }, http.StatusOK},
			"on the page":           {func() int { return b.signIn(b.open("/oauth/login"), email, peoplePassword).status }, http.StatusSeeOther},
		} {
			if status := patiently(test.ask); status != test.want {
				t.Errorf("%s %s: %d", email, name, status)
			}
		}
		if status := patiently(func() int { return b.signIn(b.ask(r.with("prompt", "login")), email, peoplePassword).status }); status != http.StatusSeeOther {
			t.Errorf("%s again: %d", email, status)
		}
	}
}

// TestA141WhoFindsNoSlotIsCounted against the address, and not against the account, or whoever has shown to know a password.
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
