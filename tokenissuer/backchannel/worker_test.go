package backchannel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT201WhatALogoutTokenSays: a logout token → a form POST, typ logout+jwt, the client's algorithm, the claims of the specification and
// no nonce.
func TestT201WhatALogoutTokenSays(t *testing.T) {
	for _, algorithm := range []oauth.Algorithm{"", oauth.ES256, oauth.EdDSA} {
		d := newDesk(t)
		app := newReceiver(t, status(http.StatusOK))
		d.must(d.store.Clients.AddClient(t.Context(), &store.Client{ID: "app", ClientOpenID: store.ClientOpenID{
			IDTokenAlgorithm: algorithm, BackchannelLogoutURI: app.URL + "/bye?tenant=1",
		}}))
		d.ended("s1", "app")
		d.round()
		tokens := app.told()
		if len(tokens) != 1 || len(app.others) != 0 {
			t.Fatalf("%q: %d tokens have come, and %q", algorithm, len(tokens), app.others)
		}
		if algorithm == "" {
			algorithm = oauth.RS256
		}
		header, claims := read(t, tokens[0], algorithm)
		if header["typ"] != "logout+jwt" || header["kid"] == "" {
			t.Errorf("the header is %v", header)
		}
		events, _ := claims["events"].(map[string]any)
		event, there := events["http://schemas.openid.net/event/backchannel-logout"].(map[string]any)
		now := float64(tokentest.Start.Unix())
		if claims["iss"] != issuer || claims["aud"] != "app" || claims["sub"] != "ada" || claims["sid"] != "s1" || claims["iat"] != now ||
			claims["exp"].(float64) <= now || claims["exp"].(float64) > now+120 || claims["jti"] == "" || !there || len(event) != 0 || len(events) != 1 {
			t.Errorf("the claims are %v", claims)
		}
		if got, want := slices.Sorted(maps.Keys(claims)), []string{"aud", "events", "exp", "iat", "iss", "jti", "sid", "sub"}; !slices.Equal(got, want) {
			t.Errorf("the claims are %q", got)
		}
		if words, _ := d.taken(); !slices.Equal(words, []string{"app delivered"}) || d.left() != 0 {
			t.Errorf("%q, and %d are left", words, d.left())
		}
	}
}

// TestT202OneThatIsSlowDelaysNobody: hundreds of logouts for a silent application → four at a time to it, others are told at once.
func TestT202OneThatIsSlowDelaysNobody(t *testing.T) {
	d := newDesk(t)
	release, inside := make(chan struct{}), atomic.Int64{}
	var most atomic.Int64
	slow := newReceiver(t, func(http.ResponseWriter, *http.Request) {
		now := inside.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		<-release
		inside.Add(-1)
	})
	fast := newReceiver(t, status(http.StatusNoContent))
	d.client("slow", slow.URL)
	d.client("fast", fast.URL)
	const ended = 3 * page
	for i := range ended {
		d.ended(fmt.Sprint("s", i), "slow")
		d.clock.Add(time.Millisecond)
	}
	d.ended("last", "fast")
	d.worker.deliverDue(t.Context())
	tokentest.Eventually(t, "the fast one is told", func() bool { return len(fast.told()) == 1 })
	tokentest.Eventually(t, "the slow one is asked", func() bool { return inside.Load() == maxPerHost })
	if words, _ := d.taken(); len(words) > 1 {
		t.Errorf("there are results: %q", words)
	}
	close(release)
	for d.left() > 0 {
		d.worker.deliveries.Wait()
		d.clock.Add(time.Minute)
		d.worker.deliverDue(t.Context())
	}
	d.worker.deliveries.Wait()
	if n := len(slow.told()); n != ended || most.Load() > maxPerHost {
		t.Errorf("the slow one was told %d times, %d at a time", n, most.Load())
	}
}

