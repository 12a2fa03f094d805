package caddymodule

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/backchannel"
)

var logoutDeliveries = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "gatehouse_logout_deliveries_total",
	Help: "Attempts to tell an application that a session has ended, by the result: delivered, failed (tried again), refused, given_up, or dropped (nobody is to be told any more).",
}, []string{"result"})

// tellApplications sends the logout tokens of sessions that have ended, from the time at which the issuer has its store until the
// configuration ends.
func (s *service) tellApplications() {
	select {
	case <-s.life.ctx.Done():
		return
	case <-s.life.started:
	}
	backchannel.NewWorker(backchannel.Settings{
		Store: s.node.Store().Logouts, Clients: s.issuer.Families.Directory, Issuer: s.settings.Issuer.URL, Keys: s.node.Keys, Now: s.node.StoreTime,
		AllowPrivateNetwork: s.settings.LogoutsToPrivate,
		Report:              s.recordDelivery,
		StoreFailed: func(err error) {
			s.logger.Warn("the store does not say, or take, which applications are to be told of a sign-out: trying again", zap.Error(err))
		},
	}).Run(s.life.ctx)
}

// recordDelivery counts a delivery and logs it. Of several failures for one application and session, the first and the last have a level
// that is logged by default.
func (s *service) recordDelivery(r backchannel.Result) {
	logoutDeliveries.WithLabelValues(string(r.Outcome)).Inc()
	level, message := zapcore.InfoLevel, "application not told of the sign-out"
	switch {
	case r.Outcome == backchannel.Delivered:
		message = "application told of the sign-out"
	case r.Outcome == backchannel.Refused, r.Outcome == backchannel.GivenUp:
		level = zapcore.WarnLevel
	case r.Outcome == backchannel.Failed && r.Logout.Attempts > 1:
		level = zapcore.DebugLevel
	}
	fields := []zap.Field{
		zap.String("client_id", r.Logout.ClientID), zap.String("subject", r.Logout.UserID), zap.String("session", r.Logout.SessionID),
		zap.String("result", string(r.Outcome)), zap.Int("attempts", r.Logout.Attempts),
	}
	if r.Host != "" {
		fields = append(fields, zap.String("host", r.Host))
	}
	if r.Status != 0 {
		fields = append(fields, zap.Int("status", r.Status))
	}
	if r.Err != nil {
		fields = append(fields, zap.NamedError("cause", r.Err))
	}
	s.logger.Named("audit").Log(level, message, fields...)
}
