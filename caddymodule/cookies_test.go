package caddymodule

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

func TestG57OurCookiesNeverReachTheUpstream(t *testing.T) {
	for name, test := range map[string]struct{ lines, want []string }{
		"absent":          {[]string{"a=1; b=2"}, []string{"a=1; b=2"}},
		"alone":           {[]string{"accessToken=t"}, nil},
		"first":           {[]string{"accessToken=t; a=1"}, []string{"a=1"}},
		"last":            {[]string{"a=1; accessToken=t"}, []string{"a=1"}},
		"middle":          {[]string{`a="x y";  accessToken=t;b=2 `}, []string{`a="x y";b=2 `}},
		"both, and twice": {[]string{"accessToken=t; session=s; a=1; accessToken=u"}, []string{"a=1"}},
		"several lines":   {[]string{"accessToken=t", "a=1", "b=2; session=s"}, []string{"a=1", "b=2"}},
		"odd spacing":     {[]string{"a=1;\taccessToken =t;session=s;"}, []string{"a=1;"}},
		"nothing left":    {[]string{"accessToken=t; ;", "session"}, nil},
		"without a name":  {[]string{"=accessToken=t; a=1"}, []string{"a=1"}},
		"longer names":    {[]string{" xaccessToken=1; accessTokens=2; a=accessToken=3"}, []string{" xaccessToken=1; accessTokens=2; a=accessToken=3"}},
		"other case":      {[]string{"AccessToken=1"}, []string{"AccessToken=1"}},
	} {
		shared := append([]string(nil), test.lines...)
		h := http.Header{"Cookie": shared}
		withoutCookies(h, "accessToken", "session")
		if !reflect.DeepEqual(h["Cookie"], test.want) {
			t.Errorf("%s: %q, want %q", name, h["Cookie"], test.want)
		}
		if !reflect.DeepEqual(shared, test.lines) {
			t.Errorf("%s: the client's request was changed to %q", name, shared)
		}
	}
	h, names := http.Header{"Cookie": {"a=1; b=2"}}, []string{"accessToken", "session"}
	if n := allocations(0, func() { withoutCookies(h, names...) }); n != 0 {
		t.Errorf("%v allocations where there is nothing of ours", n)
	}
}

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

// TestG58AnUpgradeIsHijackedThroughTheFilter holds that a WebSocket still gets its 101, and that no cookie rides on it.
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
