package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// Self names our own issuer in a list of issuers.
const Self = "self"

// parseIssuers reads the names of the issuers whose tokens pass.
func (p *Protect) parseIssuers(h httpcaddyfile.Helper) error {
	names := h.RemainingArgs()
	if len(names) == 0 {
		return h.ArgErr()
	}
	for _, name := range names {
		if slices.Contains(p.Issuers, name) {
			return h.Errf("issuer %s is there twice", name)
		}
		p.Issuers = append(p.Issuers, name)
	}
	return nil
}

// acceptsExternal reports whether tokens of other issuers pass. Their roles are unknown here.
func (p *Protect) acceptsExternal() bool {
	return slices.ContainsFunc(p.Issuers, func(name string) bool { return name != Self })
}

// routeIssuer is an issuer whose tokens a route accepts. External is nil for our own.
type routeIssuer struct {
	name     string
	url      string
	audience []string
	external *trust.Issuer
	now      func() time.Time // of external
	life     context.Context  // of external: done once no configuration trusts it
}

// readIssuers resolves the accepted issuers and audiences.
func (p *Protect) readIssuers() error {
	names := p.Issuers
	if len(names) == 0 {
		names = []string{Self}
	}
	wanted, err := setting.ResolveAll("audience", p.Audience)
	if err != nil {
		return err
	}
	introspecting := ""
	for _, name := range names {
		issuer, err := p.shared.routeIssuer(name, p.UsesHostSessions())
		if err != nil {
			return err
		}
		if len(wanted) > 0 {
			issuer.audience = wanted
		}
		if len(issuer.audience) == 0 {
			return fmt.Errorf("issuer %s: its trust has no audience, as it is for `accept`: say which of its tokens are meant for this route, there or with `audience` here", name)
		}
		if issuer.external != nil && issuer.external.Introspects() {
			if introspecting != "" {
				return fmt.Errorf("issuers %s and %s of one route both have an introspection: nobody could tell whose an opaque token is, and it would be shown to the wrong one", introspecting, name)
			}
			introspecting = name
		}
		p.issuers = append(p.issuers, issuer)
	}
	for i := range p.issuers {
		if p.issuers[i].external == nil {
			p.own = &p.issuers[i]
		}
	}
	return nil
}

// routeIssuer returns the issuer of that name. Sessions: the route takes the sessions of its host.
func (s *Shared) routeIssuer(name string, sessions bool) (routeIssuer, error) {
	if name == Self {
		if s.own == nil || s.own.Hidden && !sessions {
			return routeIssuer{}, errors.New("there is no issuer of our own: add `issuer https://…` to the oauth block, or write `issuer <name>` with the name of a trust")
		}
		return routeIssuer{name: Self, url: s.own.URL, audience: s.own.Audience}, nil
	}
	t, ok := s.trusted(name)
	if !ok {
		return routeIssuer{}, fmt.Errorf("issuer %s is not known: there is no `trust %s` in the oauth block", name, name)
	}
	return routeIssuer{name: name, url: t.URL, audience: t.Audience, external: t.Issuer, now: s.now, life: t.Life}, nil
}

// OwnVerifier is the part of accesstoken.Verifier that gates use.
type OwnVerifier interface {
	// Recall returns the cached verdict on a token that was verified before.
	Recall(token string, audiences []string) (t *accesstoken.AccessToken, known bool, err error)
	// VerifyAdmitted verifies any token. It calls admit before it verifies a signature.
	VerifyAdmitted(token string, audiences []string, admit accesstoken.Admission) (*accesstoken.AccessToken, error)
	// Generation changes with every change of the keys or revocations.
	Generation() uint64
}

// verifyToken verifies a token with the keys of its issuer. The iss claim only selects the issuer; the signature must be
// by a key of that issuer. A token that an issuer verified before is found in its cache, without parsing or waiting.
func (p *Protect) verifyToken(ctx context.Context, host, token string) (*accesstoken.AccessToken, error) {
	known := p.shared.knowsRoutes()
	t, err := p.verifyByIssuer(ctx, host, token)
	if !known && errors.Is(err, accesstoken.ErrAudienceWrong) { // it may be for the resource of the route
		if err := p.shared.AwaitRoutes(ctx); err != nil {
			return nil, err
		}
		t, err = p.verifyByIssuer(ctx, host, token)
	}
	if err == nil && t.IsSwapped() && !p.mayCome(t) {
		return nil, accesstoken.ErrAudienceWrong
	}
	return t, err
}

