package caddymodule

import (
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// Several requests on one connection: each is judged and ends independently.

// TestG73StreamsOfOneConnection checks that a stream never gets the fields of another one, however their frames are interleaved, although
// both share the HPACK table.
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

// TestG75BodyWithoutATokenOverHTTP2 checks that the answer does not wait for the body and that the server requests no more of it.
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

// granted sends 56 KiB on an answered stream and returns by how many bytes the server extends its window.
func (w *h2Wire) granted(stream uint32) (bytes uint32) {
	block := make([]byte, 8<<10)
	for range 7 { // less than the initial window of 64 KiB
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

// begun reads until data has arrived on each of the streams.
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
