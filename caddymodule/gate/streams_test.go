package gate

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestG71AStreamIsLeftAloneForOneSweep: a stream survives the first sweep, so a short flushed response gets through
// after a sign-out.
func TestG71AStreamIsLeftAloneForOneSweep(t *testing.T) {
	tok := &token.AccessToken{ExpiresAt: time.Now().Add(time.Hour)}
	p := benchmarkedGate(tok)
	o, s := openStreams{sweeping: true}, newStream(admitted{tokens: &p.tokens, token: tok}, nil, func() {})
	var slot, late atomic.Pointer[stream]
	o.enter(&slot, s)
	if due, more := o.due(); len(due) != 0 || !more {
		t.Errorf("at first: %d due, more %v", len(due), more)
	}
	if due, more := o.due(); len(due) != 1 || !more {
		t.Errorf("then: %d due, more %v", len(due), more)
	}
	if err := o.leave(&slot); err != nil {
		t.Error(err)
	}
	if due, more := o.due(); len(due) != 0 || more {
		t.Errorf("in the end: %d due, more %v", len(due), more)
	}
	o.enter(&slot, s)
	if err := o.leave(&late); err != nil {
		t.Error(err)
	}
	o.enter(&late, s)
	if len(o.open) != 0 {
		t.Error("a stream that has left is watched")
	}
}

// TestG71AHandlerThatGoesOn: a handler that ignores its context and errors cannot make a cut response look complete.
func TestG71AHandlerThatGoesOn(t *testing.T) {
	var dead atomic.Bool
	p := benchmarkedGate(&token.AccessToken{ExpiresAt: time.Now().Add(time.Hour)})
	good := p.tokens.verifier
	p.tokens.verifier = verdict(func(tok string, audiences []string) (*token.AccessToken, error) {
		if dead.Load() {
			return nil, oauth.NewError(oauth.InvalidToken, "token_revoked")
		}
		return good.VerifyAdmitted(tok, audiences, nil)
	})
	written := make(chan error, 1)
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		dead.Store(true)
		<-r.Context().Done()
		_, err := io.WriteString(w, "more")
		written <- err
		return nil
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := p.ServeHTTP(w, caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server)), next); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	r, _ := http.NewRequest(http.MethodGet, server.URL, nil)
	r.Header.Set("Authorization", "Bearer t")
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); string(body) != "first" || err == nil {
		t.Errorf("%q, %v, want an answer that is cut off", body, err)
	}
	if err := <-written; !errors.Is(err, errStreamEnded) {
		t.Errorf("writing on: %v", err)
	}
	// Without a connection to cut, the gate panics with http.ErrAbortHandler.
	defer func() {
		//lint:ignore errorlint as net/http compares it
		if reason := recover(); reason != http.ErrAbortHandler {
			t.Errorf("panic %v, want %v", reason, http.ErrAbortHandler)
		}
	}()
	dead.Store(false)
	w := httptest.NewRecorder()
	_ = p.ServeHTTP(w, caddyhttp.PrepareRequest(r.Clone(t.Context()), caddy.NewReplacer(), w, new(caddyhttp.Server)), next)
	t.Error("the answer was ended as if it were complete")
}

// TestG71StreamsAreLookedAtOften: streams are checked often enough to end within a second of their token.
func TestG71StreamsAreLookedAtOften(t *testing.T) {
	if sweepInterval > time.Second/2 {
		t.Errorf("they are looked at every %v", sweepInterval)
	}
}
