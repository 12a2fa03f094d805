//go:build linux

package rig

import (
	"context"
	"sync"
	"testing"
)

// clients are goroutines that run until stop: those of a load, of a flood and of a crowd.
type clients struct {
	// life ends with stop. A client that has to complete what it has begun checks isStopped, and sends with the test's context.
	life    context.Context
	leave   context.CancelFunc
	running sync.WaitGroup
}

// begin must be called once. The end of the test stops the goroutines.
func (c *clients) begin(t *testing.T) {
	c.life, c.leave = context.WithCancel(t.Context())
	t.Cleanup(c.stop)
}

func (c *clients) stop() {
	c.leave()
	c.running.Wait()
}

func (c *clients) isStopped() bool { return c.life.Err() != nil }

// reportFirst fails the test with the first of the errors and the number of the others.
func reportFirst[T any](t *testing.T, what string, wrong []T) {
	t.Helper()
	const most = 5
	for _, one := range wrong[:min(len(wrong), most)] {
		t.Errorf("%s: %v", what, one)
	}
	if len(wrong) > most {
		t.Errorf("%s: and %d more", what, len(wrong)-most)
	}
}