// mayCome reports whether a swapped token is for an audience of this route. That it is for the resource is not enough: what
// an upstream gets as its own name could be a route's, and it could act as the client there.
func (p *Protect) mayCome(swapped *accesstoken.AccessToken) bool {
	return p.own == nil || swapped.Issuer != p.own.url || swapped.HasAudience(p.own.audience)
}

// verifyByIssuer asks the caches first, and then the issuer that the token names.
func (p *Protect) verifyByIssuer(ctx context.Context, host, token string) (*accesstoken.AccessToken, error) {
	if p.isPersonalToken(token) {
		return p.verifyPersonalToken(ctx, host, token)
	}
	for i := range p.issuers {
		if t, known, err := p.issuers[i].recall(ctx, p, host, token); known {
			return t, err
		}
	}
	issuer, err := p.issuerOf(token)
	if err != nil {
		return nil, err
	}
	return issuer.verify(ctx, p, host, token)
}

// issuerOf returns the issuer that a token names, or the issuer with introspection if it is not a JWT.
func (p *Protect) issuerOf(token string) (*routeIssuer, error) {
	if len(p.issuers) == 1 {
		return &p.issuers[0], nil
	}
	url, isJWT := accesstoken.ClaimedIssuer(token)
	for i := range p.issuers {
		issuer := &p.issuers[i]
		if isJWT && issuer.url == url || !isJWT && issuer.external != nil && issuer.external.Introspects() {
			return issuer, nil
		}
	}
	return nil, issuerUnknown
}

var issuerUnknown = oauth.NewError(oauth.InvalidToken, "issuer_unknown")

// recall returns the issuer's cached verdict on a token. It does not allocate.
func (i *routeIssuer) recall(ctx context.Context, p *Protect, host, token string) (t *accesstoken.AccessToken, known bool, err error) {
	if i.external != nil {
		return i.external.Recall(token, p.audienceOf(i, host))
	}
	t, known, err = p.verifier.Recall(token, p.audienceOf(i, host))
	if known && !p.shared.isServing(ctx) {
		return nil, true, oauth.Unavailable("not_started", nil)
	}
	return t, known, err
}

func (i *routeIssuer) verify(ctx context.Context, p *Protect, host, token string) (*accesstoken.AccessToken, error) {
	admit := admission(ctx, p.shared.turns.signatures)
	if i.external != nil {
		return i.external.VerifyAdmitted(ctx, token, p.audienceOf(i, host), caller.Network(caller.IP(ctx)), admit)
	}
	if !p.shared.isServing(ctx) {
		return nil, oauth.Unavailable("not_started", nil)
	}
	return p.verifier.VerifyAdmitted(token, p.audienceOf(i, host), admit)
}

// clockAndGeneration returns the time by the issuer's clock and the generation of its keys and revocations. It fails once
// neither is kept up to date.
func (p *Protect) clockAndGeneration(issuer string) (time.Time, uint64, error) {
	closed := oauth.Unavailable("issuer_closed", nil) // revocations and key withdrawals no longer arrive
	for i := range p.issuers {
		known := &p.issuers[i]
		if known.external == nil || known.url != issuer {
			continue
		}
		if known.life.Err() != nil {
			return time.Time{}, 0, closed
		}
		return known.now(), known.external.Generation(), nil
	}
	own := p.shared.own
	if own.Node.IsClosing() {
		return time.Time{}, 0, closed
	}
	return own.Node.Now(), own.Verifier.Generation(), nil
}

// isExternal reports whether an issuer is external: verifying its tokens may need a network request.
func (p *Protect) isExternal(issuer string) bool {
	return slices.ContainsFunc(p.issuers, func(i routeIssuer) bool { return i.external != nil && i.url == issuer })
}
