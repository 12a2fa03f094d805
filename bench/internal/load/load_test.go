package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func numbered(i int, scratch []byte) []byte {
	return fmt.Appendf(scratch, "GET /%d HTTP/1.1\r\nHost: bench\r\n\r\n", i)
}

func TestEveryRequestIsSentOnce(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[string]int)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path]++
		mu.Unlock()
		w.Header().Set("Location", "/somewhere")
		_, _ = w.Write([]byte("answer to " + r.URL.Path))
	})
	const count = 500
	l := Load{Addr: addr, Status: http.StatusOK, Request: numbered, Response: func(i int, r *Response) error {
		if want := fmt.Sprintf("answer to /%d", i); string(r.Body) != want {
			return fmt.Errorf("%q instead of %q", r.Body, want)
		}
		if r.Get("location") != "/somewhere" || r.Get("nothing") != "" {
			return fmt.Errorf("headers %q", r.Header)
		}
		return nil
	}}
	result, err := l.Send(t.Context(), 7, count)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if result.Requests != count || result.Latency.Count() != count || result.Dials != 7 || len(seen) != count {
		t.Errorf("%d requests, %d latencies, %d dials, %d paths", result.Requests, result.Latency.Count(), result.Dials, len(seen))
	}
	if p50, p99 := result.Latency.Quantile(0.5), result.Latency.Quantile(0.99); p50 <= 0 || p99 < p50 || result.Elapsed < p99 {
		t.Errorf("p50 %v, p99 %v of %v", p50, p99, result.Elapsed)
	}
}

func TestAnAnswerThatIsNotAsExpectedEndsTheRun(t *testing.T) {
	odd := errors.New("odd")
	for _, test := range []struct {
		name     string
		response func(int, *Response) error
		status   int
		want     string
	}{
		{"status", nil, http.StatusTeapot, "status 418 instead of 200"},
		{"body", func(i int, _ *Response) error {
			if i == 3 {
				return odd
			}
			return nil
		}, http.StatusOK, "request 3 to "},
	} {
		t.Run(test.name, func(t *testing.T) {
			addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(test.status) })
			l := Load{Addr: addr, Status: http.StatusOK, Request: numbered, Response: test.response}
			_, err := l.Send(t.Context(), 2, 100)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestTheLoadDialsAgainAfterConnectionClose(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	l := Load{Addr: addr, Status: http.StatusOK, Request: numbered}
	result, err := l.Send(t.Context(), 1, 5)
	if err != nil || result.Dials != 5 {
		t.Errorf("%d dials, %v: want 5", result.Dials, err)
	}
}

func TestALongAnswerComesInChunks(t *testing.T) {
	long := strings.Repeat("long ", 5000)
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(long)) })
	l := Load{Addr: addr, Status: http.StatusOK, Request: numbered, Response: func(_ int, r *Response) error {
		if string(r.Body) != long {
			return fmt.Errorf("%d bytes instead of %d", len(r.Body), len(long))
		}
		return nil
	}}
	if result, err := l.Send(t.Context(), 1, 5); err != nil || result.Dials != 1 {
		t.Errorf("%v: want one dial", err)
	}
}

func TestALateRequestCountsFromWhenItWasDue(t *testing.T) {
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/0" {
			time.Sleep(100 * time.Millisecond) // the slow part of this test, not a time that it waits for
		}
	})
	l := Load{Addr: addr, Status: http.StatusOK, Request: numbered, Pace: time.Millisecond}
	result, err := l.Send(t.Context(), 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Latency.Quantile(0.5); got < 50*time.Millisecond {
		t.Errorf("p50 %v: requests that waited for the connection must show it", got)
	}
}

