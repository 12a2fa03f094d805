package trust

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/internal/loopback"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestAnIssuerThatDoesNotAnswer causes no 401: nothing is known about the token, and the issuer, or our credentials
// there, are at fault.
func TestAnIssuerThatDoesNotAnswer(t *testing.T) {
	const failed, malformed = "introspection_failed", "introspection_malformed"
	hijacked := func(reply string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(reply))
			_ = conn.Close()
		}
	}
	for _, v := range []struct {
		name    string
		reply   http.HandlerFunc
		reason  string
		general bool // the failure would occur with every token
	}{
		{"credentials wrong", issuertest.Status(http.StatusUnauthorized), failed, true},
		{"not allowed", issuertest.Status(http.StatusForbidden), failed, false},
		{"too many questions", issuertest.Status(http.StatusTooManyRequests), failed, true},
		{"nobody behind the proxy", issuertest.Status(http.StatusBadGateway), failed, true},
		{"overloaded", issuertest.Status(http.StatusServiceUnavailable), failed, true},
		{"too slow for its proxy", issuertest.Status(http.StatusGatewayTimeout), failed, true},
		{"hangs up", hijacked(""), failed, false},
		{"no HTTP", hijacked("SSH-2.0-x\r\n"), failed, false},
		{"cut off", hijacked("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"active\":true"), failed, false},
		{"too long", issuertest.Text(`{"active":true,"x":"` + strings.Repeat("a", fetch.DefaultMaxBytes) + `"}`), failed, false},
		{"redirected elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/", http.StatusTemporaryRedirect)
		}, failed, false},
		{"stumbles over a token", issuertest.Status(http.StatusInternalServerError), failed, false},
		{"dislikes a token", issuertest.Status(http.StatusBadRequest), failed, false},
		{"not found", issuertest.Status(http.StatusNotFound), failed, false},
		{"no content", issuertest.Status(http.StatusNoContent), failed, false},
		{"a page", issuertest.Text("<!DOCTYPE html><title>Sign in</title>"), malformed, false},
		{"nothing", issuertest.Text(""), malformed, false},
		{"active twice", issuertest.Text(`{"active":true,"active":false}`), malformed, false},
	} {
		t.Run(v.name, func(t *testing.T) {
			a := newAsker(t)
			a.accepts(t, "known")
			a.replies(v.reply)
			a.refuses(t, "one", oauth.TemporarilyUnavailable, v.reason)
			a.accepts(t, "known")
			asked := a.questions()
			if _, err := a.judgeNow("one"); oauth.AsError(err).Code != oauth.TemporarilyUnavailable {
				t.Errorf("at once again: %v", err)
			}
			a.wantQuestions(t, asked)
			a.answers(nil)
			if v.general {
				a.refuses(t, "two", oauth.TemporarilyUnavailable, "introspection_paused")
				a.wantQuestions(t, asked)
			} else { // otherwise one token that the issuer fails on would block all
				a.accepts(t, "two")
				asked++
			}
			a.clock.Add(failurePause)
			a.accepts(t, "one")
			a.accepts(t, "three")
			a.wantQuestions(t, asked+2)
		})
	}
}

func TestAnIssuerThatIsGoneComesBack(t *testing.T) {
	port, err := loopback.Reserve() // otherwise another process may take it before the issuer comes back
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Close() })
	at := func() *issuertest.Provider {
		p := issuertest.Unstarted(issuertest.NewSigner("k"))
		_ = p.Listener.Close()
		if p.Listener, err = net.Listen("tcp4", port.Addr()); err != nil {
			t.Fatal(err)
		}
		p.Start()
		return p
	}
	a := newAskerOf(t, at())
	undated := map[string]any{"iat": nil}
	a.answers(undated)
	a.accepts(t, "known")
	a.introspector.endpoint.client.CloseIdleConnections()
	a.provider.Close()
	a.clock.Add(time.Second)
	a.accepts(t, "known")
	a.refuses(t, "new", oauth.TemporarilyUnavailable, "introspection_failed")
	a.refuses(t, "newer", oauth.TemporarilyUnavailable, "introspection_paused")
	a.clock.Add(defaultCacheFor)
	a.refuses(t, "known", oauth.TemporarilyUnavailable, "introspection_failed")
	a.clock.Add(-time.Hour) // a clock set back does not extend the pause by an hour
	a.refuses(t, "newest", oauth.TemporarilyUnavailable, "introspection_failed")

	back := at()
	t.Cleanup(back.Close)
	back.Answer(introspectionPath, issuertest.Text(goodAnswer(a.provider.URL, undated)))
	a.clock.Add(failurePause)
	a.accepts(t, "known")
}