// TestT202NotMoreThanThereIsRoomFor, however many hosts there are.
func TestT202NotMoreThanThereIsRoomFor(t *testing.T) {
	d := newDesk(t)
	for i := range maxDeliveries {
		if taken, full := d.worker.take(fmt.Sprint("host", i)); !taken || full {
			t.Fatalf("place %d: %t %t", i, taken, full)
		}
	}
	if taken, full := d.worker.take("another"); taken || !full {
		t.Errorf("one more: %t %t", taken, full)
	}
	d.worker.free("host1")
	if taken, _ := d.worker.take("another"); !taken {
		t.Error("there is no place after one was given back")
	}
}

// TestT203DownThenUp: a receiver that is down is tried again, at longer and longer intervals, with a fresh token each time.
func TestT203DownThenUp(t *testing.T) {
	d := newDesk(t)
	var up atomic.Bool
	app := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	d.client("app", app.URL)
	d.ended("s", "app")
	for i, wait := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 600, 600} {
		d.round()
		if words, results := d.taken(); !slices.Equal(words, []string{"app failed"}) || results[0].Status != 503 || results[0].Logout.Attempts != i+1 {
			t.Fatalf("attempt %d: %q, %+v", i+1, words, results)
		}
		d.clock.Add(wait*time.Second - time.Millisecond)
		d.round()
		if n := len(app.told()); n != i+1 {
			t.Fatalf("before the time for attempt %d there were %d", i+2, n)
		}
		d.clock.Add(time.Millisecond)
	}
	up.Store(true)
	d.round()
	if words, _ := d.taken(); !slices.Equal(words, []string{"app delivered"}) || d.left() != 0 {
		t.Errorf("%q, and %d are left", words, d.left())
	}
	tokens := app.told()
	_, first := read(t, tokens[0], oauth.RS256)
	_, last := read(t, tokens[len(tokens)-1], oauth.RS256)
	if first["jti"] == last["jti"] || first["exp"].(float64) >= last["iat"].(float64) {
		t.Errorf("the first token says %v, the last one %v", first, last)
	}
}

// TestT203GivenUpAfterAnHour, and the first attempt is made however late it is.
func TestT203GivenUpAfterAnHour(t *testing.T) {
	d := newDesk(t)
	app := newReceiver(t, status(http.StatusInternalServerError))
	app.Close() // the connection is refused
	d.client("app", app.URL)
	d.ended("s", "app")
	var all []string
	for range 3600 {
		d.round()
		words, _ := d.taken()
		all = append(all, words...)
		d.clock.Add(time.Second)
	}
	if len(all) != 12 || all[11] != "app given_up" || slices.Contains(all[:11], "app given_up") || d.left() != 0 {
		t.Errorf("in an hour: %q, and %d are left", all, d.left())
	}
	d.ended("late", "app")
	d.clock.Add(3 * time.Hour)
	d.round()
	if words, results := d.taken(); !slices.Equal(words, []string{"app given_up"}) || results[0].Logout.Attempts != 1 || results[0].Err == nil {
		t.Errorf("after three hours: %q", words)
	}
}

// TestT204Answers: 200, 204 → done; 400 → refused for good; other statuses and a closed connection → again; redirects → not followed; an
// endless body → bounded. Nothing follows a redirect.
func TestT204Answers(t *testing.T) {
	elsewhere := newReceiver(t, status(http.StatusOK))
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   Outcome
	}{
		{"200", status(200), Delivered},
		{"204", status(204), Delivered},
		{"200 and an endless body", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, Delivered},
		{"202", status(202), Failed},
		{"400", status(400), Refused},
		{"404", status(404), Failed},
		{"429", status(429), Failed},
		{"500", status(500), Failed},
		{"302", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, Failed},
		{"307", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, Failed},
		{"the connection is closed", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			app := newReceiver(t, c.answer)
			d.client("app", app.URL+"/bye?key=in-the-query")
			d.ended("s", "app")
			d.round()
			words, results := d.taken()
			if !slices.Equal(words, []string{"app " + string(c.want)}) {
				t.Fatalf("%q", words)
			}
			if wantLeft := c.want == Failed; (d.left() == 1) != wantLeft || (results[0].Err == nil) != (c.want == Delivered) {
				t.Errorf("%d are left, %v", d.left(), results[0].Err)
			}
			if err := results[0].Err; err != nil && (strings.Contains(err.Error(), "in-the-query") || strings.Contains(err.Error(), app.told()[0])) {
				t.Errorf("the error holds what is not for a log: %v", err)
			}
		})
	}
	if n := len(elsewhere.told()) + len(elsewhere.others); n != 0 {
		t.Errorf("%d requests have followed a redirect", n)
	}
}

