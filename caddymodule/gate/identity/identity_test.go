package identity

import (
	"bufio"
	"net/http"
	"reflect"
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

func TestForUpstreamWithManyIdentityHeaders(t *testing.T) {
	var identity []Field
	want := http.Header{}
	for _, name := range []string{"A", "B", "C", "D", "E", "F", "G"} {
		identity = append(identity, Field{name, strings.ToLower(name)})
		want[name] = []string{strings.ToLower(name)}
	}
	r2 := new(Request).Copy(&http.Request{Header: http.Header{"A": {"mallory", "eve"}}}, identity)
	if !reflect.DeepEqual(r2.Header, want) {
		t.Errorf("sent %v, want %v", r2.Header, want)
	}
	r2.Header.Add("A", "z")
	if r2.Header.Get("B") != "b" {
		t.Error("adding to one identity header overwrites the next")
	}
}

func ordinaryRequest(t testing.TB) *http.Request {
	return readRequest(t, "GET /api/orders/17 HTTP/1.1", "Host: h", "Authorization: Bearer eyJhbGciOiJFUzI1NiJ9", "Accept: application/json",
		"Accept-Encoding: gzip, br", "Accept-Language: en", "Connection: keep-alive", "Content-Type: application/json",
		"User-Agent: orders/1.0", "X-Request-Id: 7")
}

func TestAnOrdinaryRequestIsCleanedWithoutAllocation(t *testing.T) {
	r, guard := ordinaryRequest(t), NewGuard([]string{"X-Tenant"})
	if n := testing.AllocsPerRun(100, func() { guard.Clean(r.Header, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var identityOfAda = []Field{
	{Subject, "u-ada"}, {Client, "portal"}, {Scope, "public trusted"}, {Organisation, "acme"}, {Role, "admin"},
}

func BenchmarkClean(b *testing.B) {
	r, guard := ordinaryRequest(b), NewGuard(nil)
	b.ReportAllocs()
	for b.Loop() {
		guard.Clean(r.Header, false)
	}
}

func BenchmarkCleanAndForUpstream(b *testing.B) {
	r, guard := ordinaryRequest(b), NewGuard(nil)
	b.ReportAllocs()
	for b.Loop() {
		guard.Clean(r.Header, true)
		new(Request).Copy(r, identityOfAda)
	}
}