// TestAnIssuerThatHangs checks that it delays a request by the client's timeout at most.
func TestAnIssuerThatHangs(t *testing.T) {
	a := newAsker(t)
	a.introspector.endpoint.client = fetch.NewClient(fetch.Limits{Reach: fetch.PrivateNetwork, Timeout: 50 * time.Millisecond})
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	a.replies(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	a.refuses(t, "one", oauth.TemporarilyUnavailable, "introspection_failed")
	a.refuses(t, "two", oauth.TemporarilyUnavailable, "introspection_paused")
}

// TestAFloodOfTokensIsAskedInTurn: two sources send many tokens. The number of concurrent introspections is bounded,
// and requests that wait too long for a slot are refused as busy.
func TestAFloodOfTokensIsAskedInTurn(t *testing.T) {
	const flood = 400
	a := newAsker(t)
	a.introspector.slotTimeout = 20 * time.Millisecond
	var busy, inactive atomic.Int64
	var waiting sync.WaitGroup
	defer waiting.Wait()
	come := make(chan struct{})
	release := sync.OnceFunc(func() { close(come) })
	defer release()
	a.replies(func(w http.ResponseWriter, r *http.Request) {
		<-come
		issuertest.Inactive(w, r)
	})
	for n := range flood {
		waiting.Go(func() {
			_, err := a.judgeFrom(fmt.Sprint(n%2), fmt.Sprint("token", n))
			switch e := oauth.AsError(err); e.Reason {
			case "introspection_busy":
				busy.Add(1)
			case "token_inactive":
				inactive.Add(1)
			default:
				t.Errorf("token %d: %v", n, err)
			}
		})
	}
	tokentest.Eventually(t, "not everybody else was sent away", func() bool { return busy.Load() == flood-maxQuestions })
	tokentest.Eventually(t, "not every question has arrived", func() bool { return a.underWay() == maxQuestions })
	release()
	waiting.Wait()
	if a.most != maxQuestions || inactive.Load() != maxQuestions {
		t.Errorf("%d questions at once, %d answered, want %d", a.most, inactive.Load(), maxQuestions)
	}
	a.answers(nil)
	a.accepts(t, "after-the-flood")
}

// TestG140TheNextTurnIsAnotherSources: three sources hold all slots, and many more of their tokens wait. A token from
// another source is introspected next, even if the three send it as well.
func TestG140TheNextTurnIsAnotherSources(t *testing.T) {
	a := newAsker(t)
	a.introspector.slotTimeout, a.introspector.wait = time.Minute, time.Minute
	answer := make(chan struct{})
	a.replies(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("token") != "shared" {
			<-answer
		}
		issuertest.Inactive(w, r)
	})
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer close(answer)
	show := func(source, token string) {
		waiting := a.introspector.queue.Waiting()
		crowd.Go(func() { _, _ = a.judgeFrom(source, token) })
		tokentest.Eventually(t, "it waits", func() bool { return a.introspector.queue.Waiting() > waiting })
	}
	for n := range 3 * maxQuestions {
		crowd.Go(func() { _, _ = a.judgeFrom(fmt.Sprint(n%3), fmt.Sprint("token", n)) })
	}
	tokentest.Eventually(t, "the others wait", func() bool { return a.underWay() == maxQuestions && a.introspector.queue.Waiting() == 2*maxQuestions })
	show("0", "shared")
	show("elsewhere", "shared")
	asked := a.questions()
	answer <- struct{}{}
	tokentest.Eventually(t, "somebody else is asked about", func() bool { return a.questions() > asked })
	a.mu.Lock()
	defer a.mu.Unlock()
	if next := a.asked[asked]; next != "shared" {
		t.Errorf("the next question is about %s", next)
	}
}

// TestThoseWhoWaitForTheirTurnGetIt: a waiting request takes a slot as soon as it is free.
func TestThoseWhoWaitForTheirTurnGetIt(t *testing.T) {
	a := newAsker(t)
	a.introspector.slotTimeout = time.Minute
	a.introspector.queue = fairqueue.New(2, maxWaiting)
	var waiting sync.WaitGroup
	for n := range 50 {
		waiting.Go(func() { a.accepts(t, fmt.Sprint("token", n)) })
	}
	waiting.Wait()
	a.wantQuestions(t, 50)
	if a.most > 2 {
		t.Errorf("%d questions at once", a.most)
	}
}

