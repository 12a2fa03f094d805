package trust

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const (
	introspectionPath = "/introspect"
	// Characters that form encoding changes.
	ourID     = "gate:way"
	ourSecret = "s3cr%t/+&=\"ü:end"
)

// asker is an Issuer that introspects opaque tokens.
type asker struct {
	*gate
	mu    sync.Mutex
	asked []string // the tokens, in the order of the requests
	open  int      // concurrent requests
	most  int      // highest number of concurrent requests
	reply http.HandlerFunc
}

func newAsker(tb testing.TB, edits ...func(*Settings)) *asker {
	tb.Helper()
	return newAskerOf(tb, issuertest.NewProvider(tb, issuertest.NewSigner("k")), edits...)
}

// newAskerOf is newAsker with an existing provider.
func newAskerOf(tb testing.TB, p *issuertest.Provider, edits ...func(*Settings)) *asker {
	tb.Helper()
	a := &asker{gate: newGate(tb, p, append(edits, asks)...)}
	p.Answer(introspectionPath, a.serve)
	a.answers(nil)
	return a
}

// asks enables the introspection of opaque tokens.
func asks(s *Settings) {
	if s.Introspection == nil {
		s.Introspection = new(Introspection)
	}
	s.Introspection.Endpoint = s.Issuer + introspectionPath
	s.Introspection.ClientID, s.Introspection.ClientSecret = ourID, oauth.NewSecret(ourSecret)
}

func cachedFor(d time.Duration) func(*Settings) {
	return func(s *Settings) { s.Introspection = &Introspection{CacheFor: d} }
}

func (a *asker) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.PostFormValue("token"))
	a.open++
	a.most = max(a.most, a.open)
	reply := a.reply
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.open--
	}()
	reply(w, r)
}

func (a *asker) replies(reply http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reply = reply
}

// answers sets the introspection response to that for a good token, with edited members; nil omits one.
func (a *asker) answers(edits map[string]any) {
	a.replies(issuertest.Text(goodAnswer(a.provider.URL, edits)))
}

func goodAnswer(issuer string, edits map[string]any) string {
	members := map[string]any{
		"active": true, "iss": issuer, "sub": "alice", "client_id": "app", "aud": issuertest.Audience, "scope": "read", "token_type": "Bearer",
		"iat": issuertest.Start.Unix(), "exp": issuertest.Start.Add(time.Hour).Unix(),
	}
	maps.Copy(members, edits)
	maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
	data, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// questions returns the number of introspection requests.
func (a *asker) questions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// underWay returns the number of introspection requests without a response yet.
func (a *asker) underWay() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

// wantQuestions checks the number of requests since the start.
func (a *asker) wantQuestions(tb testing.TB, want int) {
	tb.Helper()
	if got := a.questions(); got != want {
		tb.Errorf("the issuer was asked %d times, want %d", got, want)
	}
}

func TestAnOpaqueTokenIsAskedAbout(t *testing.T) {
	a := newAsker(t)
	asked := make(chan *http.Request, 1)
	a.replies(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		issuertest.Text(goodAnswer(a.provider.URL, map[string]any{"role": []string{"x", "y"}, "level": 3}))(w, r)
	})
	const token = "opaque-._~+/token=="
	got, err := a.judgeNow(token)
	if err != nil {
		t.Fatal(err)
	}
	r := <-asked
	want := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	if r.Method != http.MethodPost || r.PostForm.Encode() != want.Encode() || r.URL.RawQuery != "" {
		t.Errorf("asked with %s %s and %v", r.Method, r.URL, r.PostForm)
	}
	if r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Accept") != "application/json" {
		t.Errorf("asked with %v", r.Header)
	}
	id, secret, _ := r.BasicAuth() // RFC 6749 §2.3.1: each half is form-encoded first
	if id != "gate%3Away" || secret != "s3cr%25t%2F%2B%26%3D%22%C3%BC%3Aend" {
		t.Errorf("authenticated as %q with %q", id, secret)
	}
	if got.Issuer != a.provider.URL || got.Subject != "alice" || got.ClientID != "app" || !got.Scopes.Has("read") || len(got.Claim("role")) != 2 {
		t.Errorf("got %+v", got)
	}
}

