package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// profileTime is how long a profile looks at one side.
const profileTime = 8 * time.Second

// profile writes a CPU profile of each side, after it was measured: looking costs time too.
func (b *bench) profile(sides []side) error {
	if b.profiles == "" {
		return nil
	}
	if err := os.MkdirAll(b.profiles, 0o755); err != nil {
		return err
	}
	for _, s := range sides {
		file := filepath.Join(b.profiles, strings.NewReplacer(" ", "-", ",", "", "(", "", ")", "", "/", "").Replace(s.name)+".pprof")
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
		_, err := s.load.send(ctx, b.conns, 1<<30)
		sent <- err
	}()
	err := b.fetchProfile(file)
	cancel()
	if sending := <-sent; !errors.Is(sending, context.Canceled) {
		err = errors.Join(err, sending)
	}
	return err
}

func (b *bench) fetchProfile(file string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", b.gateway.admin, int(profileTime.Seconds()))
	request, err := http.NewRequestWithContext(b.ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the admin endpoint answered %s", response.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, response.Body)
	return errors.Join(err, out.Close())
}