// TestT205WhereAWorkerGoes: a URI that names loopback may lead there, and no other may, unless private networks are allowed.
func TestT205WhereAWorkerGoes(t *testing.T) {
	d := newDesk(t)
	app := newReceiver(t, status(http.StatusOK))
	port := app.URL[strings.LastIndex(app.URL, ":"):]
	for id, uri := range map[string]string{
		"address": "http://127.0.0.1" + port, "localhost": "http://localhost" + port,
		"private": "https://10.0.0.1" + port,
	} {
		d.client(id, uri)
		d.ended("session "+id, id)
	}
	d.round()
	words, results := d.taken()
	slices.Sort(words)
	want := []string{"address delivered", "localhost delivered", "private failed"}
	if !slices.Equal(words, want) || len(app.told()) != 2 {
		for _, r := range results {
			t.Log(r.Logout.ClientID, r.Err)
		}
		t.Errorf("%q, and %d tokens have come", words, len(app.told()))
	}
	for _, r := range results {
		if r.Outcome == Failed && !strings.Contains(r.Err.Error(), "address refused") {
			t.Errorf("%s: it was dialled: %v", r.Logout.ClientID, r.Err)
		}
	}
}

// TestT206NobodyToTell: the client removed, disabled or without the URI since → dropped; with another URI → told there.
func TestT206NobodyToTell(t *testing.T) {
	d := newDesk(t)
	before, after := newReceiver(t, status(http.StatusOK)), newReceiver(t, status(http.StatusOK))
	for _, id := range []string{"removed", "disabled", "silent", "moved"} {
		d.client(id, before.URL)
		d.ended("session "+id, id)
	}
	tokens := func(id string) store.Revocation { return store.Revocation{Kind: store.RevokeClient, ID: id} }
	d.must(d.store.Clients.RemoveClient(t.Context(), "removed", tokens("removed")))
	d.must(d.store.Clients.ChangeClient(t.Context(), "disabled", store.DisableClient(tokens("disabled"))))
	d.must(d.store.Clients.ChangeClient(t.Context(), "silent", store.ClientChange{Edit: func(c *store.Client) error { c.BackchannelLogoutURI = ""; return nil }}))
	d.must(d.store.Clients.ChangeClient(t.Context(), "moved", store.ClientChange{Edit: func(c *store.Client) error { c.BackchannelLogoutURI = after.URL; return nil }}))
	d.round()
	words, _ := d.taken()
	slices.Sort(words)
	if !slices.Equal(words, []string{"disabled dropped", "moved delivered", "removed dropped", "silent dropped"}) || d.left() != 0 {
		t.Errorf("%q, and %d are left", words, d.left())
	}
	if len(before.told()) != 0 || len(after.told()) != 1 {
		t.Errorf("%d and %d tokens have come", len(before.told()), len(after.told()))
	}
}

// TestT208OneOfSeveralNodesDelivers: several nodes and one due logout → one delivery.
func TestT208OneOfSeveralNodesDelivers(t *testing.T) {
	d := newDesk(t)
	app := newReceiver(t, status(http.StatusOK))
	d.client("app", app.URL)
	const ended = 20
	for i := range ended {
		d.ended(fmt.Sprint("s", i), "app")
	}
	var nodes sync.WaitGroup
	workers := []*Worker{d.worker, d.newWorker(d.store.Logouts), d.newWorker(d.store.Logouts)}
	for d.left() > 0 {
		for _, w := range workers {
			nodes.Go(func() { w.deliverDue(t.Context()); w.deliveries.Wait() })
		}
		nodes.Wait()
		d.clock.Add(time.Minute)
	}
	if words, _ := d.taken(); len(words) != ended || len(app.told()) != ended {
		t.Errorf("%d results, and %d tokens have come", len(words), len(app.told()))
	}
}

