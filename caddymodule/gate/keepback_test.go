package gate

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// readRequest parses a whole request as the server does.
func readRequest(t testing.TB, lines ...string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.Join(lines, "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ordinaryRequest(t testing.TB) *http.Request {
	return readRequest(t, "GET /api/orders/17 HTTP/1.1", "Host: h", "Authorization: Bearer eyJhbGciOiJFUzI1NiJ9", "Accept: application/json",
		"Accept-Encoding: gzip, br", "Accept-Language: en", "Connection: keep-alive", "Content-Type: application/json",
		"User-Agent: orders/1.0", "X-Request-Id: 7")
}
