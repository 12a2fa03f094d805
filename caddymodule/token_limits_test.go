package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover how often a password can be guessed: per account and per address, on the page and at the token
// endpoint together.

// loginLimits makes people count failed sign-ins.
func loginLimits(lines string) []string { return []string{"\t\t\tlogin off\n", lines} }

// throttled is the outcome of one guess too many.
func throttled() outcome {
	return outcome{
		status: http.StatusTooManyRequests, code: "temporarily_unavailable", reason: "sign_in_throttled",
		text: "Too many failed attempts. Try again later.",
	}
}

const wrongPassword = "wrong horse battery staple"

// from returns the door for requests from another loopback address.
func (u *userDoor) from(address string) *userDoor { return &userDoor{u.door.from(address), u.wallet} }

// signInPage returns the sign-in page's answer to a guess.
func (b *browser) signInPage(email, password string) page {
	b.t.Helper()
	r := requestOf("conf")
	r.more = url.Values{"prompt": {"login"}}
	p := b.open(r.path())
	for p.header.Get("Location") != "" {
		p = b.open(p.header.Get("Location"))
	}
	return b.signIn(p, email, password)
}

// holdThrottled checks that a page asks the user to wait.
func holdThrottled(t *testing.T, p page) {
	t.Helper()
	holdPage(t, p, http.StatusTooManyRequests)
	if seconds, err := strconv.Atoi(p.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 60 {
		t.Errorf("Retry-After %q", p.header.Get("Retry-After"))
	}
	holdWords(t, "the page", p.body, "too many attempts", `name="password"`)
}

// TestT72A80OneCountForPageAndGrant: guesses on the sign-in page and by the password grant → one count, then a 429 page.
func TestT72A80OneCountForPageAndGrant(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, loginLimits("")...)
	r := requestOf("conf")
	guess := func(u *userDoor, email, password string, want outcome) {
		u.t.Helper()
		u.denied(r.asPassword(email, password), want)
	}
	u.sub("by the grant, then on the page", func(u *userDoor) {
		for i := range 10 {
			guess(u.from(fmt.Sprintf("127.0.0.%d", 2+i/5)), []string{ada, "ADA@acme.example", " ada@acme.example.", "ａda@acme.example"}[i%4], wrongPassword, badGrant("sign_in_failed"))
		}
		guess(u, ada, peoplePassword, throttled())
		guess(u.from("127.0.0.9"), "ADA@ACME.example.", peoplePassword, throttled())
		for _, password := range []string{peoplePassword, wrongPassword} {
			p := u.browserAt("127.0.0.8").signInPage("Ada@acme.example", password)
			holdThrottled(u.t, p)
			if _, fields := formIn(u.t, p); fields.Get("pending") == "" || fields.Get("email") != "Ada@acme.example" || len(p.header.Values("Set-Cookie")) > 0 {
				u.t.Errorf("the page: %v %v", fields, p.header)
			}
		}
		u.gives(r.asPassword(maxim, peoplePassword)) // another account from the same address
		u.wait(now, 61*time.Second)
		u.gives(r.asPassword(ada, peoplePassword))
	})
	// The same with a smaller limit, which needs fewer hashes.
	u.reload(peopleSite(loginLimits("\t\t\tlogin 3/1m per account\n")...))
	u.sub("on the page, then by the grant", func(u *userDoor) {
		b := u.browserAt("127.0.0.7")
		for range 3 {
			if p := b.signInPage("grace@acme.example", wrongPassword); p.status != http.StatusOK || p.header.Get("Location") != "" {
				u.t.Fatalf("the page: %d %s", p.status, p.body)
			}
		}
		guess(u, "grace@acme.example", peoplePassword, throttled())
		u.wait(now, 61*time.Second)
		u.userTokens(r, "grace@acme.example")
	})
	u.sub("success is no failure", func(u *userDoor) {
		for range 2 {
			guess(u, "ben@acme.example", wrongPassword, badGrant("sign_in_failed"))
		}
		for range 3 {
			u.gives(r.asPassword("ben@acme.example", peoplePassword))
		}
		guess(u, "ben@acme.example", wrongPassword, badGrant("sign_in_failed"))
		guess(u, "ben@acme.example", peoplePassword, throttled())
	})
	u.sub("an account that does not exist, and a reload", func(u *userDoor) {
		for range 3 {
			guess(u, "nobody@acme.example", wrongPassword, badGrant("sign_in_failed"))
		}
		guess(u, "nobody@acme.example", wrongPassword, throttled())
		holdThrottled(u.t, u.browser().signInPage("nobody@acme.example", wrongPassword))
		u.reload(peopleSite(loginLimits("\t\t\tlogin 3/1m per account\n")...) + "\n# another configuration\n")
		guess(u, "nobody@acme.example", peoplePassword, throttled())
	})
}

