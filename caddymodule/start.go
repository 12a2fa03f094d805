package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// checkTimeout bounds each check of the store during Start, glanceTimeout each one that Start can do without.
	checkTimeout  = 3 * time.Second
	glanceTimeout = time.Second
	// reconcileTimeout bounds each later attempt at what Start could not do. reconcilePause is the time between two attempts.
	reconcileTimeout = time.Minute
	reconcilePause   = 500 * time.Millisecond
)

// starting is the start of a configuration, until it has settled.
type starting struct {
	service *service
	target  *admin.Target
	about   []zap.Field // for the line in the log
	// rechecks ask providers what has become of their people.
	rechecks []*recheck
	mailer   *mailer
}

// start opens the node and begins to serve. It returns no error when a database server cannot be reached: beginLater goes on then.
func (s *starting) start() error {
	if !s.service.settings.KeepsState() {
		admin.Add(s.target)
		s.announce()
		return nil
	}
	n, life := s.service.node, s.service.life
	err := n.Open()
	switch {
	// A running configuration with an open node stays: it is better than one whose database cannot be reached, perhaps because
	// its address was mistyped.
	case errors.Is(err, node.ErrAway) && !admin.ReplacesOpenNode(s.target):
		life.away.Store(true)
		s.service.logger.Warn("not serving yet: the database is away", s.about...)
		go s.beginLater()
		err = nil
	case err == nil:
		err = s.begin()
	}
	if err != nil {
		return err
	}
	admin.Add(s.target)
	if !life.away.Load() {
		n.Life.Go(s.announce) // it asks the store, which must not be closed meanwhile
	}
	if s.service.settings.Issuer.OpenID {
		n.Life.Go(s.service.tellApplications)
	}
	for _, r := range s.rechecks {
		n.Life.Go(r.run)
	}
	if s.service.settings.Mail != nil {
		n.Life.Go(s.mailer.run)
	}
	if s.service.issues() {
		n.Life.Go(s.service.removeUnusedClients)
	}
	return nil
}

// beginLater begins once the node has opened.
func (s *starting) beginLater() {
	select {
	case <-s.service.life.ctx.Done():
	case <-s.service.node.Opened():
		if s.service.life.hasEnded() {
			return // both have happened
		}
		if err := s.begin(); err != nil {
			s.service.logger.Error("not serving: mend the configuration and load it again", zap.Error(err))
			return
		}
		s.announce()
	}
}

// begin admits requests, and ends what the previous configuration declared and this one does not. While the database does not
// answer, the gate serves with what the node knows, and the rest is done later.
func (s *starting) begin() error {
	err := s.service.unchecked
	if err == nil {
		err = s.service.checkStored(checkTimeout)
	}
	if err != nil && !isUnavailable(err) {
		return err
	}
	s.service.serve()
	if err == nil {
		err = s.settle(checkTimeout)
	}
	if err != nil && !s.service.life.hasEnded() {
		s.service.logger.Error("the store does not answer: what this configuration declares no more is ended as soon as it does", zap.Error(err))
		go s.settleLater()
	}
	return nil
}

// settle ends the tokens and sessions of declarations that an earlier configuration had and this one does not have.
func (s *starting) settle(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(s.service.life.ctx, timeout)
	defer cancel()
	return s.service.registry.Reconcile(ctx)
}

// settleLater tries to settle until that succeeds or the configuration ends.
func (s *starting) settleLater() {
	life, logger := s.service.life, s.service.logger
	for {
		select {
		case <-life.ctx.Done():
			return
		case <-time.After(reconcilePause):
		}
		err := s.service.checkStored(reconcileTimeout)
		if life.hasEnded() || !admin.IsNewest(s.target) {
			continue // another configuration runs; this one may come back when that fails
		}
		if err == nil {
			err = s.settle(reconcileTimeout)
		}
		switch {
		case err == nil:
			logger.Info("what is declared no more was ended")
			return
		case !isUnavailable(err):
			life.barred.Store(true)
			logger.Error("not serving any more: mend the configuration and load it again", zap.Error(err))
			return
		}
	}
}

func isUnavailable(err error) bool {
	var own *oauth.Error
	return errors.As(err, &own) && own.Code == oauth.TemporarilyUnavailable
}

// checkStored refuses a declared user with the id of a stored client, and a declared client with the id of a stored user: tokens
// of the one would pass for tokens of the other. It also refuses a provider that would get the users of another provider, and a provider or
// a registration that puts users into an organisation that does not exist. It returns temporarily_unavailable when the store does not answer.
func (s *service) checkStored(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(s.life.ctx, timeout)
	defer cancel()
	for _, u := range s.settings.Issuer.Declared.Users() {
		if _, err := s.node.Store().Clients.Client(ctx, u.ID); err == nil {
			return fmt.Errorf("user %q: a client in the store has this id", u.ID)
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	for _, c := range s.settings.Issuer.Declared.Clients() {
		if _, err := s.node.Store().Users.User(ctx, c.ID); err == nil {
			return fmt.Errorf("client %q: a user in the store has this id", c.ID)
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	directory := store.OverlayDirectory{Declared: s.settings.Issuer.Declared, Stored: s.node.Store().Directory()}
	for _, p := range s.settings.SignIn.Providers {
		if err := p.Rules.CheckSource(ctx, s.node.Store().Identities, p.Name); err != nil {
			return s.sources.At(fmt.Errorf("provider %s: %w", p.Name, err), "provider", p.Name)
		}
		if p.Rules.Create == nil {
			continue
		}
		if err := s.checkOrganisation(ctx, directory, p.Rules.Create.Organisation, "provider", p.Name); err != nil {
			return err
		}
	}
	for _, rule := range s.settings.SignIn.Registration {
		if err := s.checkOrganisation(ctx, directory, rule.Organisation, "registration_of_people", "organisation", rule.Organisation); err != nil {
			return err
		}
	}
	return nil
}

// checkOrganisation refuses a setting that puts new users into an organisation that does not exist.
func (s *service) checkOrganisation(ctx context.Context, directory store.Directory, id string, setting ...string) error {
	if id == "" {
		return nil
	}
	_, err := directory.Organisation(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%s: there is no organisation %q: declare it, or add it with `caddy oauth org add`", strings.Join(setting, " "), id)
		return s.sources.At(err, setting...)
	}
	return err
}