// TestT209BrokenOffAndTakenOver: a worker stopped during a delivery → the next takes it at once; killed → after 30 seconds. The next one
// takes it at once, and the attempt does not count. One that dies leaves it until its claim is over.
func TestT209BrokenOffAndTakenOver(t *testing.T) {
	d := newDesk(t)
	reached := make(chan struct{}, 8)
	var up atomic.Bool
	app := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			reached <- struct{}{}
			<-r.Context().Done()
		}
	})
	d.client("app", app.URL)
	d.ended("s", "app")
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); d.worker.Run(ctx) }()
	<-reached
	if list, err := d.store.Logouts.DueLogouts(t.Context(), d.clock.Now().Add(claim-time.Second), 1); err != nil || len(list) != 0 {
		t.Errorf("somebody else could take %+v, %v", list, err)
	}
	stop()
	<-ran
	list, err := d.store.Logouts.DueLogouts(t.Context(), d.clock.Now(), 1)
	if err != nil || len(list) != 1 || list[0].Attempts != 0 {
		t.Fatalf("after the end there are due %+v, %v", list, err)
	}
	// As if a node had died.
	list[0].Attempts++
	d.must(d.store.Logouts.PostponeLogout(t.Context(), list[0], d.clock.Now().Add(claim)))
	up.Store(true)
	d.worker = d.newWorker(d.store.Logouts)
	d.round()
	if d.left() != 1 {
		t.Error("what another node has was taken")
	}
	d.clock.Add(claim)
	d.round()
	if words, results := d.taken(); !slices.Equal(words, []string{"app delivered"}) || results[0].Logout.Attempts != 2 {
		t.Errorf("%q, %+v", words, results)
	}
}

// faulty is a store in which some calls fail.
type faulty struct {
	store.LogoutStore
	broken atomic.Pointer[string]
}

var errAway = errors.New("the store is away")

func (f *faulty) fails(call string) error {
	if broken := f.broken.Load(); broken != nil && *broken == call {
		return errAway
	}
	return nil
}

func (f *faulty) DueLogouts(ctx context.Context, at time.Time, limit int) ([]store.Logout, error) {
	if err := f.fails("due"); err != nil {
		return nil, err
	}
	return f.LogoutStore.DueLogouts(ctx, at, limit)
}

func (f *faulty) PostponeLogout(ctx context.Context, logout store.Logout, next time.Time) error {
	if err := f.fails("postpone"); err != nil {
		return err
	}
	return f.LogoutStore.PostponeLogout(ctx, logout, next)
}

func (f *faulty) DropLogout(ctx context.Context, logout store.Logout) error {
	if err := f.fails("drop"); err != nil {
		return err
	}
	return f.LogoutStore.DropLogout(ctx, logout)
}

// TestT210AStoreThatFails: the store fails before, while or after a delivery → nothing is lost, at worst it is sent twice, no busy loop.
func TestT210AStoreThatFails(t *testing.T) {
	for call, sent := range map[string]int{"due": 0, "postpone": 0, "drop": 1} {
		t.Run(call, func(t *testing.T) {
			d := newDesk(t)
			app := newReceiver(t, status(http.StatusOK))
			d.client("app", app.URL)
			d.ended("s", "app")
			broken := &faulty{LogoutStore: d.store.Logouts}
			d.worker = d.newWorker(broken)
			broken.broken.Store(&call)
			d.round()
			if n := len(app.told()); n != sent || len(d.failed) == 0 || !errors.Is(d.failed[0], errAway) || d.left() != 1 {
				t.Errorf("%d tokens have come, %d are left, %v", n, d.left(), d.failed)
			}
			broken.broken.Store(nil)
			d.clock.Add(claim)
			d.round()
			if d.left() != 0 || len(app.told()) != sent+1 {
				t.Errorf("afterwards %d are left, %d tokens have come", d.left(), len(app.told()))
			}
		})
	}
}
