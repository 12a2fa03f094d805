package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestG71StreamsOverHTTP3 end one by one: the connection and its other streams go on.
func TestG71StreamsOverHTTP3(t *testing.T) {
	for name, end := range streamEnds {
		t.Run(name, func(t *testing.T) {
			c := setClock(t)
			g := watchedGate(t, startGatehouseAt(t, freeTLSAddr(t), siteWith("", streamRoutes)))
			u := g.streams()
			dies, lives := g.issuedFor(time.Minute), g.user("u-1", "acme", "member", "public")
			w := g.dialH3(t, nil, nil)
			open := make(map[string]*h3Stream)
			for path, token := range map[string]string{"/dies": dies, "/lives": lives, "/keep/x": dies} {
				s, err := w.opened(t.Context(), g.securely("GET", path, "accept", "text/event-stream", "authorization", "Bearer "+token))
				if err != nil {
					t.Fatal(err)
				}
				_ = s.Close()
				if head := s.head(); head.status != http.StatusOK {
					t.Fatalf("%s: %+v", path, head)
				}
				if kind, data, err := s.frame(); err != nil || kind != h3Data || !strings.HasPrefix(string(data), "data: first") {
					t.Fatalf("%s: %q, %v", path, data, err)
				}
				open[path] = s
			}
			g.audited()
			end.how(g, t, c, dies)
			if answer := open["/dies"].answer(); !answer.reset {
				t.Errorf("it looks complete: %+v", answer)
			}
			u.gone(t, "/dies")
			if line := g.awaitAudit(t, "stream closed at the gate"); line["reason"] != end.reason || line["path"] != "/dies" {
				t.Errorf("audit line: %v", line)
			}
			for _, path := range []string{"/lives", "/keep/x"} {
				_ = open[path].SetReadDeadline(time.Now().Add(10 * time.Millisecond))
				if answer := open[path].answer(); answer.ended || answer.code != 0 {
					t.Errorf("%s has ended: %+v", path, answer)
				}
			}
			c.advance(store.Leeway)
			again, err := w.ask(t.Context(), g.securely("GET", "/again", "authorization", "Bearer "+dies), nil)
			if err != nil || again.status != http.StatusUnauthorized {
				t.Errorf("the same connection with the same token: %+v, %v", again, err)
			}
		})
	}
}
