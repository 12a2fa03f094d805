package requestpath

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestG67RulesSeeTheGetBehindAConnect: reverse_proxy turns a WebSocket over HTTP/2 into a GET, which any upstream may
// answer. A rule for GET was not asked about it.
func TestG67RulesSeeTheGetBehindAConnect(t *testing.T) {
	exam := Exam{Canonical: true}
	r := httptest.NewRequest(http.MethodGet, "/a/x", nil)
	r.Method, r.ProtoMajor, r.Header = http.MethodConnect, 2, http.Header{":protocol": {"websocket"}}
	for _, reading := range Readings(r, exam) {
		if reading.Method == http.MethodGet && reading.Header.Get("Upgrade") == "websocket" {
			return
		}
	}
	t.Error("no reading is the GET that an upstream gets")
}
