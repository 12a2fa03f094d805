package endpoint

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Audit writes one line for each decision, with a reason and without a credential. A flood of refusals is thinned out,
// so that nobody can fill a disk by being refused.
type Audit struct {
	accepted *zap.Logger
	refused  *zap.Logger
	crowded  map[string]*zap.Logger // by the reason: none hides another
	address  func(*http.Request) string
}

// Refusals in a second that are all written; of those beyond, one in thinning is.
const (
	refusalsInFull = 1000
	thinning       = 1000
	// crowdedPause is how long no second line says that there are too many requests: the metrics count them.
	crowdedPause = time.Minute
)

// crowdedReasons are those of refusals because too much is asked for at once.
var crowdedReasons = []string{oauth.ReasonVerificationBusy, oauth.ReasonIntrospectionBusy, oauth.ReasonHashingBusy}

// NewAudit writes to logger. Address says where a request comes from; it is asked because proxies that the operator
// trusts may speak for clients.
func NewAudit(logger *zap.Logger, address func(*http.Request) string) *Audit {
	crowded := make(map[string]*zap.Logger)
	for _, reason := range crowdedReasons {
		crowded[reason] = logger.WithOptions(thinned(crowdedPause, 1, 0))
	}
	return &Audit{
		accepted: logger, refused: logger.WithOptions(thinned(time.Second, refusalsInFull, thinning)), crowded: crowded, address: address,
	}
}

// thinned writes the first lines of each message within some time, and then one in so many, or none.
func thinned(within time.Duration, first, thereafter int) zap.Option {
	return zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, within, first, thereafter)
	})
}

// Address returns where a request comes from.
func (a *Audit) Address(r *http.Request) string { return a.address(r) }

// Accepted records a decision in the request's favour.
func (a *Audit) Accepted(r *http.Request, message string, fields ...zap.Field) {
	a.decided(zapcore.InfoLevel, r, message, fields)
}

// Suspected is Accepted, as a warning: it was in order, and may be a thief's all the same.
func (a *Audit) Suspected(r *http.Request, message string, fields ...zap.Field) {
	a.decided(zapcore.WarnLevel, r, message, fields)
}

func (a *Audit) decided(level zapcore.Level, r *http.Request, message string, fields []zap.Field) {
	if entry := a.accepted.Check(level, message); entry != nil {
		entry.Write(append(a.request(make([]zap.Field, 0, requestFields+len(fields)), r), fields...)...)
	}
}

// Passed records at debug level that the gate let a request pass, with its token or, when it is nil, without one. It is
// the one decision that is not written by default: an access log has these requests already.
func (a *Audit) Passed(r *http.Request, t *accesstoken.AccessToken) {
	entry := a.accepted.Check(zapcore.DebugLevel, "request passed the gate")
	if entry == nil {
		return
	}
	fields := a.request(nil, r)
	if t != nil {
		fields = append(fields, zap.String("issuer", t.Issuer), zap.String("subject", t.Subject), zap.String("client_id", t.ClientID), zap.String("jti", t.ID))
	}
	entry.Write(fields...)
}

// Refused records a refusal: a client's mistake at info, a stolen credential at warn, a fault of ours at error. That a client left
// while we worked is no fault of ours, nor that too many came at once, or anybody could raise alarms.
func (a *Audit) Refused(r *http.Request, message string, err error, fields ...zap.Field) {
	e := oauth.AsError(err)
	level, logger := zapcore.InfoLevel, a.refused
	fault := e.Code == oauth.ServerError || e.Code == oauth.TemporarilyUnavailable
	switch {
	case a.crowded[e.Reason] != nil:
		level, logger = zapcore.WarnLevel, a.crowded[e.Reason]
	case fault && !errors.Is(err, context.Canceled):
		level = zapcore.ErrorLevel
	case e.Reason == oauth.ReasonCodeReplayed, e.Reason == oauth.ReasonRefreshReused,
		e.Reason == oauth.ReasonRepeatedElsewhere:
		level = zapcore.WarnLevel // somebody has stolen a credential
	}
	entry := logger.Check(level, message)
	if entry == nil {
		return
	}
	fields = append(append(a.request(nil, r), fields...),
		zap.Int("status", StatusOf(err)), zap.String("error", string(e.Code)), zap.String("reason", e.Reason))
	if client, ok := errors.AsType[clientError](err); ok {
		fields = append(fields, zap.String("client_id", client.clientID))
	}
	if account, ok := errors.AsType[accountError](err); ok {
		fields = append(fields, zap.String("account", account.account))
	}
	if mint, ok := errors.AsType[mintError](err); ok {
		fields = append(fields, zap.String("admin", mint.admin))
		if mint.target != "" {
			fields = append(fields, zap.String("target", mint.target))
		}
	}
	if cause := e.Unwrap(); cause != nil {
		fields = append(fields, zap.NamedError("cause", cause))
	}
	entry.Write(fields...)
}

// requestFields is how many request adds.
const requestFields = 3

// request adds which request it was. The path is written without its query, which may hold a credential.
func (a *Audit) request(fields []zap.Field, r *http.Request) []zap.Field {
	return append(fields, zap.String("address", a.address(r)), zap.String("method", r.Method), zap.String("path", r.URL.EscapedPath()))
}
