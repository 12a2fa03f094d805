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
	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// floodgates hold what is known of floods of bad tokens, by their limit. It outlives a reload, or a flood could be shown
// to a fresh gate whenever somebody changes a route.
var floodgates = caddy.NewUsagePool()

// pooledFloodgate is one in the pool. Nothing runs in it, so nothing is to be ended.
type pooledFloodgate struct{ *floodgate.Gate }

// Destruct does nothing.
func (pooledFloodgate) Destruct() error { return nil }

// takeFloodgate takes the floodgate of a limit from the pool, or makes it; nil: there is no limit.
func takeFloodgate(limit tokenissuer.Limit, now func() time.Time) (*floodgate.Gate, error) {
	if limit == (tokenissuer.Limit{}) {
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

// Source returns where a request comes from: by Caddy's own judgement of which proxies speak for clients. It is nobody
// where there is no request, as when a stream is looked at.
func (s *Shared) sourceOf(ctx context.Context) floodgate.Source {
	address, err := netip.ParseAddr(caller.IP(ctx))
	if err != nil {
		return 0
	}
	return s.flood.Source(address)
}

// busyRetry is when a client should come back whose token could not be verified because of all the others.
const busyRetry = time.Second

// AdmitSignature is the tokenissuer.Admission of a request. A stream that is looked at again waits for nobody: its token was
// good, no client chooses how often that is, and a flood must neither end it nor keep others from being ended.
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

// credentialReasons are why a request is invalid because of what it brings as a token.
var credentialReasons = []string{"authorization_header_duplicate", "bearer_malformed", "token_twice", "cookie_twice"}

// isFailure reports whether a refusal counts against its source: a credential was shown, and it is none. A request without a
// token does not count: browsers, crawlers and clients that look for the metadata send it first as a matter of course, and it
// costs no more than Caddy's own refusals. A good token that may not do this does not count either, nor a fault of ours.
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

// holdBack counts a failure. It keeps the answer back when its source sends too many of them while others are to be protected
// from that, and reports whether the connection is to be closed with it.
func (p *Protect) holdBack(r *http.Request, d decision, refusal error) (closing bool) {
	if p.shared.flood == nil || !isFailure(d, refusal) {
		return false
	}
	source := p.shared.sourceOf(r.Context())
	verdict := p.shared.flood.Fail(source, p.shared.flood.Connection(source, r.RemoteAddr))
	if verdict.Tell {
		p.shared.logger.Warn("too many bad tokens from one address: its refusals are held back", zap.String("address", caller.Address(r)))
	}
	if verdict.Hold == 0 {
		return false
	}
	held := p.shared.flood.Hold(verdict.Hold, isDear(r), r.Context().Done(), p.shared.released)
	if held {
		refusalsHeld.Inc()
	}
	if closing = (verdict.Close || !held) && mayClose(r); closing {
		refusalsClosed.Inc()
	}
	return closing
}

// notePassed tells the floodgate of a request that came through. Who was let in without a token has shown nothing for which its
// connection could have credit.
func (p *Protect) notePassed(r *http.Request, token *accesstoken.AccessToken) {
	flood := p.shared.flood
	if flood.Passed() && token != nil {
		flood.PassedOn(flood.Connection(p.shared.sourceOf(r.Context()), r.RemoteAddr))
	}
}

// isDear reports whether a refusal that is held back takes more than its client's own place: a connection of a proxy, which may
// have no more of them for others, or the memory in which HTTP/2 and 3 keep a body of up to a megabyte that nobody reads.
func isDear(r *http.Request) bool {
	return speaksForOthers(r) || r.ProtoMajor > 1 && r.ContentLength != 0
}

// mayClose reports whether the connection of a request is its client's alone. HTTP/3 has no header that closes one.
func mayClose(r *http.Request) bool { return !speaksForOthers(r) && r.ProtoMajor < 3 }

// speaksForOthers reports whether a request comes from a trusted proxy, whose connections carry the requests of others too.
func speaksForOthers(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}
