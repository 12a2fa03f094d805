package caddymodule

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var mailsSent = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "gatehouse_mails_total",
	Help: "Attempts to send a mail, by what it is about and by the result: sent, failed (tried again), refused, given_up, damaged, or lost (a notice that could not be queued).",
}, []string{"kind", "result"})

// lost is the result label of a notice that could not be queued.
const lost = "lost"

// newPost returns the queue of letters of a configuration, or nil without `mail`. serve adds its store.
func newPost(s *service) *mail.Post {
	if s.settings.Mail == nil {
		return nil
	}
	return &mail.Post{Now: s.node.StoreTime, Lost: func(kind mail.Kind, userID string, err error) {
		mailsSent.WithLabelValues(string(kind), lost).Inc()
		s.logger.Named("audit").Warn("user not told by mail", zap.String("subject", userID), zap.String("mail", string(kind)), zap.NamedError("cause", err))
	}}
}

// mailer sends the letters of a configuration.
type mailer struct {
	service *service
	// health is how the mail server has answered.
	health signin.Health
}

// writer writes letters as the pages of the configuration are written.
func (m *mailer) writer() mail.Writer {
	s := m.service
	return mail.Writer{Words: s.settings.Pages.Catalogues, Brand: s.settings.Pages.Brand(), AccountURL: s.issuer.URL + "/oauth/account"}
}

// run sends letters, from the time at which the issuer has its store until the configuration ends.
func (m *mailer) run() {
	s := m.service
	select {
	case <-s.life.ctx.Done():
		return
	case <-s.life.started:
	}
	worker := &mail.Worker{
		Post: s.issuer.SignIns.Post, Writer: m.writer(), Sender: s.settings.Mail, Report: m.record,
		StoreFailed: func(err error) {
			s.logger.Warn("the store does not say, or take, which mails are to be sent: trying again", zap.Error(err))
		},
	}
	worker.Run(s.life.ctx)
}

// record counts an attempt to send a letter and logs it. Of several failures of one letter, the first and the last have a level that is
// logged by default. The recipient is not named.
func (m *mailer) record(r mail.Result) {
	mailsSent.WithLabelValues(string(r.Kind), string(r.Outcome)).Inc()
	switch r.Outcome { // what the server refuses or the store has damaged is the fault of one letter
	case mail.Sent:
		m.health.Note(m.service.node.StoreTime(), nil)
	case mail.Failed, mail.GivenUp:
		m.health.Note(m.service.node.StoreTime(), r.Err)
	}
	level, message := zapcore.WarnLevel, "mail not sent"
	switch {
	case r.Outcome == mail.Sent:
		level, message = zapcore.InfoLevel, "mail sent"
	case r.Outcome == mail.Failed && r.Attempts > 1:
		level = zapcore.DebugLevel
	}
	fields := []zap.Field{zap.String("mail", string(r.Kind)), zap.String("id", r.ID), zap.String("result", string(r.Outcome)), zap.Int("attempts", r.Attempts)}
	if r.Err != nil {
		fields = append(fields, zap.NamedError("cause", r.Err))
	}
	m.service.logger.Log(level, message, fields...)
}

// sendTest sends a letter at once, past the queue.
func (m *mailer) sendTest(ctx context.Context, to string) (admin.MailTest, error) {
	if err := mail.CheckAddress(to); err != nil {
		return admin.MailTest{}, store.InvalidInput(err)
	}
	now := time.Now()
	message := m.writer().Write(store.Mail{ID: oauth.NewID(), To: to, CreatedAt: now}, mail.Letter{Kind: mail.Test, To: to, At: now})
	test := admin.MailTest{Server: m.service.settings.Mail.Address()}
	answer, err := m.service.settings.Mail.Send(ctx, message)
	if err != nil {
		test.Error = err.Error()
		return test, nil
	}
	test.Answer = answer
	return test, nil
}
