package gate

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestG67OnlyRegisteredMethodsPass(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "REPORT", "QUERY"} {
		if !methodAllowed(method) {
			t.Errorf("%s is refused", method)
		}
	}
	for _, method := range []string{"get", "Get", "FOO", "TRACE", "CONNECT", "PRI", "", "*", "GET ", "GETX", "HEAD, GET", "propfind"} {
		if methodAllowed(method) || slices.Contains(strings.Split(allowHeader, ", "), method) {
			t.Errorf("%q passes", method)
		}
	}
}

func TestG67OnlyWebSocketsMayConnect(t *testing.T) {
	for name, test := range map[string]struct {
		r    http.Request
		want bool
	}{
		"HTTP/2 WebSocket":     {http.Request{ProtoMajor: 2, Header: http.Header{":protocol": {"websocket"}}}, true},
		"HTTP/3 WebSocket":     {http.Request{ProtoMajor: 3, Proto: "websocket"}, true},
		"HTTP/1 tunnel":        {http.Request{ProtoMajor: 1, Proto: "HTTP/1.1"}, false},
		"HTTP/1 forged header": {http.Request{ProtoMajor: 1, Header: http.Header{":protocol": {"websocket"}}}, false},
		"HTTP/2 tunnel":        {http.Request{ProtoMajor: 2}, false},
		"HTTP/2 connect-udp":   {http.Request{ProtoMajor: 2, Header: http.Header{":protocol": {"connect-udp"}}}, false},
		"HTTP/3 tunnel":        {http.Request{ProtoMajor: 3, Proto: "HTTP/3.0"}, false},
		"HTTP/3 webtransport":  {http.Request{ProtoMajor: 3, Proto: "webtransport"}, false},
	} {
		test.r.Method = http.MethodConnect
		if got := requestMethodAllowed(&test.r); got != test.want {
			t.Errorf("%s: allowed %v, want %v", name, got, test.want)
		}
	}
	if r := httptest.NewRequest(http.MethodGet, "/", nil); !requestMethodAllowed(r) {
		t.Error("GET is refused")
	}
	forged := "GET / HTTP/1.1\r\nHost: h\r\n:protocol: websocket\r\n\r\n"
	if r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(forged))); err == nil && r.Header[":protocol"] != nil {
		t.Error("net/http takes :protocol from an HTTP/1 client")
	}
}
