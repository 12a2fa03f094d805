package caddymodule

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"testing"
)

// TestT121OneAccountClosesSignInForNobody: somebody proves a password without end, over many connections. Everybody else signs
// in beside that, from the same address too: with the password grant, on the page, and again for prompt=login.
func TestT121OneAccountClosesSignInForNobody(t *testing.T) {
	before := runtime.GOMAXPROCS(2) // one slot
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	// Cheap, so that a machine under load makes one in time, and yet forty of them take longer than anybody waits.
	u := openUsers(t, "user u-max {\n\t\t\temail max@acme.example\n\t\t\tpassword HASH", "user u-max {\n\t\t\temail max@acme.example\n\t\t\tpassword "+cheapHash(8192))
	r := requestOf("conf")
	flood, done := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	began := make(chan struct{}, 40)
	for range cap(began) {
		crowd.Go(func() {
			for first := true; flood.Err() == nil; first = false {
				if a := u.ask(t, "/oauth/token", r.asPassword(maxim, peoplePassword).Encode()); a.status != http.StatusOK && a.status != http.StatusServiceUnavailable && a.status != http.StatusTooManyRequests {
					t.Errorf("the crowd: %d", a.status)
					return
				}
				if first {
					began <- struct{}{}
				}
			}
		})
	}
	defer func() { done(); crowd.Wait() }()
	for range cap(began) {
		<-began
	}
	// On a machine that is starved even the next turn may come too late, which is told by a 503. In a queue that is somebody
	// else's it would come too late nearly always.
	patiently := func(status func() int) (last int) {
		for range 3 {
			if last = status(); last != http.StatusServiceUnavailable {
				break
			}
		}
		return last
	}
	for i, email := range []string{ada, "grace@acme.example", "ben@acme.example"} {
		for name, from := range map[string]*userDoor{"the same address": u, "another address": u.from("127.0.0.7")} {
			if status := patiently(func() int { return from.ask(t, "/oauth/token", r.asPassword(email, peoplePassword).Encode()).status }); status != http.StatusOK {
				t.Errorf("%s from %s: %d", email, name, status)
			}
		}
		b := u.browserAt("127.0.0.1" + string(rune('0'+i)))
		if status := patiently(func() int { return b.signIn(b.open("/oauth/login"), email, peoplePassword).status }); status != http.StatusSeeOther {
			t.Errorf("%s on the page: %d", email, status)
		}
		if status := patiently(func() int { return b.signIn(b.ask(r.with("prompt", "login")), email, peoplePassword).status }); status != http.StatusSeeOther {
			t.Errorf("%s again: %d", email, status)
		}
	}
}
