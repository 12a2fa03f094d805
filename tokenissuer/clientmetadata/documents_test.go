package clientmetadata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// host serves documents, and counts what it is asked.
type host struct {
	*httptest.Server
	asked, most, now atomic.Int64
	mu               sync.Mutex
	answer           http.HandlerFunc
}

func newHost(t *testing.T) *host {
	h := new(host)
	h.says("")
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked.Add(1)
		now := h.now.Add(1)
		for most := h.most.Load(); now > most && !h.most.CompareAndSwap(most, now); most = h.most.Load() {
		}
		defer h.now.Add(-1)
		h.mu.Lock()
		answer := h.answer
		h.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// says has the host answer with the document of a client with the callback, with headers name, value, …
func (h *host) says(name string, headers ...string) {
	h.does(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		_, _ = fmt.Fprintf(w, `{"client_id":"http://%s%s","client_name":%q,"redirect_uris":["https://app.example/cb"]}`, r.Host, r.URL, name)
	})
}

func (h *host) does(answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// clock is a time that tests move.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.at.Store(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}
func (c *clock) now() time.Time       { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) pass(d time.Duration) { c.at.Add(int64(d)) }

func open(t *testing.T, c *clock, settings Settings) *Documents {
	settings.Now, settings.AllowPrivateNetwork = c.now, true
	d := New(settings)
	t.Cleanup(d.Close)
	return d
}

// ask returns the client's name, or the reason why there is none.
func ask(t *testing.T, d *Documents, id string) string {
	t.Helper()
	c, err := d.Client(t.Context(), id, "192.0.2.1", false)
	if err != nil {
		return oauth.AsError(err).Reason
	}
	return c.Name
}

// TestQ42Q49Fetches: a metadata document's host that redirects, sends more than 64 KiB, HTML, an error or nothing → refused, within 5 s; one that
// answers 5xx or 429, hangs up or is cut off → away.
func TestQ42Q49Fetches(t *testing.T) {
	elsewhere := newHost(t)
	released := make(chan struct{})
	defer close(released)
	const invalid, away = "client_document_invalid", "client_document_away"
	// good answers with a document that would do, were it not for the status and the headers name, value, …
	good := func(status int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"client_id":"http://%s%s","client_name":"good","redirect_uris":["https://app.example/cb"]}`, r.Host, r.URL)
		}
	}
	for _, test := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"good", "good", good(http.StatusOK)},
		{"good, but it redirects", invalid, good(http.StatusFound, "Location", elsewhere.URL+"/client.json")},
		{"good, but not found", invalid, good(http.StatusNotFound)},
		{"good, but html", invalid, good(http.StatusOK, "Content-Type", "text/html")},
		{"good, but too large", invalid, func(w http.ResponseWriter, r *http.Request) {
			good(http.StatusOK)(w, r)
			_, _ = io.WriteString(w, strings.Repeat(" ", maxDocument))
		}},
		{"good, but of another client", invalid, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"client_id":"https://other.example/a","redirect_uris":["https://app.example/cb"]}`)
		}},
		{"no JSON", invalid, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }},
		{"server error", away, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }},
		{"unknown server error", away, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(599) }},
		{"too many requests", away, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }},
		{"hangs up", away, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"cut off", away, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "900")
			_, _ = io.WriteString(w, "{")
		}},
		{"slow head", away, func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			h.does(test.answer)
			d := open(t, newClock(), Settings{})
			if strings.HasPrefix(test.name, "slow") {
				d.fetcher = fetch.NewClient(fetch.Limits{Reach: fetch.PrivateNetwork, Timeout: 50 * time.Millisecond})
			}
			if got := ask(t, d, h.URL+"/client.json"); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if h.asked.Load() != 1 || elsewhere.asked.Load() != 0 {
				t.Errorf("asked %d times, and elsewhere %d times", h.asked.Load(), elsewhere.asked.Load())
			}
		})
	}
}

// TestQ42PrivateAddresses: such a host that resolves to a private address, also on the second look → not dialled.
func TestQ42PrivateAddresses(t *testing.T) {
	inside := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the inner host was asked") }))
	inside.Config.ConnState = func(net.Conn, http.ConnState) { t.Error("the inner host was dialled") }
	inside.Config.ErrorLog = log.New(io.Discard, "", 0)
	inside.StartTLS()
	defer inside.Close()
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	answers := rebind(t)
	d := New(Settings{Now: newClock().now})
	defer d.Close()
	for _, url := range []string{
		"https://127.0.0.1:" + port + "/a", "https://localhost:" + port + "/a", "https://[::1]:" + port + "/a", "https://[::ffff:127.0.0.1]:" + port + "/a",
		"https://169.254.169.254/latest/meta-data", "https://10.0.0.1/a", "https://[fd00::1]/a", "https://rebinding.example:" + port + "/a", "https://rebinding.example:" + port + "/b",
	} {
		if got := ask(t, d, url); got != "client_document_away" {
			t.Errorf("%s: %s", url, got)
		}
	}
	if answers.Load() == 0 {
		t.Error("nobody asked for the name")
	}
	if got := ask(t, d, "http://127.0.0.1:"+port+"/a"); got != "client_url_invalid" {
		t.Errorf("plain http: %s", got)
	}
}

