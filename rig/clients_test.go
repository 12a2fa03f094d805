//go:build linux

package rig

import (
	"context"
	"sync"
	"testing"
)

// clients are goroutines that go on until stop: those of a load, of a flood and of a crowd.
type clients struct {
	// life ends with stop. Whoever has to bring to its end what it has begun asks isStopped, and sends with the test's context.
	life    context.Context
	leave   context.CancelFunc
	running sync.WaitGroup
}

// begin has to be called once. The test's end stops what runs then.
func (c *clients) begin(t *testing.T) {
	c.life, c.leave = context.WithCancel(t.Context())
	t.Cleanup(c.stop)
}

func (c *clients) stop() {
	c.leave()
	c.running.Wait()
}

func (c *clients) isStopped() bool { return c.life.Err() != nil }

// reportFirst fails the test with the first of what went wrong, and says how much more there is.
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
