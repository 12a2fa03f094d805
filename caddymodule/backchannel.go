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

// tellApplications tells applications of sessions that have ended, once the issuer has its store and until the configuration ends.
func (a *App) tellApplications() {
	select {
	case <-a.life.ctx.Done():
		return
	case <-a.life.started:
	}
	backchannel.NewWorker(backchannel.Settings{
		Store: a.node.Store(), Clients: a.issuer.Families.Directory, Issuer: a.settings.URL, Keys: a.node.Keys, Now: a.node.StoreTime,
		AllowPrivateNetwork: a.OpenID.AllowPrivateNetwork,
		Report:              a.recordDelivery,
		StoreFailed: func(err error) {
			a.logger.Warn("the store does not say, or take, which applications are to be told of a sign-out: trying again", zap.Error(err))
		},
	}).Run(a.life.ctx)
}

// recordDelivery counts a delivery and writes it into the audit log. Of several that fail for one application and session, the first and
// the last are at a level that is written by default.
func (a *App) recordDelivery(r backchannel.Result) {
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
	a.logger.Named("audit").Log(level, message, fields...)
}
