package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"

	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
)

// startUpstream starts this very program as the upstream.
func startUpstream(ctx context.Context) (*proc.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, upstreamCommand, addr) //nolint:gosec // this program
	cmd.Stderr = os.Stderr
	upstream, err := proc.Start(ctx, cmd, addr, nil)
	if err != nil {
		return nil, fmt.Errorf("starting the upstream: %w", err)
	}
	return upstream, nil
}

// serveUpstream answers every request with the same small body. The smaller the answer, the larger is protect's share.
func serveUpstream(addr string) error {
	body := []byte(`{"orders":[]}`)
	server := &http.Server{
		Addr: addr, ReadHeaderTimeout: startTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		}),
	}
	return server.ListenAndServe()
}
