package requestpath

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestG67RulesSeeTheGetBehindAConnect: reverse_proxy turns a WebSocket over HTTP/2 into a GET, which any upstream may
// answer. Without this reading, a rule for GET would not apply.
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

// TestV10MethodInTheQuery: `_method=DELETE` in query or header → the rules of every reading hold.
func TestV10MethodInTheQuery(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "a=b": "", "_method=DELETE": "DELETE", "a=b&_method=delete&c": "DELETE", "a=b;_method=DELETE": "DELETE", "_METHOD=DELETE": "DELETE",
		"_Method=Delete": "DELETE", "__method=DELETE": "DELETE", ".method=DELETE": "DELETE", "+method=DELETE": "DELETE", "%20_method=DELETE": "DELETE", "[method=DELETE": "DELETE",
		"[_method]=DELETE": "DELETE", "_method[]=DELETE": "DELETE", "_method%5B0%5D=DELETE": "DELETE", "_method%00x=DELETE": "DELETE",
		"%5fmethod=DELETE": "DELETE", "%5F%6D%65thod=%44ELETE": "DELETE", "_meth%6fd=DELETE%20": "DELETE", "_method=+DELETE%0a": "DELETE", "_method=DELETE%00": "DELETE",
		"_method=po%c5%bft": "POST", "X-HTTP-Method-Override=PUT": "PUT", "x_http_method_override=PUT": "PUT", "X-HTTP-Method=PUT": "PUT",
		"X-Method-Override=PUT": "PUT", "_http_method=PUT": "PUT", "x-tunneled-method=PUT": "PUT", "_method=M-SEARCH": "M-SEARCH", "_method=purge": "PURGE",
		"_method=PUT&_method=PUT": "PUT", "_method=&_method=PUT": "PUT", "%zz&_method=PUT": "PUT", "_method%zz=PUT": "",
		"_method": "", "_method=": "", "_method=7": "", "method=DELETE": "", "payment_method=DELETE": "", "http_method=DELETE": "", "methods=DELETE": "", "a=_method=DELETE": "",
		"a=b%26_method=DELETE": "", "_methods=DELETE": "", "_methodology=x": "", "user[_methods]=x": "", "%255fmethod=DELETE": "",
	} {
		got, several := QueryMethod(&http.Request{URL: &url.URL{Path: "/", RawQuery: query}})
		if got != want || several {
			t.Errorf("%s: %q, %v, want %q", query, got, several, want)
		}
	}
	for _, query := range []string{"_method=PUT&_method=DELETE", "_method=PUT&X-HTTP-Method-Override=DELETE", "_method=PUT;%5Fmethod=patch"} {
		if _, several := QueryMethod(&http.Request{URL: &url.URL{RawQuery: query}}); !several {
			t.Errorf("%s names one method", query)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/a%2fb?_method=HEAD", nil)
	seen := make(map[string]bool)
	for _, reading := range Readings(r, Examine(r.URL)) {
		seen[reading.Method+" "+reading.URL.EscapedPath()] = true
	}
	for _, want := range []string{"POST /a%2fb", "HEAD /a%2fb", "GET /a%2fb", "GET /a%2fb/", "HEAD /a%EF%BF%BDb", "GET /a%EF%BF%BDb/"} {
		if !seen[want] {
			t.Errorf("no reading is %s: %v", want, seen)
		}
	}
	plain := httptest.NewRequest(http.MethodGet, "/?payment_method=card&long_parameter_name=1", nil)
	if n := testing.AllocsPerRun(100, func() { QueryMethod(plain) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestV5PathThatEndsEarly: a server that decodes a path before it looks for its end serves /admin for /admin%3Fx.
func TestV5PathThatEndsEarly(t *testing.T) {
	for target, want := range map[string][]string{
		"/admin%3Fx": {"/admin%3Fx", "/admin%3Fx/", "/admin", "/admin/"}, "/admin%23x": {"/admin", "/admin/"}, "/admin/%3fx": {"/admin/", "/admin"},
		"/%23": {"/"}, "/a%2fb%23c%3fd": {"/a%2fb", "/a%EF%BF%BDb", "/a%2fb/"},
	} {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		seen := make(map[string]bool)
		for _, reading := range Readings(r, Examine(r.URL)) {
			seen[reading.URL.EscapedPath()] = true
		}
		for _, path := range want {
			if !seen[path] {
				t.Errorf("%s: no reading is %s: %v", target, path, seen)
			}
		}
		if seen[""] {
			t.Errorf("%s: a reading has no path", target)
		}
	}
	if readings := Readings(httptest.NewRequest(http.MethodGet, "/", nil), Exam{Canonical: true}); len(readings) != 1 {
		t.Errorf("%d readings of /", len(readings))
	}
}