// TestWhoWaitsDoesNotAskAnIssuerThatHasFailedMeanwhile: otherwise the whole queue would ask it, one after the other.
func TestWhoWaitsDoesNotAskAnIssuerThatHasFailedMeanwhile(t *testing.T) {
	a := newAsker(t)
	a.introspector.slotTimeout = time.Minute
	a.introspector.queue = fairqueue.New(1, maxWaiting)
	come := make(chan struct{})
	release := sync.OnceFunc(func() { close(come) })
	defer release()
	a.replies(func(w http.ResponseWriter, _ *http.Request) {
		<-come
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	reasons := make(chan string, 20)
	for n := range cap(reasons) {
		go func() {
			_, err := a.judgeNow(fmt.Sprint("token", n))
			reasons <- oauth.AsError(err).Reason
		}()
	}
	tokentest.Eventually(t, "nobody asked", func() bool { return a.questions() > 0 })
	release()
	counts := make(map[string]int)
	for range cap(reasons) {
		counts[<-reasons]++
	}
	if counts["introspection_failed"] != 1 || counts["introspection_paused"] != cap(reasons)-1 {
		t.Errorf("%v", counts)
	}
	a.wantQuestions(t, 1)
}

// TestConnectionsToTheIssuerAreUsedAgain: a handshake for every token would cost both sides more than the
// introspection.
func TestConnectionsToTheIssuerAreUsedAgain(t *testing.T) {
	var opened atomic.Int64
	p := issuertest.Unstarted(issuertest.NewSigner("k"))
	p.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	p.Start()
	t.Cleanup(p.Close)
	g := newGate(t, p, asks)
	p.Answer(introspectionPath, issuertest.Text(goodAnswer(p.URL, nil)))
	for n := range 50 {
		g.accepts(t, fmt.Sprint("token", n))
	}
	if n := opened.Load(); n > 10 { // one, unless the machine is too slow to return it in time
		t.Errorf("%d connections for 50 questions, one after the other", n)
	}
}

// TestWarningsAreFewAndWithoutSecrets: an issuer that echoes our request must not make us log its secrets.
func TestWarningsAreFewAndWithoutSecrets(t *testing.T) {
	a := newAsker(t)
	const token = "the+secret/token="
	credentials := url.QueryEscape(ourID) + ":" + url.QueryEscape(ourSecret)
	var errs []error
	for _, reply := range []http.HandlerFunc{
		issuertest.Status(http.StatusUnauthorized),
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/?token="+url.QueryEscape(token)+"&t="+token, http.StatusFound)
		},
		func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			basic := strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")
			_, _ = fmt.Fprintf(conn, "%s_%s_%s_%s\r\n", basic, token, ourSecret, url.QueryEscape(ourSecret))
			_ = conn.Close()
		},
		issuertest.Text(`{"active":true,"aud":"x","sub":"` + token + `","exp":"` + token + `"}`),
		issuertest.Text(`{"active":true,"` + token + `":1,"` + token + `":2}`),
		issuertest.Text(`{"active":true,"` + token + `":{"a":1,"a":2}}`),
		issuertest.Text(token),
	} {
		a.replies(reply)
		for range 3 {
			_, err := a.judgeNow(token)
			errs = append(errs, err)
		}
		a.clock.Add(failurePause)
	}
	a.gate.mu.Lock()
	logged := strings.Join(a.warnings, "\n")
	if len(a.warnings) != 1 {
		t.Errorf("%d warnings in %s: %s", len(a.warnings), 7*failurePause, logged)
	}
	a.gate.mu.Unlock()
	for _, err := range errs {
		if oauth.AsError(err).Code != oauth.TemporarilyUnavailable {
			t.Errorf("%v", err)
		}
		logged += "\n" + err.Error()
	}
	for _, secret := range []string{"the+secret", "the%2Bsecret", "s3cr", url.QueryEscape(ourSecret), base64.StdEncoding.EncodeToString([]byte(credentials))} {
		if strings.Contains(logged, secret) {
			t.Errorf("%q is in %s", secret, logged)
		}
	}
	a.clock.Add(warnInterval)
	a.replies(issuertest.Status(http.StatusUnauthorized))
	if _, err := a.judgeNow(token); err == nil {
		t.Error("accepted")
	}
	a.gate.mu.Lock()
	defer a.gate.mu.Unlock()
	if len(a.warnings) != 2 {
		t.Errorf("%d warnings a minute later", len(a.warnings))
	}
}
