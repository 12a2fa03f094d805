package main

import (
	"fmt"
	"os"

	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
)

// reload gives a server of ours another configuration, while it serves.
func (b *bench) reload(srv *server, s setup) error {
	if err := srv.configure(oursCaddyfile, b.settings(srv, s)); err != nil {
		return err
	}
	text, err := os.ReadFile(srv.config)
	if err != nil {
		return err
	}
	if err := proc.Tell(b.ctx, srv.Admin, "/load", "text/caddyfile", text); err != nil {
		return fmt.Errorf("reloading: %w%s", err, lastLines(srv.log()))
	}
	return nil
}

// signWith has a server of ours sign with another algorithm from now on. What it has signed before stays good.
func (b *bench) signWith(srv *server, s setup, algorithm string) error {
	s.algorithm = algorithm
	if err := b.reload(srv, s); err != nil {
		return err
	}
	return proc.Tell(b.ctx, srv.Admin, "/oauth/keys/rotate", "application/json", []byte(`{"now":true}`))
}