// TestT73GuessesAtOnce: more guesses at once than the limit → at most the limit are checked, the others get 429 or
// 503.
func TestT73GuessesAtOnce(t *testing.T) {
	setClock(t) // keeps the minute from passing
	u := openUsers(t, loginLimits("")...)
	r := requestOf("conf")
	admitted, throttles := 0, 0
	for _, a := range u.atOnce(40, r.asPassword(ada, wrongPassword)) {
		switch a.status {
		case http.StatusBadRequest:
			u.holdUnaudited(t, a, badGrant(""))
			admitted++
		case http.StatusTooManyRequests:
			u.holdUnaudited(t, a, throttled())
			throttles++
		default: // without a free hashing slot it was neither checked nor counted
			u.holdUnaudited(t, a, outcome{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", text: busy})
		}
	}
	if admitted > 10 || throttles == 0 {
		t.Errorf("%d guesses were judged, limit 10; %d were throttled", admitted, throttles)
	}
}

// TestT74T75A80OneAddressManyAccounts: one password tried on 10,000 accounts from one address, with rotating X-Forwarded-For → the
// address is limited, no account is locked.
func TestT74T75A80OneAddressManyAccounts(t *testing.T) {
	setClock(t) // keeps the minute from passing
	u := openUsers(t, loginLimits("\t\t\tlogin 10/1m per account\n\t\t\tlogin 12/1m per ip\n")...)
	r := requestOf("conf")
	guess := func(i int, email string) answer {
		forged := fmt.Sprintf("198.51.100.%d", i)
		return u.ask(t, "/oauth/token", r.asPassword(email, wrongPassword).Encode(), "X-Forwarded-For", forged, "X-Real-IP", forged,
			"Forwarded", "for="+forged, "True-Client-IP", forged)
	}
	accounts := []string{ada, maxim, "grace@acme.example", "ben@acme.example", "rita@rival.example", "nobody@acme.example"}
	for i := range 12 {
		u.decisions(t)
		u.holdUnaudited(t, guess(i, accounts[i%len(accounts)]), badGrant(""))
		if line := u.audited(); line["address"] != "127.0.0.1" {
			t.Errorf("audited address %v", line["address"])
		}
	}
	for i := range 6 {
		u.decisions(t)
		u.hold(t, guess(100+i, accounts[i]), throttled())
	}
	holdThrottled(t, u.browser().signInPage(ada, peoplePassword))
	for _, email := range accounts[:5] {
		u.from("127.0.0.2").gives(r.asPassword(email, peoplePassword))
	}
}

// TestT76A80KnownDeviceIsNotLockedOut: guesses that lock an account → the owner's known browser still signs in; from
// elsewhere a locked account gives no answer. From elsewhere, the right and a wrong password get the same answer.
func TestT76A80KnownDeviceIsNotLockedOut(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, loginLimits("\t\t\tlogin 3/1m per account\n\t\t\tlogin 1000/1m per ip\n")...)
	r := requestOf("conf")
	known := u.browser()
	known.authorize(r, ada)
	other := u.browser()
	other.authorize(r, maxim) // a known device, but of another account
	guess := func(b *browser, password string) page {
		now.advance(10 * time.Millisecond) // a sign-in of the same instant would satisfy the request
		return b.signInPage(ada, password)
	}
	for range 3 {
		u.from("127.0.0.9").denied(r.asPassword(ada, wrongPassword), badGrant("sign_in_failed"))
	}
	right, wrong := u.ask(t, "/oauth/token", r.asPassword(ada, peoplePassword).Encode()), u.ask(t, "/oauth/token", r.asPassword(ada, wrongPassword).Encode())
	u.decisions(t)
	u.holdUnaudited(t, right, throttled())
	if right.status != wrong.status || right.body != wrong.body || right.header.Get("Retry-After") != wrong.header.Get("Retry-After") {
		t.Errorf("the right password: %d %s, a wrong one: %d %s", right.status, right.body, wrong.status, wrong.body)
	}
	for name, b := range map[string]*browser{"a new one": u.browser(), "another account's": other} {
		guess(b, peoplePassword).is(t, http.StatusTooManyRequests, "device "+name)
	}
	known.signOut()
	if p := guess(known, peoplePassword); p.header.Get("Location") == "" {
		t.Errorf("the known device: %d %s", p.status, p.body)
	}
	// The device's own count is limited as well.
	for range 3 {
		guess(known, wrongPassword).is(t, http.StatusOK, "the known device's guess")
	}
	guess(known, peoplePassword).is(t, http.StatusTooManyRequests, "after its own guesses the known device")
	// A forged device cookie is ignored.
	stranger := u.browser()
	stranger.authorize(r, "ben@acme.example")
	site, _ := url.Parse(u.url)
	device := known.cookie("gatehouse_device")
	stranger.jar.SetCookies(site, []*http.Cookie{{Name: "gatehouse_device", Value: device[:len(device)-1], Path: "/"}})
	guess(stranger, peoplePassword).is(t, http.StatusTooManyRequests, "a forged device")
	// The lock is temporary, but an operator's lock is not.
	u.wait(now, 61*time.Second)
	u.gives(r.asPassword(ada, peoplePassword))
	id := u.addUser("locked@acme.example", "acme", store.RoleMember)
	check(t, u.app().registry.People.SetUserStatus(t.Context(), id, store.UserLocked))
	u.denied(r.asPassword("locked@acme.example", peoplePassword), badGrant("sign_in_failed"))
}
