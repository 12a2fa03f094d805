package caddymodule

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// recheck asks one provider, at its interval, what has become of the people who are signed in from there.
type recheck struct {
	signin.Recheck
	service *service
}

// newRechecks returns those of the providers that have an interval.
func newRechecks(s *service, o *others) (list []*recheck) {
	if !s.settings.KeepsState() {
		return nil
	}
	lease := func(ctx context.Context, name, holder string, until, now time.Time) (bool, error) {
		return s.node.Store().Housekeeping.Lease(ctx, name, holder, until, now)
	}
	add := func(name string, every time.Duration, source signin.Source, rules signin.Rules) {
		if every == 0 {
			return
		}
		left := func(userID string, why error) {
			s.logger.Named("audit").Info("sessions ended at a recheck", zap.String("subject", userID), zap.String("by", "provider "+name), zap.NamedError("cause", why))
		}
		list = append(list, &recheck{signin.Recheck{Provider: name, Source: source, Accounts: s.accounts(), Rules: rules, Left: left, Every: every, Lease: lease}, s})
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

// maxRecheckPoll is how long the start of a round may be late.
const maxRecheckPoll = time.Minute

// run runs the rounds of a provider, from the time at which the issuer has its store until the configuration ends.
func (r *recheck) run() {
	life := r.service.life
	select {
	case <-life.ctx.Done():
		return
	case <-life.started:
	}
	poll := time.NewTicker(min(r.Every, maxRecheckPoll))
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
	s, ctx := r.service, r.service.life.ctx
	t, ran, err := r.RunDue(ctx)
	if err == nil && !ran {
		return
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
