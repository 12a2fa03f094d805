package gate

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// requestFrom returns the context of a request from a client address.
func requestFrom(t *testing.T, address string) context.Context {
	r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/", nil).WithContext(t.Context()), caddy.NewReplacer(), nil, nil)
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, address)
	return r.Context()
}

// TestG81AFloodDelaysNoOtherAddress: while one address, or one IPv6 network, has many signatures to verify, the next turn is that of
// another address that comes last.
func TestG81AFloodDelaysNoOtherAddress(t *testing.T) {
	for name, test := range map[string]struct {
		flood    func(i int) string
		stranger string
	}{
		"IPv4": {func(int) string { return "192.0.2.7" }, "192.0.2.8"},
		"IPv6": {func(i int) string { return fmt.Sprintf("2001:db8:1:2::%x", i+1) }, "2001:db8:1:3::1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(1, maxWaiting)
				var order []string
				enter := func(address string) {
					done, err := admission(requestFrom(t, address), q)()
					if err != nil {
						t.Errorf("%s: %v", address, err)
						return
					}
					order = append(order, address)
					time.Sleep(time.Millisecond)
					done()
				}
				for i := range 100 {
					go enter(test.flood(i))
				}
				synctest.Wait()
				go enter(test.stranger)
				time.Sleep(maxWait / 2)
				synctest.Wait()
				if len(order) != 101 || order[1] != test.stranger {
					t.Errorf("%d turns, the second is that of %s, want that of %s", len(order), order[1], test.stranger)
				}
			})
		})
	}
}

// TestG81NoRequestWaitsForEver: a request that gets no turn, or finds the queue full, gets an error with Retry-After.
// A stream is rechecked all the same, and next.
func TestG81NoRequestWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 1)
		done, err := admission(requestFrom(t, "192.0.2.7"), q)()
		if err != nil {
			t.Fatal(err)
		}
		rechecked := make(chan error, 1)
		refused := func(what string, after time.Duration) {
			from := time.Now()
			_, err := admission(requestFrom(t, "192.0.2.8"), q)()
			e := oauth.AsError(err)
			if took := time.Since(from); e.Code != oauth.TemporarilyUnavailable || e.Reason != oauth.ErrVerificationBusy.Reason || e.RetryAfter != busyRetry || took != after {
				t.Errorf("%s: %v after %v", what, err, took)
			}
		}
		refused("a turn that does not come", maxWait)
		go func() {
			leave, err := admission(t.Context(), q)()
			if err == nil {
				leave()
			}
			rechecked <- err
		}()
		synctest.Wait()
		refused("a full queue", 0)
		done()
		if err := <-rechecked; err != nil {
			t.Errorf("a stream: %v", err)
		}
		gone, leave := context.WithCancel(requestFrom(t, "192.0.2.8"))
		leave()
		q = newQueue(0, 4)
		if _, err := admission(gone, q)(); oauth.AsError(err).Reason == oauth.ErrVerificationBusy.Reason {
			t.Errorf("a client that has gone: %v", err)
		}
	})
}

// unseen is an OwnVerifier that recalls one token alone, and accepts each token after its turn.
type unseen struct {
	verdict
	known string
}

func (u unseen) Recall(tok string, audiences []string) (*token.AccessToken, bool, error) {
	if tok != u.known {
		return nil, false, nil
	}
	return u.verdict.Recall(tok, audiences)
}

func (u unseen) VerifyAdmitted(tok string, audiences []string, admit token.Admission) (*token.AccessToken, error) {
	done, err := admit()
	if err != nil {
		return nil, err
	}
	defer done()
	return u.verdict(tok, audiences)
}

// TestG81AKnownTokenWaitsForNothing: a known token passes while all turns are taken. A new one eventually gets a 503.
func TestG81AKnownTokenWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := benchmarkedGate(&token.AccessToken{Subject: "u-ada", ExpiresAt: time.Now().Add(time.Hour)})
		p.tokens.verifier = unseen{p.tokens.verifier.(verdict), "known"}
		p.challenger.usual = answers.Challenge{Realm: "test"}.Prepare()
		p.shared.turns.signatures = newQueue(1, maxWaiting)
		ask := func(tok string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), ordinaryRequest().WithContext(t.Context())
			r.Header["Authorization"] = []string{"Bearer " + tok}
			if err := p.ServeHTTP(w, caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server)), caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })); err != nil {
				t.Error(err)
			}
			return w
		}
		if w := ask("first"); w.Code != http.StatusOK {
			t.Errorf("with a turn: %d", w.Code)
		}
		done, err := admission(t.Context(), p.shared.turns.signatures)()
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		from := time.Now()
		if w := ask("known"); w.Code != http.StatusOK || time.Since(from) != 0 {
			t.Errorf("a known token: %d after %v", w.Code, time.Since(from))
		}
		if w := ask("first"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || time.Since(from) != maxWait {
			t.Errorf("without a turn: %d %v after %v", w.Code, w.Header(), time.Since(from))
		}
	})
}
