package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
)

// profileTime is how long a profile looks at one side.
const profileTime = 8 * time.Second

// profile writes a CPU profile of each side, after it was measured: looking costs time too. A side whose requests can be sent
// only once has none, nor has a server without an admin endpoint.
func (b *bench) profile(sides []side) error {
	if b.profiles == "" {
		return nil
	}
	if err := os.MkdirAll(b.profiles, 0o750); err != nil {
		return err
	}
	for _, s := range sides {
		if s.prepare != nil || s.on.Admin == "" {
			continue
		}
		name := b.report.Name + " " + s.name
		file := filepath.Join(b.profiles, strings.NewReplacer(" ", "-", ",", "", "(", "", ")", "", "/", "").Replace(name)+".pprof")
		if err := b.profileOf(s, file); err != nil {
			return fmt.Errorf("a profile of %s: %w", s.name, err)
		}
	}
	return nil
}

// profileOf sends one side's load for as long as the profile takes.
func (b *bench) profileOf(s side, file string) error {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		_, err := s.load.Send(ctx, b.connsOf(s), 1<<30)
		sent <- err
	}()
	path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profileTime.Seconds()))
	err := proc.Admin(b.ctx, s.on.Admin, path, func(body io.Reader) error {
		out, err := os.Create(file)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, body)
		return errors.Join(err, out.Close())
	})
	cancel()
	if sending := <-sent; !errors.Is(sending, context.Canceled) {
		err = errors.Join(err, sending)
	}
	return err
}