// rebind has every name resolve to loopback, as one that led to the internet a second ago. It counts the questions.
func rebind(t *testing.T) *atomic.Int64 {
	asked := new(atomic.Int64)
	connection, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", connection.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = before; _ = connection.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := connection.ReadFrom(buffer)
			if err != nil {
				return
			}
			var question dnsmessage.Message
			if question.Unpack(buffer[:n]) != nil || len(question.Questions) != 1 {
				continue
			}
			asked.Add(1)
			answer := dnsmessage.Message{Header: dnsmessage.Header{ID: question.ID, Response: true}, Questions: question.Questions}
			if q := question.Questions[0]; q.Type == dnsmessage.TypeA {
				answer.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type, TTL: 0}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
				}}
			}
			if packed, err := answer.Pack(); err == nil {
				_, _ = connection.WriteTo(packed, from)
			}
		}
	}()
	return asked
}

// TestQ43Stale: a document's host away → used for a day; the document gone → none any more at once. It goes on for a day while its host
// is away, and ends at once when the host has it no more.
func TestQ43Stale(t *testing.T) {
	h, c := newHost(t), newClock()
	d, id := open(t, c, Settings{}), h.URL+"/client.json"
	want := func(what, want string, asked int64) {
		t.Helper()
		if got := ask(t, d, id); got != want || h.asked.Load() != asked {
			t.Fatalf("%s: %s after %d questions, want %s after %d", what, got, h.asked.Load(), want, asked)
		}
	}
	h.says("one", "Cache-Control", "max-age=3600")
	want("at first", "one", 1)
	h.says("two", "Cache-Control", "max-age=3600")
	c.pass(time.Hour - time.Second)
	want("fresh", "one", 1)
	c.pass(time.Second)
	want("old", "two", 2)
	h.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	c.pass(time.Hour)
	want("away", "two", 3)
	want("away, just asked", "two", 3)
	c.pass(awayFor)
	want("away, asked again", "two", 4)
	c.pass(staleFor - awayFor)
	want("away for a day", "client_document_away", 5)
	h.says("three")
	want("back, just asked", "client_document_away", 5)
	c.pass(awayFor)
	want("back", "three", 6)
	c.pass(freshness.Least)
	h.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	want("gone", "client_document_invalid", 7)
	want("gone, just asked", "client_document_invalid", 7)
	h.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	c.pass(refusedFor)
	want("gone, and then away", "client_document_away", 8)
	h.says("four")
	c.pass(awayFor)
	want("there again", "four", 9)
}

// TestQ44Floods: a flood of client URLs → one fetch at a time for a host, 30 a minute for a host or address, 600 in all.
func TestQ44Floods(t *testing.T) {
	h, c := newHost(t), newClock()
	d := open(t, c, Settings{})
	h.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	var group sync.WaitGroup
	var throttled atomic.Int64
	for i := range 3 * mostForOne {
		group.Go(func() {
			_, err := d.Client(t.Context(), fmt.Sprintf("%s/client%d", h.URL, i), fmt.Sprintf("192.0.2.%d", i), false)
			if oauth.AsError(err).Reason == "client_document_throttled" && oauth.AsError(err).RetryAfter > 0 {
				throttled.Add(1)
			}
		})
	}
	group.Wait()
	if h.asked.Load() != mostForOne || h.most.Load() != 1 || throttled.Load() != 2*mostForOne {
		t.Errorf("of one host %d were fetched, %d at once, %d refused", h.asked.Load(), h.most.Load(), throttled.Load())
	}
	other := newHost(t)
	other.says("other")
	if got := ask(t, d, other.URL+"/client.json"); got != "other" {
		t.Errorf("of another host: %s", got)
	}
	h.says("late")
	c.pass(time.Minute)
	if got := ask(t, d, h.URL+"/client999"); got != "late" {
		t.Errorf("a minute later: %s", got)
	}

	var a allowance
	taken := 0
	for i := range 2 * mostInAll {
		if _, ok := a.take(c.now(), counted(&question{source: fmt.Sprint(i), host: fmt.Sprint(i)})...); ok {
			taken++
		}
	}
	if taken != mostInAll || len(a.by) > 3*mostInAll+1 {
		t.Errorf("%d fetches in a minute", taken)
	}
	if _, ok := a.take(c.now(), counted(&question{known: true})...); !ok {
		t.Error("a client that is known has to wait for strangers")
	}
}

