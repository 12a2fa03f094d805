package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// checkTimeout bounds the questions of Start to the store, glanceTimeout those that it can go without.
	checkTimeout  = 3 * time.Second
	glanceTimeout = time.Second
	// reconcileTimeout bounds each later attempt at what Start could not do. reconcilePause is the time between two attempts.
	reconcileTimeout = time.Minute
	reconcilePause   = 500 * time.Millisecond
)

// Start opens the store, unless the previous configuration used the same one, and begins to serve. It returns no error when a
// database server cannot be reached: the app begins to serve as soon as it can.
func (a *App) Start() error {
	if err := a.cover(); err != nil {
		return fmt.Errorf("oauth: %w", err)
	}
	a.startTrust()
	a.startProviders()
	a.startClientKeys()
	a.target = a.newTarget()
	if !a.keepsState() {
		admin.Add(a.target)
		a.announce()
		return nil
	}
	err := a.node.Open()
	switch {
	// A running configuration with an open node stays: it is better than one whose database cannot be reached, perhaps because
	// its address was mistyped.
	case errors.Is(err, node.ErrAway) && !admin.ReplacesOpenNode(a.target):
		a.life.away.Store(true)
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
	if !a.life.away.Load() {
		a.node.Go(a.announce) // it asks the store, which must not be closed meanwhile
	}
	if a.settings.OpenID {
		a.node.Go(a.tellApplications)
	}
	if a.issues() {
		a.node.Go(a.removeUnusedClients)
	}
	return nil
}

// beginLater begins when the node has opened.
func (a *App) beginLater() {
	select {
	case <-a.life.ctx.Done():
	case <-a.node.Opened():
		if a.life.hasEnded() {
			return // both have happened
		}
		if err := a.begin(); err != nil {
			a.logger.Error("not serving: mend the configuration and load it again", zap.Error(err))
			return
		}
		a.announce()
	}
}

// begin lets requests in, and ends what the previous configuration declared and this one does not. While the database does not
// answer, the gate serves with what the node knows, and the rest is done later.
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
	if err != nil && !a.life.hasEnded() {
		a.logger.Error("the store does not answer: what this configuration declares no more is ended as soon as it does", zap.Error(err))
		go a.settleLater()
	}
	return nil
}

// settle ends what a former configuration has declared and this one does not.
func (a *App) settle(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(a.life.ctx, timeout)
	defer cancel()
	return a.registry.Reconcile(ctx)
}

// settleLater tries until it has settled or the configuration has ended.
func (a *App) settleLater() {
	for {
		select {
		case <-a.life.ctx.Done():
			return
		case <-time.After(reconcilePause):
		}
		err := a.checkStored(reconcileTimeout)
		if a.life.hasEnded() || !admin.IsNewest(a.target) {
			continue // another configuration runs; this one may come back when that fails
		}
		if err == nil {
			err = a.settle(reconcileTimeout)
		}
		switch {
		case err == nil:
			a.logger.Info("what is declared no more was ended")
			return
		case !isUnavailable(err):
			a.life.barred.Store(true)
			a.logger.Error("not serving any more: mend the configuration and load it again", zap.Error(err))
			return
		}
	}
}

func isUnavailable(err error) bool {
	var own *oauth.Error
	return errors.As(err, &own) && own.Code == oauth.TemporarilyUnavailable
}

// checkStored refuses a declared user with the id of a stored client, and a declared client with the id of a stored user: tokens
// of the one would pass for tokens of the other. It refuses a provider, too, that would get the users of another one, or whose
// users would belong to no organisation that exists. It returns temporarily_unavailable when the store does not answer.
func (a *App) checkStored(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(a.life.ctx, timeout)
	defer cancel()
	for _, u := range a.settings.Declared.Users() {
		if _, err := a.node.Store().Client(ctx, u.ID); err == nil {
			return fmt.Errorf("user %q: a client in the store has this id", u.ID)
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	for _, c := range a.settings.Declared.Clients() {
		if _, err := a.node.Store().User(ctx, c.ID); err == nil {
			return fmt.Errorf("client %q: a user in the store has this id", c.ID)
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	directory := store.OverlayDirectory{Declared: a.settings.Declared, Stored: a.node.Store()}
	for _, p := range a.settings.SignIn.Providers {
		if err := p.Rules.CheckSource(ctx, a.node.Store(), p.Name); err != nil {
			return setting.At(fmt.Errorf("provider %s: %w", p.Name, err), a.Sources["provider "+p.Name])
		}
		if p.Rules.Create == nil || p.Rules.Create.Organisation == "" {
			continue
		}
		if _, err := directory.Organisation(ctx, p.Rules.Create.Organisation); errors.Is(err, store.ErrNotFound) {
			err := fmt.Errorf("provider %s: there is no organisation %q: declare it, or add it with `caddy oauth org add`", p.Name, p.Rules.Create.Organisation)
			return setting.At(err, a.Sources["provider "+p.Name])
		} else if err != nil {
			return err
		}
	}
	return nil
}

// serve gives the issuer its store, and lets requests in.
func (a *App) serve() {
	a.life.start(func() {
		st := a.node.Store()
		a.issuer.Families.Opened = families.Opened{
			Store: st, Directory: store.OverlayDirectory{Declared: a.settings.Declared, Stored: st},
			Master: a.node.MasterKey(), JTIMAC: a.node.JTIMAC(),
		}
		a.registry.Stored = st
	})
}
