package caddymodule

import (
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Several requests on one connection: each is judged by itself, and each ends by itself.

// TestG73StreamsOfOneConnection: what one stream brings, another does not have, however their frames are mixed, and although
// the fields of both stand in one table.
func TestG73StreamsOfOneConnection(t *testing.T) {
	g := startGate(t, speakingH2(site))
	token := g.server("public")
	w := g.dialH2(t)
	post := func(stream uint32, path string, further ...string) {
		w.heads(stream, false, g.fields("POST", path, further...))
	}
	post(1, "/any/without")
	post(3, "/any/with", "authorization", "Bearer "+token)
	post(5, "/any/without")
	post(7, "/api/scope", "authorization", "Bearer "+token)
	post(9, "/any/bad", "authorization", "Bearer bad")
	post(11, "/any/with", "authorization", "Bearer "+token)
	post(13, "/any/twice", "authorization", "Bearer "+token, "authorization", "Bearer "+token)
	post(15, "/mixed/pub/x")
	for _, text := range []string{"one", "two"} {
		for stream := uint32(1); stream <= 15; stream += 2 {
			_ = w.framer.WriteData(stream, text == "two", []byte(text))
		}
	}
	answers := w.answers(8)
	for stream, want := range map[uint32]int{1: 401, 3: 200, 5: 401, 7: 403, 9: 401, 11: 200, 13: 400, 15: 200} {
		if answer := answers[stream]; answer == nil || answer.status != want {
			t.Errorf("stream %d: %+v, want %d", stream, answer, want)
		}
	}
	targets := make(map[string]int)
	for _, r := range g.upstream.seen() {
		targets[r.Target]++
		if r.Body != "onetwo" {
			t.Errorf("%s has the body %q", r.Target, r.Body)
		}
		if r.Target == "/any/with" {
			r.ours(t, "conf")
		} else {
			r.anonymous(t).has(t, "Authorization")
		}
	}
	if len(targets) != 2 || targets["/any/with"] != 2 || targets["/mixed/pub/x"] != 1 {
		t.Errorf("the upstream saw %v", targets)
	}
}

// TestG75BodyWithoutATokenOverHTTP2: the answer waits for none of the body, and then the server wants none of it.
func TestG75BodyWithoutATokenOverHTTP2(t *testing.T) {
	g := startGate(t, speakingH2(site))
	for _, further := range [][]string{
		{"content-length", "1073741824"}, nil, {"content-length", "1073741824", "expect", "100-continue"}, {"content-length", "1073741824", "authorization", "Bearer bad"},
	} {
		w := g.dialH2(t)
		w.heads(1, false, g.fields("POST", "/any/x", further...))
		answer := w.answers(1)[1]
		if answer == nil || answer.status != http.StatusUnauthorized {
			t.Fatalf("%q: %+v", further, answer)
		}
		if granted := w.granted(1); granted != 0 {
			t.Errorf("%q: the server asked for %d more bytes of a refused request", further, granted)
		}
		g.upstream.none(t)
	}
}

// granted sends 56 KiB on a stream that was answered, and returns how much more of it the server asked for.
func (w *h2Wire) granted(stream uint32) (bytes uint32) {
	block := make([]byte, 8<<10)
	for range 7 { // below the 64 KiB that any stream may send at first
		_ = w.framer.WriteData(stream, false, block)
	}
	_ = w.framer.WritePing(false, [8]byte{'d', 'o', 'n', 'e'})
	for {
		frame, err := w.framer.ReadFrame()
		if err != nil {
			return bytes
		}
		switch f := frame.(type) {
		case *http2.WindowUpdateFrame:
			if f.StreamID == stream {
				bytes += f.Increment
			}
		case *http2.PingFrame:
			if f.IsAck() {
				return bytes
			}
		}
	}
}

// streamEnds are how the life of a token comes to its end while a stream goes on, and the reason that is given.
var streamEnds = map[string]struct {
	reason string
	how    func(g *gateway, t *testing.T, c *testClock, token string)
}{
	"expired": {"token_expired", func(_ *gateway, _ *testing.T, c *testClock, _ string) { c.advance(time.Minute + time.Second) }},
	"revoked": {"token_revoked", func(g *gateway, t *testing.T, _ *testClock, token string) { g.kill(t, token) }},
	"revoked on another node": {"token_revoked", func(g *gateway, t *testing.T, _ *testClock, token string) {
		claims := g.claims(t, token)
		if err := g.app().node.Store().Revoke(t.Context(), store.Revocation{Kind: store.RevokeToken, ID: claims.ID, ExpiresAt: claims.ExpiresAt}); err != nil {
			t.Fatal(err)
		}
	}},
}

// TestG71StreamsOverHTTP2 end one by one: the connection and its other streams go on.
func TestG71StreamsOverHTTP2(t *testing.T) {
	for name, end := range streamEnds {
		for kind, accept := range map[string][]string{"events": {"accept", "text/event-stream"}, "an endless answer, with TLS": nil} {
			dial := (*gateway).dialH2
			if accept == nil {
				dial = (*gateway).dialTLS
			}
			t.Run(kind+", "+name, func(t *testing.T) {
				c := setClock(t)
				g := watchedGate(t, startGatehouseAt(t, freeTLSAddr(t), speakingH2(siteWith("", streamRoutes))))
				u := g.streams()
				dies, lives := g.issuedFor(time.Minute), g.user("u-1", "acme", "member", "public")
				w := dial(g, t)
				w.heads(1, true, g.fields("GET", "/dies", append(accept, "authorization", "Bearer "+dies)...))
				w.heads(3, true, g.fields("GET", "/lives", append(accept, "authorization", "Bearer "+lives)...))
				w.heads(5, true, g.fields("GET", "/keep/x", append(accept, "authorization", "Bearer "+dies)...))
				w.begun(t, 1, 3, 5)
				g.audited()
				end.how(g, t, c, dies)
				answers := w.answers(1)
				if dead := answers[1]; dead == nil || !dead.reset || len(answers) != 1 {
					t.Errorf("ended: %+v", answers)
				}
				u.gone(t, "/dies")
				if line := g.awaitAudit(t, "stream closed at the gate"); line["reason"] != end.reason || line["path"] != "/dies" {
					t.Errorf("audit line: %v", line)
				}
				c.advance(store.Leeway)
				w.heads(7, true, g.fields("GET", "/again", append(accept, "authorization", "Bearer "+dies)...))
				if again := w.answers(1)[7]; again == nil || again.status != http.StatusUnauthorized {
					t.Errorf("the same connection with the same token: %+v", again)
				}
			})
		}
	}
}

// begun reads until data has come on every one of the streams.
func (w *h2Wire) begun(t *testing.T, streams ...uint32) {
	t.Helper()
	waiting := make(map[uint32]bool)
	for _, stream := range streams {
		waiting[stream] = true
	}
	for len(waiting) > 0 {
		frame, err := w.framer.ReadFrame()
		if err != nil {
			t.Fatalf("%v, and %v have not begun", err, waiting)
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = w.framer.WriteSettingsAck()
			}
		case *http2.DataFrame:
			delete(waiting, f.StreamID)
		case *http2.RSTStreamFrame:
			t.Fatalf("stream %d was reset", f.StreamID)
		}
	}
}
