package gate

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"strings"
	"testing"
)

func TestG58AnUpstreamCannotSetOurCookies(t *testing.T) {
	names := []string{"session", "accessToken"}
	set := func(w http.ResponseWriter) {
		w.Header()["Set-Cookie"] = []string{"session=evil; Path=/", "a=1", " accessToken =evil", "=session=evil", "session", "sessions=2; x=session"}
	}
	for name, write := range map[string]func(http.ResponseWriter){
		"WriteHeader": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"Write":       func(w http.ResponseWriter) { _, _ = io.WriteString(w, "body") },
		"ReadFrom":    func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("body")) },
		"Flush":       func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"after a 1xx": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusEarlyHints)
			set(w)
			w.WriteHeader(http.StatusOK)
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			f := newAnswerFilter(w, names)
			set(f)
			write(f)
		}))
		r, err := http.NewRequest(http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"a=1", "sessions=2; x=session"}
		informational := 0
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				if informational++; !reflect.DeepEqual(h["Set-Cookie"], want) {
					t.Errorf("%s: a 1xx set %q", name, h["Set-Cookie"])
				}
				return nil
			},
		}))
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		server.Close()
		if got := response.Header["Set-Cookie"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: set %q, want %q", name, got, want)
		}
		if (informational > 0) != (name == "after a 1xx") {
			t.Errorf("%s: %d informational responses", name, informational)
		}
	}
}

func TestG58TheFilterIsTransparent(t *testing.T) {
	w := httptest.NewRecorder()
	f := newAnswerFilter(w, []string{"session"})
	f.Header().Set("Set-Cookie", "session=evil")
	f.Header().Set("X-Other", "kept")
	f.WriteHeader(http.StatusNoContent)
	if w.Code != http.StatusNoContent || w.Header()["Set-Cookie"] != nil || w.Header().Get("X-Other") != "kept" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if f.Unwrap() != w {
		t.Error("the writer below cannot be reached")
	}
}

// TestG58AnUpgradeIsHijackedThroughTheFilter checks that a WebSocket still gets its 101, without cookies.
func TestG58AnUpgradeIsHijackedThroughTheFilter(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f := newAnswerFilter(w, []string{"session"})
		f.upgrade = "websocket"
		f.Header()["Connection"], f.Header()["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
		f.Header()["Set-Cookie"] = []string{"session=evil"}
		f.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(f).Hijack()
		if err != nil {
			t.Errorf("hijacking: %v", err)
			return
		}
		_, _ = io.WriteString(conn, "frames")
		_ = conn.Close()
	}))
	defer server.Close()
	r, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	frames, err := io.ReadAll(response.Body)
	if response.StatusCode != 101 || response.Header["Set-Cookie"] != nil || string(frames) != "frames" {
		t.Errorf("%s, %v, %q, %v", response.Status, response.Header, frames, err)
	}
}
