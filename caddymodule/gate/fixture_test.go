package gate

import (
	"net/http"
	"net/http/httptest"
)

// ordinaryRequest returns a request as a service sends it with a token.
func ordinaryRequest() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/orders/17", nil)
	r.Header = http.Header{
		"Authorization": {"Bearer eyJhbGciOiJFUzI1NiJ9"}, "Accept": {"application/json"}, "Accept-Encoding": {"gzip, br"},
		"Accept-Language": {"en"}, "Connection": {"keep-alive"}, "Content-Type": {"application/json"},
		"User-Agent": {"orders/1.0"}, "X-Request-Id": {"7"},
	}
	return r
}
