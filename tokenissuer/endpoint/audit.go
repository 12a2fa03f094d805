package endpoint

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

// Audit writes one log line for each decision, with its reason and without credentials. It samples floods of refusals, so that they cannot
// fill a disk.
type Audit struct {
	accepted *zap.Logger
	refused  *zap.Logger
	crowds   crowds
	address  func(*http.Request) string
}

// Each second, the first refusalsInFull refusals with the same message are logged, then one in thinning.
const (
	refusalsInFull = 1000
	thinning       = 1000
	// crowdedPause is the minimum time between two lines about overload with the same reason and message. Metrics count them all.
	crowdedPause = time.Minute
)

// overloads are the refusals caused by overload.
var overloads = []*oauth.Error{
	oauth.ErrVerificationBusy, oauth.ErrIntrospectionBusy, oauth.ErrHashingBusy, oauth.ErrDocumentAway, oauth.ErrDocumentBusy,
	oauth.ErrDocumentThrottled, oauth.ErrRegistrationFull, errLettersBusy,
}

// NewAudit returns an Audit that writes to logger. address returns the client's address, which trusted proxies may supply.
func NewAudit(logger *zap.Logger, address func(*http.Request) string) *Audit {
	thinned := zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, refusalsInFull, thinning)
	})
	return &Audit{accepted: logger, refused: logger.WithOptions(thinned), crowds: crowds{logged: make(map[crowd]time.Time)}, address: address}
}

// crowds records when a line about each overload was last logged. One of zap's samplers for each would take half a megabyte.
type crowds struct {
	mu     sync.Mutex
	logged map[crowd]time.Time
}

type crowd struct {
	reason  *oauth.Error
	message string
}

// isDue reports whether a line may be logged now, and records it.
func (c *crowds) isDue(about crowd, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, has := c.logged[about]; has && now.Sub(last) < crowdedPause {
		return false
	}
	c.logged[about] = now
	return true
}

// Address returns the client's address.
func (a *Audit) Address(r *http.Request) string { return a.address(r) }

// Accepted records that a request was granted.
func (a *Audit) Accepted(r *http.Request, message string, fields ...zap.Field) {
	a.decided(zapcore.InfoLevel, r, message, fields)
}

// Suspected is like Accepted at warn level, for a valid request that may come from a thief.
func (a *Audit) Suspected(r *http.Request, message string, fields ...zap.Field) {
	a.decided(zapcore.WarnLevel, r, message, fields)
}

func (a *Audit) decided(level zapcore.Level, r *http.Request, message string, fields []zap.Field) {
	if entry := a.accepted.Check(level, message); entry != nil {
		entry.Write(append(a.request(make([]zap.Field, 0, requestFields+len(fields)), r), fields...)...)
	}
}

// Passed logs at debug level that the gate passed a request, with its token t or, if t is nil, without one. It is off by default, because
// access logs already contain these requests.
func (a *Audit) Passed(r *http.Request, t *token.AccessToken, further ...zap.Field) {
	entry := a.accepted.Check(zapcore.DebugLevel, "request passed the gate")
	if entry == nil {
		return
	}
	fields := append(a.request(nil, r), further...)
	if t != nil {
		fields = append(fields, zap.String("issuer", t.Issuer), zap.String("subject", t.Subject), zap.String("client_id", t.ClientID), zap.String("jti", t.ID))
	}
	entry.Write(fields...)
}

// Refused logs a refusal: a client's mistake at info, a stolen credential at warn, a server fault at error. Disconnects and overload are
// below error, because clients could otherwise trigger alarms.
func (a *Audit) Refused(r *http.Request, message string, err error, fields ...zap.Field) {
	e := oauth.AsError(err)
	level, logger := zapcore.InfoLevel, a.refused
	fault := e.Code == oauth.ServerError || e.Code == oauth.TemporarilyUnavailable
	overload := slices.IndexFunc(overloads, func(o *oauth.Error) bool { return errors.Is(e, o) })
	switch {
	case overload >= 0:
		level, logger = zapcore.WarnLevel, a.accepted // crowds thins them
	case fault && !errors.Is(err, context.Canceled) && !errors.Is(r.Context().Err(), context.Canceled): // SQLite reports "interrupted" when the client has disconnected
		level = zapcore.ErrorLevel
	case errors.Is(e, oauth.ErrCodeReplayed), errors.Is(e, oauth.ErrRefreshReused), errors.Is(e, oauth.ErrRepeatedElsewhere):
		level = zapcore.WarnLevel // a credential was stolen
	case e.Code == oauth.AuthorizationPending:
		level = zapcore.DebugLevel // a device asks again every few seconds
	}
	entry := logger.Check(level, message)
	if entry == nil || overload >= 0 && !a.crowds.isDue(crowd{overloads[overload], message}, entry.Time) {
		return
	}
	fields = append(append(a.request(nil, r), fields...),
		zap.Int("status", answers.StatusOf(err)), zap.String("error", string(e.Code)), zap.String("reason", e.Reason))
	if client, ok := errors.AsType[clientError](err); ok {
		fields = append(fields, zap.String("client_id", client.clientID))
	}
	directory, elsewhere := errors.AsType[signin.DirectoryError](err)
	if elsewhere {
		fields = append(fields, zap.String("provider", directory.Provider))
	}
	if directory.Account != "" {
		fields = append(fields, zap.String("account", directory.Account))
	} else if account, ok := errors.AsType[accountError](err); ok {
		if fields = append(fields, zap.String("account", account.account)); account.userID != "" {
			fields = append(fields, zap.String("subject", account.userID))
		}
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

// requestFields is the number of fields that request adds, at most.
const requestFields = 5

// request appends fields that identify the request. It omits the query, which may contain a credential, and a path that contains one.
func (a *Audit) request(fields []zap.Field, r *http.Request) []zap.Field {
	shown := func(text string) string {
		if requests.ShowsPersonalToken(text) {
			return "REDACTED"
		}
		return text
	}
	fields = append(fields, zap.String("address", a.address(r)), zap.String("method", r.Method),
		zap.String("host", shown(r.Host)), zap.String("path", shown(r.URL.EscapedPath())))
	if trace := tracing.ID(r.Context()); trace != "" {
		fields = append(fields, zap.String("trace_id", trace))
	}
	return fields
}

// clientError adds the client to an error, for the audit log.
type clientError struct {
	error
	clientID string
}

func (e clientError) Unwrap() error { return e.error }

// forClient adds the client, if it is known, to an error.
func forClient(err error, client *store.Client) error {
	if client == nil {
		return err
	}
	return clientError{err, client.ID}
}

// Behind returns functions like Accepted and Refused for what happens after the response to a request.
func (a *Audit) Behind(r *http.Request) (accepted func(string, ...zap.Field), refused func(string, error, ...zap.Field)) {
	about := a.request(nil, r)
	accepted = func(message string, fields ...zap.Field) {
		a.accepted.Info(message, append(slices.Clip(about), fields...)...)
	}
	refused = func(message string, err error, fields ...zap.Field) {
		e := oauth.AsError(err)
		fields = append(append(slices.Clip(about), fields...), zap.String("error", string(e.Code)), zap.String("reason", e.Reason), zap.NamedError("cause", e.Unwrap()))
		a.refused.Error(message, fields...)
	}
	return accepted, refused
}
