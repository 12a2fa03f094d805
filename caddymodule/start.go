package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/internal/headroom"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// checkTimeout bounds what Start asks the store, glanceTimeout what is only nice to know.
	checkTimeout  = 3 * time.Second
	glanceTimeout = time.Second
	// reconcileTimeout bounds each further attempt at what Start could not do, and reconcilePause is the time between two.
	reconcileTimeout = time.Minute
	reconcilePause   = 500 * time.Millisecond
)

// gcRoom is how much garbage a process may make before it is collected, however little it keeps.
const gcRoom = 32 << 20

// Start opens the store, unless the configuration before used the same one, and begins to serve. A database of a server
// that is away just now is no error: the app begins to serve when it comes.
func (a *App) Start() error {
	headroom.Keep(gcRoom)
	headroom.GiveBack()
	a.cover()
	a.startTrust()
	a.target = a.newTarget()
	if !a.issues() {
		admin.Add(a.target)
		a.announce()
		return nil
	}
	err := a.node.Open()
	switch {
	case errors.Is(err, node.ErrAway) && !a.replacesGood():
		a.away.Store(true)
		a.logger.Warn("not serving yet: the database is away", a.about()...)
		go a.beginLater()
		err = nil
	case err == nil:
		err = a.begin()
	}
	if err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	admin.Add(a.target)
	if !a.away.Load() {
		a.node.Go(a.announce) // what asks the store ends before the store is closed
	}
	return nil
}

// replacesGood reports whether the configuration that runs has another node, and a good one. It goes on then: nothing is
// won by giving it up for a database that cannot be asked, as when its address was mistyped.
func (a *App) replacesGood() bool {
	runs := admin.Newest()
	return runs != nil && runs.Node != nil && runs.Node != a.node && runs.Node.IsOpen()
}

// beginLater begins when the node has opened.
func (a *App) beginLater() {
	select {
	case <-a.life.Done():
	case <-a.node.Opened():
		if a.life.Err() != nil {
			return // both at once
		}
		if err := a.begin(); err != nil {
			a.logger.Error("not serving: mend the configuration and load it again", zap.Error(err))
			return
		}
		a.announce()
	}
}

// begin lets requests in, and settles what has changed since the last configuration. While the database does not answer,
// the gate serves with what the node knows, and the rest is done when it does.
func (a *App) begin() error {
	err := a.unchecked
	if err == nil {
		err = a.checkStored(checkTimeout)
	}
	if err != nil && !isUnavailable(err) {
		return err
	}
	a.serve()
	if err == nil {
		err = a.settle(checkTimeout)
	}
	if err != nil && a.life.Err() == nil {
		a.logger.Error("the store does not answer: what this configuration declares no more is ended as soon as it does", zap.Error(err))
		go a.settleLater()
	}
	return nil
}

// settle ends what is declared no more.
func (a *App) settle(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(a.life, timeout)
	defer cancel()
	return a.registry.Reconcile(ctx)
}

// settleLater tries until it has settled or the configuration is left.
func (a *App) settleLater() {
	for {
		select {
		case <-a.life.Done():
			return
		case <-time.After(reconcilePause):
		}
		err := a.checkStored(reconcileTimeout)
		if a.life.Err() != nil || admin.Newest() != a.target {
			continue // another configuration has settled, or takes its place back when that fails
		}
		if err == nil {
			err = a.settle(reconcileTimeout)
		}
		switch {
		case err == nil:
			a.logger.Info("what is declared no more was ended")
			return
		case !isUnavailable(err):
			a.barred.Store(true)
			a.logger.Error("not serving any more: mend the configuration and load it again", zap.Error(err))
			return
		}
	}
}

func isUnavailable(err error) bool {
	var own *oauth.Error
	return errors.As(err, &own) && own.Code == oauth.TemporarilyUnavailable
}

// checkStored refuses a declaration that gives a stored client's id to a user, or a stored user's to a client: tokens of
// the one would pass for tokens of the other. It is temporarily_unavailable when the store does not answer.
func (a *App) checkStored(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(a.life, timeout)
	defer cancel()
	for _, u := range a.settings.Declared.Users() {
		if _, err := a.node.Store().Client(ctx, u.ID); err == nil {
			return fmt.Errorf("user %q: a client in the store has this id", u.ID)
		} else if !errors.Is(err, store.ErrNotFound) {
			return oauth.Unavailable("store_unavailable", err)
		}
	}
	for _, c := range a.settings.Declared.Clients() {
		if _, err := a.node.Store().User(ctx, c.ID); err == nil {
			return fmt.Errorf("client %q: a user in the store has this id", c.ID)
		} else if !errors.Is(err, store.ErrNotFound) {
			return oauth.Unavailable("store_unavailable", err)
		}
	}
	return nil
}

// serve lets requests in. It may be called again.
func (a *App) serve() {
	a.serving.Do(func() {
		st := a.node.Store()
		a.issuer.Store, a.issuer.Master, a.issuer.JTIMAC = st, a.node.MasterKey(), a.node.JTIMAC()
		a.issuer.Directory = store.OverlayDirectory{Declared: a.settings.Declared, Stored: st}
		a.registry.Stored = st
		close(a.started)
	})
}

// startTimeout is how long a request waits for Start. Caddy starts apps in no order, so during a reload requests may
// arrive before the store is open, which takes milliseconds. Tests that hold a request to waiting for nothing make it long.
var startTimeout = 2 * time.Second

// isServing reports whether the issuer has its store, and waits a moment for it when it has not. False is a 503.
func (a *App) isServing(ctx context.Context) bool {
	if a.barred.Load() {
		return false
	}
	select {
	case <-a.started:
		return true
	default:
	}
	if a.away.Load() {
		return false
	}
	patience, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-a.started:
		return true
	case <-patience.Done():
		return false
	}
}