// TestJWTsAreNobodyElsesToJudge: a token that the keys can verify is not introspected.
func TestJWTsAreNobodyElsesToJudge(t *testing.T) {
	a := newAsker(t)
	for _, token := range []string{
		issuertest.NewSigner("k").Token(a.provider.URL, nil), issuertest.NewSigner("k").Token("https://else.example", nil), "eyJhbGciOiJub25lIn0.e30.", "eyJ.a.b.c.d", "ewo.a.b",
	} {
		if _, err := a.judgeNow(token); err == nil {
			t.Errorf("%s is accepted", token)
		}
	}
	a.wantQuestions(t, 0)
}

func TestWhatIsNoTokenIsAskedAboutNobody(t *testing.T) {
	a := newAsker(t)
	for name, tok := range map[string]string{
		"empty": "", "equals signs": "==", "space": "a b", "line break": "a\r\nb", "quote": `a"b`, "comma": "a,b", "NUL": "a\x00", "not ASCII": "tökén",
		"equals in the middle": "a=b", "percent": "a%20b", "too long": strings.Repeat("a", token.MaxTokenBytes+1),
	} {
		if _, err := a.judgeNow(tok); oauth.AsError(err).Code != oauth.InvalidToken {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.wantQuestions(t, 0)
	a.accepts(t, strings.Repeat("a", token.MaxTokenBytes))
	a.wantQuestions(t, 1)
}

// TestG90AnAnswerStandsUntilItsTime: a response is cached no longer than configured, never beyond the token's expiry,
// and not after the clock was set back.
func TestG90AnAnswerStandsUntilItsTime(t *testing.T) {
	for _, v := range []struct {
		name    string
		edit    []func(*Settings)
		expires int64 // exp, in seconds from the start
		stands  time.Duration
	}{
		{"half a minute", nil, 3600, 30 * time.Second},
		{"as configured", []func(*Settings){cachedFor(10 * time.Minute)}, 3600, 10 * time.Minute},
		{"until the token ends", []func(*Settings){cachedFor(time.Hour)}, 90, 90 * time.Second},
	} {
		t.Run(v.name, func(t *testing.T) {
			a := newAsker(t, v.edit...)
			a.answers(map[string]any{"exp": issuertest.Start.Unix() + v.expires})
			a.accepts(t, "good")
			a.clock.Add(v.stands - time.Nanosecond)
			a.accepts(t, "good")
			a.wantQuestions(t, 1)
			a.clock.Add(time.Nanosecond)
			a.replies(issuertest.Inactive)
			a.refuses(t, "good", oauth.InvalidToken, "token_inactive")
			a.wantQuestions(t, 2)
		})
	}
	t.Run("the clock was set back", func(t *testing.T) {
		a := newAsker(t)
		a.accepts(t, "good")
		a.clock.Add(-time.Second)
		a.accepts(t, "good")
		a.wantQuestions(t, 2)
	})
	t.Run("ended by our clock, not by the issuer's", func(t *testing.T) {
		a := newAsker(t)
		a.answers(map[string]any{"exp": issuertest.Start.Unix() - 30})
		a.accepts(t, "good")
		a.accepts(t, "good")
		a.wantQuestions(t, 2) // nothing is cached beyond the token's end
	})
	t.Run("ended long ago, whatever the issuer says", func(t *testing.T) {
		a := newAsker(t)
		a.answers(map[string]any{"exp": issuertest.Start.Unix() - 31})
		a.refuses(t, "old", oauth.InvalidToken, "token_expired")
		a.refuses(t, "old", oauth.InvalidToken, "token_expired")
		a.wantQuestions(t, 1)
	})
}

func TestG90ARefusalStandsShortly(t *testing.T) {
	for _, v := range []struct {
		name   string
		edit   []func(*Settings)
		stands time.Duration
	}{
		{"five seconds", nil, 5 * time.Second},
		{"not longer than an answer", []func(*Settings){cachedFor(2 * time.Second)}, 2 * time.Second},
	} {
		t.Run(v.name, func(t *testing.T) {
			a := newAsker(t, v.edit...)
			a.replies(issuertest.Inactive)
			a.refuses(t, "bad", oauth.InvalidToken, "token_inactive")
			a.clock.Add(v.stands - time.Nanosecond)
			a.refuses(t, "bad", oauth.InvalidToken, "token_inactive")
			a.wantQuestions(t, 1)
			a.clock.Add(time.Nanosecond)
			a.answers(nil)
			a.accepts(t, "bad")
			a.wantQuestions(t, 2)
		})
	}
}

// TestG90AHitIsJudgedAnew: a remembered introspection answer on another route → scope and audience are judged anew.
func TestG90AHitIsJudgedAnew(t *testing.T) {
	a := newAsker(t)
	a.answers(map[string]any{"nbf": issuertest.Start.Add(40 * time.Second).Unix(), "scope": "read"})
	judge := func(audience string) error {
		_, err := a.Verify(t.Context(), "good", []string{audience})
		return err
	}
	if e := oauth.AsError(judge(issuertest.Audience)); e.Reason != "token_from_future" {
		t.Errorf("before its time: %v", e)
	}
	a.clock.Add(10 * time.Second)
	if err := judge(issuertest.Audience); err != nil {
		t.Error(err)
	}
	for _, audience := range []string{"https://else.example", "", issuertest.Audience + "/"} {
		if e := oauth.AsError(judge(audience)); e.Code != oauth.InvalidToken || e.Reason != "audience_wrong" {
			t.Errorf("for %q: %v", audience, e)
		}
	}
	a.wantQuestions(t, 1)
}

// TestG90NothingIsSharedBetweenIssuersEndpointsAndClients: one opaque token at two issuers, endpoints or clients → answers are not
// shared.
func TestG90NothingIsSharedBetweenIssuersEndpointsAndClients(t *testing.T) {
	base := Introspection{Endpoint: "https://a.example/i", ClientID: "client"}
	endpoint, client := base, base
	endpoint.Endpoint, client.ClientID = "https://a.example/i2", "client2"
	keys := map[string]string{}
	for name, i := range map[string]*introspector{
		"the first":        newIntrospector(&base, token.TrustedTokens{Issuer: "https://a.example"}, nil, fetch.Options{Now: time.Now}),
		"another issuer":   newIntrospector(&base, token.TrustedTokens{Issuer: "https://b.example"}, nil, fetch.Options{Now: time.Now}),
		"another endpoint": newIntrospector(&endpoint, token.TrustedTokens{Issuer: "https://a.example"}, nil, fetch.Options{Now: time.Now}),
		"another client":   newIntrospector(&client, token.TrustedTokens{Issuer: "https://a.example"}, nil, fetch.Options{Now: time.Now}),
		"one way to part":  newIntrospector(&Introspection{Endpoint: "https://a.example/i x", ClientID: "y"}, token.TrustedTokens{Issuer: "https://a.example"}, nil, fetch.Options{Now: time.Now}),
		"another way":      newIntrospector(&Introspection{Endpoint: "https://a.example/i", ClientID: "x y"}, token.TrustedTokens{Issuer: "https://a.example"}, nil, fetch.Options{Now: time.Now}),
	} {
		for _, tok := range []string{"token", "token2", strings.Repeat("a", 5000) + "1", strings.Repeat("a", 5000) + "2"} {
			key := fmt.Sprint(i.endpoint.key(tok))
			if other, taken := keys[key]; taken {
				t.Errorf("%s shares a key with %s", name, other)
			}
			keys[key] = name
			if again := fmt.Sprint(i.endpoint.key(tok)); again != key {
				t.Errorf("%s: a token has two keys", name)
			}
		}
	}
	a, b := newAsker(t), newAsker(t)
	b.replies(issuertest.Inactive)
	a.accepts(t, "token")
	b.refuses(t, "token", oauth.InvalidToken, "token_inactive")
	a.accepts(t, "token")
	b.wantQuestions(t, 1)
}

// TestG90TheCacheIsBounded: a flood of tokens is not cached, and a flood of bad tokens does not evict the good ones.
func TestG90TheCacheIsBounded(t *testing.T) {
	const flood = 100_000
	i := newIntrospector(&Introspection{Endpoint: "https://a.example/i"}, token.TrustedTokens{Issuer: "https://a.example"}, nil, fetch.Options{Now: func() time.Time { return issuertest.Start }})
	said, err := token.ParseIntrospection([]byte(goodAnswer(i.endpoint.tokens.Issuer, nil)), i.endpoint.tokens)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 1000 {
		i.answers.put(i.endpoint.key(fmt.Sprint("good", n)), said, issuertest.Start, time.Minute)
	}
	refused := oauth.NewError(oauth.InvalidToken, "token_inactive")
	for n := range flood {
		i.answers.putRefusal(i.endpoint.key(fmt.Sprint("bad", n)), refused, issuertest.Start, time.Minute)
	}
	if n := i.answers.refusals.Len(); n > maxRefusals {
		t.Errorf("%d refusals are remembered, want at most %d", n, maxRefusals)
	}
	for n := range 1000 {
		if said, err := i.answers.get(i.endpoint.key(fmt.Sprint("good", n)), issuertest.Start); said == nil || err != nil {
			t.Fatalf("a flood of bad tokens pushed out a good one: %v", err)
		}
	}
	for n := range flood {
		i.answers.put(i.endpoint.key(fmt.Sprint("other", n)), said, issuertest.Start, time.Minute)
	}
	if n := i.answers.answers.Len(); n > maxAnswers {
		t.Errorf("%d answers are remembered, want at most %d", n, maxAnswers)
	}
}

func TestOneQuestionForAllWhoAsk(t *testing.T) {
	const many = 100
	a := newAsker(t)
	come := make(chan struct{})
	release := sync.OnceFunc(func() { close(come) })
	defer release()
	a.replies(func(w http.ResponseWriter, r *http.Request) {
		<-come
		issuertest.Text(goodAnswer(a.provider.URL, nil))(w, r)
	})
	var good atomic.Int64
	var waiting sync.WaitGroup
	for range many {
		waiting.Go(func() {
			if token, err := a.judgeNow("one"); err == nil && token.Subject == "alice" {
				good.Add(1)
			}
		})
	}
	tokentest.Eventually(t, "nobody asked", func() bool { return a.questions() > 0 })
	release()
	waiting.Wait()
	if good.Load() != many {
		t.Errorf("%d of %d got the answer", good.Load(), many)
	}
	a.wantQuestions(t, 1)
}

// TestAClientThatHangsUpTakesNobodysAnswer: neither the other waiting requests nor its own next request lose the
// response.
func TestAClientThatHangsUpTakesNobodysAnswer(t *testing.T) {
	a := newAsker(t)
	come := make(chan struct{})
	release := sync.OnceFunc(func() { close(come) })
	defer release()
	a.replies(func(w http.ResponseWriter, r *http.Request) {
		<-come
		issuertest.Text(goodAnswer(a.provider.URL, nil))(w, r)
	})
	ctx, hangUp := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := a.Verify(ctx, "one", []string{issuertest.Audience}); first <- err }()
	tokentest.Eventually(t, "nobody asked", func() bool { return a.questions() > 0 })
	go func() { _, err := a.judgeNow("one"); second <- err }()
	hangUp()
	if err := <-first; oauth.AsError(err).Code != oauth.TemporarilyUnavailable {
		t.Errorf("who hung up got %v", err)
	}
	release()
	if err := <-second; err != nil {
		t.Errorf("who waited got %v", err)
	}
	a.accepts(t, "one")
	a.wantQuestions(t, 1)
}
