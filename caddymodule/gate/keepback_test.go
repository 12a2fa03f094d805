package gate

import (
	"bufio"
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
)

func TestG57TheTokenIsRelayedOrStripped(t *testing.T) {
	type key struct{}
	r := readRequest(t, "GET / HTTP/1.1", "Host: h", "Authorization: Bearer t", "Accept: a", "Accept: b")
	r = r.WithContext(context.WithValue(r.Context(), key{}, "kept"))
	before := r.Header.Clone()
	(&Protect{UpstreamToken: relayToken}).keepBack(r, &decision{token: &accesstoken.AccessToken{}})
	if got := new(identity.Request).Copy(r, nil).Header.Get("Authorization"); got != "Bearer t" {
		t.Errorf("relayed %q", got)
	}
	stripped := readRequest(t, "GET / HTTP/1.1", "Host: h", "Authorization: Bearer t", "Accept: a", "Accept: b")
	(&Protect{}).keepBack(stripped, &decision{token: &accesstoken.AccessToken{}})
	if want := (http.Header{"Accept": {"a", "b"}}); !reflect.DeepEqual(new(identity.Request).Copy(stripped, nil).Header, want) {
		t.Errorf("stripped to %v, want %v", stripped.Header, want)
	}
	r2 := new(identity.Request).Copy(r, nil)
	r2.Header.Add("Accept", "c")
	r2.Header.Set("X", "y")
	r.Header.Add("Accept", "d")
	if !reflect.DeepEqual(r.Header["Accept"], []string{"a", "b", "d"}) || r2.Header["Accept"][2] != "c" {
		t.Errorf("the two requests write into one another: %v, %v", r.Header, r2.Header)
	}
	if r.Header.Get("Authorization") != before.Get("Authorization") || r2.Context().Value(key{}) != "kept" {
		t.Error("the client's request was changed, or the context was lost")
	}
}

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
