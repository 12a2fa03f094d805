package gate

import (
	"net/http"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
)

// TestG67RulesSeeTheGetBehindAConnect: reverse_proxy turns a WebSocket over HTTP/2 into a GET, which any upstream may
// answer. A rule for GET was not asked about it.
func TestG67RulesSeeTheGetBehindAConnect(t *testing.T) {
	exam := requestpath.Exam{Canonical: true}
	r := readRequest(t, "GET /a/x HTTP/1.1", "Host: h")
	r.Method, r.ProtoMajor, r.Header = http.MethodConnect, 2, http.Header{":protocol": {"websocket"}}
	for _, reading := range readingsOf(r, exam) {
		if reading.Method == http.MethodGet && reading.Header.Get("Upgrade") == "websocket" {
			return
		}
	}
	t.Error("no reading is the GET that an upstream gets")
}
