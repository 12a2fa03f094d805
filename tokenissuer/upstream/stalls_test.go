package upstream

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestV8AProviderThatStalls: a provider's endpoint that falls silent or closes the connection → the sign-in ends with its context and releases
// its turn.
func TestV8AProviderThatStalls(t *testing.T) {
	if finishTimeout >= 10*time.Second {
		t.Errorf("a sign-in may take %s, and a shutdown that waits for it as long", finishTimeout)
	}
	for _, path := range []string{metadataPath, "/token", "/keys", "/userinfo"} {
		for name, answer := range map[string]string{
			"before it answers": "", "in the body": "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"access_to",
		} {
			for _, closes := range []bool{false, true} {
				t.Run(path+" "+name, func(t *testing.T) {
					t.Parallel()
					p := newIDP(t)
					var conns []net.Conn
					p.answer(path, func(w http.ResponseWriter, _ *http.Request) {
						conn, _, err := w.(http.Hijacker).Hijack()
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = conn.Write([]byte(answer))
						if closes {
							_ = conn.Close()
							return
						}
						p.mu.Lock()
						conns = append(conns, conn)
						p.mu.Unlock()
					})
					t.Cleanup(func() {
						p.mu.Lock()
						defer p.mu.Unlock()
						for _, conn := range conns {
							_ = conn.Close()
						}
					})
					provider := p.provider(func(s *Settings) { s.GroupsClaim = "groups" }) // only userinfo may have them
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					defer cancel()
					begun := time.Now()
					location, flow, err := provider.Begin(ctx, Request{State: "state", RedirectURI: redirectURI})
					if err == nil {
						p.follow(location)
						_, err = provider.Finish(ctx, flow, goodAnswer(), redirectURI)
					}
					if err == nil {
						t.Error("somebody is signed in")
					}
					if took := time.Since(begun); took > 20*time.Second {
						t.Errorf("it took %s", took)
					}
					if n := len(provider.channel.turns); n > 0 {
						t.Errorf("%d turns are not given back", n)
					}
					if p.count(path) == 0 {
						t.Error("it was not asked: the test shows nothing")
					}
				})
			}
		}
	}
}
