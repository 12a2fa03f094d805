package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// healthTTL is how long the store's last answer stands for the next one, and healthTimeout how long one may take.
	healthTTL     = time.Second
	healthTimeout = 2 * time.Second
)

// health is what the store answered when it was asked last whether it can be.
type health struct {
	mu      sync.Mutex
	asked   time.Time // zero: never
	trouble error
}

var errNotOpen = errors.New("it is not open yet")

// askStore says why the store cannot be asked or written to; nil: it can. However many ask, the store is asked once a second.
func (e *engine) askStore() error {
	store := e.opened()
	if store == nil {
		return errNotOpen
	}
	h := &e.health
	h.mu.Lock()
	defer h.mu.Unlock()
	now := e.now()
	if age := now.Sub(h.asked); !h.asked.IsZero() && 0 <= age && age < healthTTL {
		return h.trouble
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	h.trouble = store.Ping(ctx)
	h.asked = e.now()
	return h.trouble
}

// unreadiness lists, for the operator, why this node cannot serve; none: it can.
func (a *App) unreadiness() []string {
	var reasons []string
	if caddy.Exiting() || a.engine != nil && a.engine.closing.Load() {
		reasons = append(reasons, "shutting down")
	}
	if !a.issues() { // one issuer that is away concerns the routes that take its tokens, and no others
		return reasons
	}
	if !a.hasStarted() {
		reasons = append(reasons, "the issuer has not started yet")
	}
	if err := a.engine.askStore(); err != nil {
		reasons = append(reasons, fmt.Sprintf("store: %v", err))
	}
	switch err := a.engine.verifier.Ready(); {
	case err == nil:
	case oauth.AsError(err).Reason == "keys_not_loaded":
		reasons = append(reasons, "keys: none is loaded")
	default:
		reasons = append(reasons, fmt.Sprintf("revocations: last read %s, and max_staleness is %s", ago(a.engine), a.engine.settings.staleness))
	}
	return reasons
}

// ago says how old an engine's knowledge of revocations is.
func ago(e *engine) string {
	age := e.revocations.Age(e.now())
	if age == math.MaxInt64 {
		return "never"
	}
	return age.String() + " ago"
}

// hasStarted reports whether requests are let in.
func (a *App) hasStarted() bool {
	select {
	case <-a.started:
		return true
	default:
		return false
	}
}

// keyStates counts the signing keys that this node has, and the stored ones that it refuses.
func (e *engine) keyStates() map[keys.State]int {
	now := e.time.Now()
	states := map[keys.State]int{keys.StatePublished: 0, keys.StateSigning: 0, keys.StateSuperseded: 0}
	states[keys.StateRefused] = int(e.keyring.refused.Load())
	signing, err := e.keys.Signing(now)
	for _, key := range e.keys.List() {
		switch {
		case err == nil && key.ID == signing.ID:
			states[keys.StateSigning]++
		case key.ActiveFrom.After(now):
			states[keys.StatePublished]++
		default:
			states[keys.StateSuperseded]++
		}
	}
	return states
}
