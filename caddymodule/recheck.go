package caddymodule

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// recheck asks one provider, at its interval, what has become of the people who are signed in from there.
type recheck struct {
	signin.Recheck
	every   time.Duration
	service *service
}

// newRechecks returns those of the providers that have an interval.
func newRechecks(s *service, o *others) (list []*recheck) {
	if !s.settings.KeepsState() {
		return nil
	}
	add := func(name string, every time.Duration, source signin.Source, rules signin.Rules) {
		if every == 0 {
			return
		}
		left := func(userID string, why error) {
			s.logger.Named("audit").Info("sessions ended at a recheck", zap.String("subject", userID), zap.String("by", "provider "+name), zap.NamedError("cause", why))
		}
		list = append(list, &recheck{signin.Recheck{Provider: name, Source: source, Accounts: s.accounts(), Rules: rules, Left: left}, every, s})
	}
	for _, d := range o.directories {
		add(d.Name, d.Recheck, d.people, d.Rules)
	}
	for _, p := range o.providers {
		if source, ok := p.running.value.(signin.Source); ok {
			add(p.Name, p.Recheck, source, p.Rules)
		}
	}
	return list
}

// recheckRetry is when a round that was given up goes on.
const recheckRetry = 5 * time.Minute

// maxRecheckPoll is how long the start of a round may be late.
const maxRecheckPoll = time.Minute

// run runs the rounds of a provider, from the time at which the issuer has its store until the configuration ends. Of all nodes, and of
// the configurations that follow each other on them, one runs a round in each interval: each round takes a lease of that length, under a name
// of its own.
func (r *recheck) run() {
	life := r.service.life
	select {
	case <-life.ctx.Done():
		return
	case <-life.started:
	}
	poll := time.NewTicker(min(r.every, maxRecheckPoll))
	defer poll.Stop()
	for {
		r.once()
		select {
		case <-life.ctx.Done():
			return
		case <-poll.C:
		}
	}
}

// once runs a round, if none was begun within the interval.
func (r *recheck) once() {
	s := r.service
	ctx, holder := s.life.ctx, oauth.NewID()
	lease := func(ctx context.Context, length time.Duration) (bool, error) {
		now := s.node.StoreTime()
		return s.node.Store().Housekeeping.Lease(ctx, "recheck "+r.Provider, holder, now.Add(length), now)
	}
	due, err := lease(ctx, r.every)
	if err == nil && !due {
		return
	}
	var t signin.Tally
	if err == nil {
		r.Leads = func(ctx context.Context) (bool, error) { return lease(ctx, r.every) } // a round may take longer than the interval
		if t, err = r.Round(ctx); t.Unfinished {
			_, _ = lease(ctx, min(r.every, recheckRetry)) // if that fails, it goes on after the interval
		}
	}
	fields := []zap.Field{zap.String("provider", r.Provider), zap.Int("asked", t.Asked), zap.Int("left", t.Left)}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.logger.Warn("a provider does not say what has become of some of its people, whose sessions go on",
			append(fields, zap.Bool("goes_on_soon", t.Unfinished), zap.Error(err))...)
	case t.WithoutToken > 0:
		s.logger.Warn("people signed in at a provider without a refresh token, so that it cannot be asked what has become of them",
			append(fields, zap.Int("without_token", t.WithoutToken), zap.NamedError("cause", signin.ErrNoToken))...)
	default:
		s.logger.Debug("a provider was asked what has become of its people", fields...)
	}
}
