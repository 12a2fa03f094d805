package caddymodule

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
)

// TestG81BadTokensLeaveNothing checks that requests with bad tokens leave nothing in memory, however many there are.
func TestG81BadTokensLeaveNothing(t *testing.T) {
	g := &gateway{gatehouse: startGatehouse(t, strings.NewReplacer("output file LOG", "output discard", "level DEBUG", "level ERROR", "\n\tlog\n", "\n").Replace(site))}
	f := g.forger()
	g.passedQuietly(t, f.good())
	p := handlers(t)[0]
	good := f.good()
	dot := strings.LastIndexByte(good, '.')
	kinds := []func(int) string{
		func(i int) string { return fmt.Sprintf("opaque-%d", i) },
		func(i int) string { return fmt.Sprintf("a%d.b.c", i) },
		func(i int) string {
			return b64([]byte(f.header(map[string]any{"kid": fmt.Sprint("k", i)}))) + good[strings.IndexByte(good, '.'):]
		},
		func(i int) string { return b64([]byte(fmt.Sprintf(`{"alg":"none","n":%d}`, i))) + ".e30." },
		func(i int) string { return good[:dot-8] + fmt.Sprintf("%08d", i) + good[dot:] },
		func(i int) string { return good[:dot+1] + fmt.Sprintf("%08d", i) + good[dot+9:] }, // parsed up to the signature
	}
	flood := func(n int) {
		for i := range n {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("/any/%d", i), nil)
			request.Header.Set("Authorization", "Bearer "+kinds[i%len(kinds)](i))
			w := httptest.NewRecorder()
			request = caddyhttp.PrepareRequest(request, caddy.NewReplacer(), w, new(caddyhttp.Server))
			err := p.ServeHTTP(w, request, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
				t.Error("a bad token passed")
				return nil
			}))
			if err != nil || w.Code != http.StatusUnauthorized {
				t.Fatalf("%d %v", w.Code, err)
			}
		}
	}
	inUse := func() int64 {
		var memory runtime.MemStats
		runtime.GC()
		runtime.GC() // frees what pools dropped in the first run
		runtime.ReadMemStats(&memory)
		return int64(memory.HeapAlloc)
	}
	flood(2_000) // allocates whatever is allocated once
	verifier := g.app().node.Verifier
	remembered, before := verifier.Remembered(), inUse()
	const tokens = 12_000
	flood(tokens)
	if after := inUse(); after-before > 4<<20 {
		t.Errorf("%d bad tokens left %d KiB", tokens, (after-before)>>10)
	}
	if n := verifier.Remembered(); n > remembered {
		t.Errorf("%d tokens are remembered, %d were before", n, remembered)
	}
	g.passedQuietly(t, good)
}

// passedQuietly is like passed for a gate without logs.
func (g *gateway) passedQuietly(t *testing.T, token string) {
	t.Helper()
	if status, _, body := g.get("/any/x", token); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	g.upstream.one(t)
}

// handlers returns the gates of the running configuration.
func handlers(t *testing.T) []*gate.Protect {
	t.Helper()
	app, err := caddy.ActiveContext().App("http")
	check(t, err)
	var found []*gate.Protect
	var walk func(caddyhttp.RouteList)
	walk = func(routes caddyhttp.RouteList) {
		for _, route := range routes {
			for _, handler := range route.Handlers {
				switch h := handler.(type) {
				case *gate.Protect:
					found = append(found, h)
				case *caddyhttp.Subroute:
					walk(h.Routes)
				case *hostpaths.Routes:
					walk(h.Behind())
				}
			}
		}
	}
	for _, server := range app.(*caddyhttp.App).Servers {
		walk(server.Routes)
	}
	if len(found) == 0 {
		t.Fatal("no protect in the running configuration")
	}
	return found
}