// TestQ223OthersOfTheHost: a flood of URLs at a known client's host → that client's document is fetched all the same.
func TestQ223OthersOfTheHost(t *testing.T) {
	h, c := newHost(t), newClock()
	d := open(t, c, Settings{})
	h.says("agent")
	asks := func(path, source, want string) {
		t.Helper()
		client, err := d.Client(t.Context(), h.URL+path, source, path == "/letin")
		if want == "" && oauth.AsError(err).Reason != oauth.ErrDocumentThrottled.Reason || want != "" && (err != nil || client.Name != want) {
			t.Errorf("%s for %q: %v, %v", path, source, client, err)
		}
	}
	asks("/known", "192.0.2.1", "agent")
	c.pass(10 * time.Minute)
	for i := range mostOfOneToOne {
		asks(fmt.Sprint("/one", i), "192.0.2.66", "agent")
	}
	asks("/more", "192.0.2.66", "")
	asks("/new", "192.0.2.2", "agent")
	for i := range mostForOne - mostOfOneToOne - 1 {
		asks(fmt.Sprint("/many", i), fmt.Sprint("198.51.100.", i), "agent")
	}
	asks("/newer", "192.0.2.3", "")
	h.says("agent of today")
	asks("/known", "192.0.2.66", "agent of today") // which is due
	asks("/letin", "192.0.2.66", "agent of today")
}

// TestQ44OneDocument: many ask for one document at once → one fetch.
func TestQ44OneDocument(t *testing.T) {
	h := newHost(t)
	h.says("one")
	d := open(t, newClock(), Settings{})
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			if c, err := d.Client(t.Context(), h.URL+"/client.json", fmt.Sprint(i), false); err != nil || c.Name != "one" {
				t.Errorf("%v, %v", c, err)
			}
		})
	}
	group.Wait()
	if h.asked.Load() != 1 {
		t.Errorf("%d fetches", h.asked.Load())
	}
}

// TestQ44CacheIsBoundedInBytes: documents without end → bounded in bytes.
func TestQ44CacheIsBoundedInBytes(t *testing.T) {
	h := newHost(t)
	h.does(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		document := fmt.Sprintf(`{"client_id":"http://%s%s","redirect_uris":["https://app.example/cb"],"pad":"`, r.Host, r.URL)
		_, _ = io.WriteString(w, document+strings.Repeat("x", maxDocument-len(document)-2)+`"}`)
	})
	d := open(t, newClock(), Settings{})
	for i := range 2 * maxGoodBytes / (2 * maxDocument) {
		if _, err := d.fetch(t.Context(), &question{url: fmt.Sprint(h.URL, "/", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.good.Len(); n > maxGoodBytes/(2*maxDocument) {
		t.Errorf("%d documents", n)
	}
}

// TestQ48Hosts: allow and deny bound the hosts whose documents are read.
func TestQ48Hosts(t *testing.T) {
	for _, test := range []struct {
		allow, deny []string
		host        string
		want        bool
	}{
		{nil, nil, "app.example", true},
		{[]string{"app.example"}, nil, "app.example", true},
		{[]string{"app.example"}, nil, "evil.example", false},
		{[]string{"app.example"}, nil, "sub.app.example", false},
		{[]string{"*.app.example"}, nil, "sub.app.example", true},
		{[]string{"*.app.example"}, nil, "a.sub.app.example", true},
		{[]string{"*.app.example"}, nil, "app.example", false},
		{[]string{"*.app.example"}, nil, "evilapp.example", false},
		{[]string{"*.app.example"}, []string{"bad.app.example"}, "bad.app.example", false},
		{nil, []string{"*.example"}, "app.example", false},
		{nil, []string{"*.example"}, "app.test", true},
	} {
		s := Settings{Allow: test.allow, Deny: test.deny}
		if got := s.admits(test.host); got != test.want {
			t.Errorf("allow %v, deny %v: %s is admitted: %t", test.allow, test.deny, test.host, got)
		}
	}
	d := New(Settings{Deny: []string{"denied.example"}, Now: newClock().now})
	_, err := d.Client(t.Context(), "https://denied.example/client.json", "", false)
	if own := (*oauth.Error)(nil); !errors.As(err, &own) || own.Reason != "client_host_denied" {
		t.Errorf("a denied host: %v", err)
	}
}
