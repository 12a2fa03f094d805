package gate

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/floodgate"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// floodgates holds one flood gate for each limit. The pool outlives a reload, which must not reset the counts.
var floodgates = caddy.NewUsagePool()

// pooledFloodgate adapts a flood gate to the pool. It has no goroutines to stop.
type pooledFloodgate struct{ *floodgate.Gate }

func (pooledFloodgate) Destruct() error { return nil }

// takeFloodgate returns the flood gate of a limit from the pool and creates it if needed. Without a limit it returns nil.
func takeFloodgate(limit attempts.Limit, now func() time.Time) (*floodgate.Gate, error) {
	if limit == (attempts.Limit{}) {
		return nil, nil //nolint:nilnil // a nil Gate holds nothing back
	}
	pooled, _, err := floodgates.LoadOrNew(limit, func() (caddy.Destructor, error) {
		return pooledFloodgate{floodgate.New(floodgate.Limit{Failures: limit.Failures, Window: limit.Window}, now)}, nil
	})
	if err != nil {
		return nil, err
	}
	return pooled.(pooledFloodgate).Gate, nil
}

// sourceOf returns the client's address prefix, as Caddy's trusted_proxies determine it. It returns 0 without a request,
// as when a stream is rechecked.
func (s *Shared) sourceOf(ctx context.Context) floodgate.Source {
	address, err := netip.ParseAddr(caller.IP(ctx))
	if err != nil {
		return 0
	}
	return s.flood.Source(address)
}

// busyRetry is the Retry-After of a request whose signature was not verified because of overload.
const busyRetry = time.Second

// AdmitSignature is the accesstoken.Admission of a request. A recheck of a stream never waits: its token was valid,
// clients do not control how often it happens, and a flood must neither end the stream nor delay the end of others.
func (s *Shared) AdmitSignature(ctx context.Context) (done func(good bool), err error) {
	if ctx.Value(caddyhttp.VarsCtxKey) == nil {
		return func(bool) {}, nil
	}
	done, waited, err := s.flood.Admit(ctx, s.sourceOf(ctx))
	switch {
	case err == nil && waited:
		laneVerified.Inc()
	case errors.Is(err, context.Canceled):
		return nil, oauth.Unavailable("verification_awaited", err)
	case err != nil:
		laneGivenUp.Inc()
		busy := oauth.Unavailable(oauth.ReasonVerificationBusy, err)
		busy.RetryAfter = busyRetry
		return nil, busy
	}
	return done, nil
}

// credentialReasons are the reasons of an invalid_request that blame the credential.
var credentialReasons = []string{"authorization_header_duplicate", "bearer_malformed", "token_twice", "cookie_twice"}

// isFailure reports whether a refusal counts against its source: the request had a bad credential. Requests without a
// token do not count: browsers, crawlers and clients that look for the metadata send them routinely, and they cost no
// more than Caddy's own refusals. Valid tokens without permission and our own faults do not count either.
func isFailure(d decision, refusal error) bool {
	e := oauth.AsError(refusal)
	switch e.Code {
	case oauth.InvalidToken:
		return d.token == nil
	case oauth.InvalidRequest:
		return slices.Contains(credentialReasons, e.Reason)
	}
	return false
}

// holdRefusal counts a failure. If its source sends too many of them during a flood, it delays the answer, and it reports
// whether to close the connection afterwards.
func (p *Protect) holdRefusal(r *http.Request, d decision, refusal error) (closing bool) {
	if p.shared.flood == nil || !isFailure(d, refusal) {
		return false
	}
	source := p.shared.sourceOf(r.Context())
	verdict := p.shared.flood.Fail(source, p.shared.flood.Connection(source, r.RemoteAddr))
	if verdict.Report {
		p.shared.logger.Warn("too many bad tokens from one address: its refusals are held back", zap.String("address", caller.Address(r)))
	}
	if verdict.Hold == 0 {
		return false
	}
	held := p.shared.flood.Hold(verdict.Hold, isCostlyToHold(r), r.Context().Done(), p.shared.released)
	if held {
		refusalsHeld.Inc()
	}
	if closing = (verdict.Close || !held) && mayClose(r); closing {
		refusalsClosed.Inc()
	}
	return closing
}

// notePassed tells the flood gate about a request that passed. An anonymous one earns its connection nothing.
func (p *Protect) notePassed(r *http.Request, token *accesstoken.AccessToken) {
	flood := p.shared.flood
	if flood.Passed() && token != nil {
		flood.PassedOn(flood.Connection(p.shared.sourceOf(r.Context()), r.RemoteAddr))
	}
}

// isCostlyToHold reports whether delaying a refusal occupies more than the client's own connection: a proxy's connection,
// or the memory in which HTTP/2 and 3 keep up to a megabyte of unread body.
func isCostlyToHold(r *http.Request) bool {
	return fromTrustedProxy(r) || r.ProtoMajor > 1 && r.ContentLength != 0
}

// mayClose reports whether the connection serves only this client. HTTP/3 has no header that closes one.
func mayClose(r *http.Request) bool { return !fromTrustedProxy(r) && r.ProtoMajor < 3 }

// fromTrustedProxy reports whether a request comes from a trusted proxy, whose connections carry requests of several
// clients.
func fromTrustedProxy(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}