func TestAStormTakesWhatItGets(t *testing.T) {
	var requests atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch n := requests.Add(1); {
		case n == 400:
			cancel()
		case n > 400:
			<-r.Context().Done() // never answers
		case n%3 == 0:
			panic(http.ErrAbortHandler)
		case n%3 == 1:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	l := Load{Addr: addr, Request: numbered}
	answers := l.Storm(ctx, 4)
	if answers.ByStatus[http.StatusUnauthorized] < 100 || answers.ByStatus[http.StatusTooManyRequests] < 100 || answers.Broken < 100 {
		t.Errorf("%s", answers)
	}
	if answers.Count() < 200 || answers.Dials < 100 {
		t.Errorf("%d answers, %d dials", answers.Count(), answers.Dials)
	}
}

// TestABurstWaitsForWhatIsLate: a response that takes longer than the burst is the one that matters.
func TestABurstWaitsForWhatIsLate(t *testing.T) {
	const most = 50
	length := 200 * time.Millisecond
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/0" {
			time.Sleep(length + 100*time.Millisecond) // the slow part of this test, not a time that it waits for
			w.WriteHeader(http.StatusTeapot)
		}
	})
	var longest atomic.Int64
	l := Load{Addr: addr, Request: numbered, Observe: func(i int, began time.Time, took time.Duration) {
		if i == 0 && time.Since(began) >= took {
			longest.Store(int64(took))
		}
	}}
	answers := l.Burst(t.Context(), 4, length, most)
	for answers.Count() == 0 && length < time.Minute { // a busy machine may not begin in time
		length *= 4
		answers = l.Burst(t.Context(), 4, length, most)
	}
	if answers.ByStatus[http.StatusTeapot] != 1 || answers.Count() > most || answers.Broken > 0 || answers.Dials > 4 {
		t.Errorf("%s over %d connections", answers, answers.Dials)
	}
	if got := time.Duration(longest.Load()); got < length || answers.Elapsed < got {
		t.Errorf("the late answer took %v of %v", got, answers.Elapsed)
	}
}

// TestABurstSendsNoMoreThanItShould checks that a burst sends at most its number of requests, whatever its length.
func TestABurstSendsNoMoreThanItShould(t *testing.T) {
	addr := serve(t, func(http.ResponseWriter, *http.Request) {})
	l := Load{Addr: addr, Request: numbered}
	if answers := l.Burst(t.Context(), 4, time.Hour, 20); answers.Count() != 20 || answers.Elapsed > time.Minute {
		t.Errorf("%s in %v", answers, answers.Elapsed)
	}
}

// TestResponseSaysWhatIsRightWhereNoStatusDoes checks a load without a Status, whose responses differ.
func TestResponseSaysWhatIsRightWhereNoStatusDoes(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	var observed atomic.Int64
	l := Load{Addr: addr, Request: numbered, Observe: func(int, time.Time, time.Duration) { observed.Add(1) }, Response: func(i int, r *Response) error {
		if r.Status != http.StatusTeapot || i == 9 {
			return fmt.Errorf("status %d", r.Status)
		}
		return nil
	}}
	if _, err := l.Send(t.Context(), 2, 9); err != nil || observed.Load() != 9 {
		t.Errorf("%v, %d observed", err, observed.Load())
	}
	if _, err := l.Send(t.Context(), 1, 10); err == nil {
		t.Error("nothing is wrong")
	}
}

func TestPartsOfAResponse(t *testing.T) {
	const whole = "HTTP/1.1 401 Unauthorized\r\nConnection: Close\r\ncontent-length: 5\r\n\r\nhello"
	var r Response
	for n := range len(whole) {
		if done, err := r.parse([]byte(whole[:n])); done || err != nil {
			t.Fatalf("after %d bytes: %v, %v", n, done, err)
		}
	}
	done, err := r.parse([]byte(whole))
	if !done || err != nil || r.Status != 401 || string(r.Body) != "hello" || !r.closes || r.Get("Content-Length") != "5" {
		t.Errorf("%v, %v: %+v", done, err, r)
	}
	for _, test := range []struct{ name, response string }{
		{"more than the body", whole + "!"},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n"},
		{"a chunk that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n"},
		{"a length that is none", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"},
		{"no status", "HTTP/1.1\r\n\r\n"},
		{"a status that is none", "HTTP/1.1 abc\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if done, err := r.parse([]byte(test.response)); done || err == nil {
				t.Errorf("%v, %v", done, err)
			}
		})
	}
}

// TestALargeAnswer reads a response that arrives in several pieces.
func TestALargeAnswer(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(large)))
		_, _ = w.Write([]byte(large[:10]))
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write([]byte(large[10:]))
	})
	l := Load{Addr: addr, Status: http.StatusOK, Request: numbered, Response: func(_ int, r *Response) error {
		if string(r.Body) != large {
			return fmt.Errorf("%d bytes", len(r.Body))
		}
		return nil
	}}
	if result, err := l.Send(t.Context(), 3, 30); err != nil || result.Latency.Count() != 30 {
		t.Errorf("%v", err)
	}
}

func TestAServerThatHangsUp(t *testing.T) {
	addr := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	l := Load{Addr: addr, Status: http.StatusOK, Request: numbered}
	if _, err := l.Send(t.Context(), 2, 10); err == nil {
		t.Error("nothing is wrong")
	}
}
