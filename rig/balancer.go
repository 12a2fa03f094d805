//go:build linux

package rig

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"syscall"
	"testing"
)

// nobodyHeader marks the answer of a Balancer that found no node.
const nobodyHeader = "X-Balancer-Found-Nobody"

// Balancer forwards each request to the next node in turn, on a connection of its own. If a node refuses the connection, the request goes
// to the following node. When the connection to a node breaks, so does the client's.
type Balancer struct {
	// URL has no trailing slash.
	URL   string
	nodes atomic.Pointer[[]string]
	turn  atomic.Uint64
	loses atomic.Pointer[func(*http.Response) bool]
}

// NewBalancer listens until the test ends. It has no nodes yet, because nodes need its URL first.
func NewBalancer(t testing.TB) *Balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &Balancer{URL: "http://" + listener.Addr().String()}
	b.Use()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "node" // dial chooses the node
			r.Out.Host = r.In.Host
		},
		Transport:      &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: b.dial},
		FlushInterval:  -1,
		ModifyResponse: b.lose,
		ErrorHandler:   fail,
		ErrorLog:       log.New(io.Discard, "", 0), // the tests kill nodes
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(listener) }() // it ends with the test
	t.Cleanup(func() { _ = server.Close() })
	return b
}

// Use replaces the nodes.
func (b *Balancer) Use(nodes ...*Node) {
	addresses := make([]string, 0, len(nodes))
	for _, n := range nodes {
		addresses = append(addresses, n.Addr)
	}
	b.nodes.Store(&addresses)
}

// Lose makes the balancer break the connection to the client in place of every answer for which isLost returns true.
func (b *Balancer) Lose(isLost func(answer *http.Response) bool) { b.loses.Store(&isLost) }

// errLost: the answer is to be lost.
var errLost = errors.New("the answer is lost")

func (b *Balancer) lose(answer *http.Response) error {
	//lint:ignore bodyclose the proxy closes it
	if isLost := b.loses.Load(); isLost != nil && (*isLost)(answer) {
		return errLost
	}
	return nil
}

// dial connects to the next node in turn, or to the first one after it that does not refuse.
func (b *Balancer) dial(ctx context.Context, network, _ string) (connection net.Conn, err error) {
	nodes, first := *b.nodes.Load(), b.turn.Add(1)
	err = syscall.ECONNREFUSED
	for i := range uint64(len(nodes)) {
		dialer := net.Dialer{Timeout: patience}
		connection, err = dialer.DialContext(ctx, network, nodes[(first+i)%uint64(len(nodes))])
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return connection, err
		}
	}
	return nil, err
}

// fail answers when all nodes are down, and breaks the connection when a node failed during the request.
func fail(w http.ResponseWriter, _ *http.Request, err error) {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(nobodyHeader, "1")
	w.WriteHeader(http.StatusBadGateway)
}
