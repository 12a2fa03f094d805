package gate

import (
	"net/http"
	"testing"
)

// TestG94TheMethodOfAWebSocketOverHTTP2: the method is that of the request that reverse_proxy makes of it.
func TestG94TheMethodOfAWebSocketOverHTTP2(t *testing.T) {
	r, err := http.NewRequest(http.MethodConnect, "http://a.example/any/socket?x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.ProtoMajor, r.Header = 2, http.Header{":protocol": {"websocket"}}
	if method := upstreamMethod(r); method != http.MethodGet {
		t.Errorf("over HTTP/2 it is for a %s", method)
	}
}
