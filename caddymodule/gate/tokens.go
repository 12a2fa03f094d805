package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// Self names our own issuer in a list of issuers.
const Self = "self"

// parseIssuers reads the names of the issuers whose tokens pass.
func parseIssuers(p *directive, h httpcaddyfile.Helper) error {
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

// acceptsExternal reports whether issuers of these names include others than our own. Their roles are unknown here.
func acceptsExternal(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return name != Self })
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

// tokens decides whose tokens pass on a route, and for which audiences. The zero value, before Provision, accepts none.
type tokens struct {
	shared  *Shared
	issuers []routeIssuer
	own     *routeIssuer // element of issuers; nil: our own tokens do not pass
	// verifier verifies our own tokens; nil: there are none.
	verifier OwnVerifier
	// forResource lets only tokens pass that were asked for the resource of the route.
	forResource bool
	// guarded has the accepted audiences of our own tokens and, with forResource, of all issuers. Nil until the routes are known:
	// the audiences of the issuers count.
	guarded atomic.Pointer[guarded]
}

// read resolves the accepted issuers and audiences.
func (t *tokens) read(p *Protect, shared *Shared) error {
	t.shared = shared
	if shared.own != nil {
		t.verifier = shared.own.Verifier
	}
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
		issuer, err := shared.routeIssuer(name, p.UsesHostSessions())
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
		t.issuers = append(t.issuers, issuer)
	}
	for i := range t.issuers {
		if t.issuers[i].external == nil {
			t.own = &t.issuers[i]
		}
	}
	return nil
}

// routeIssuer returns the issuer of that name. Sessions: the route accepts the sessions of its host.
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

// OwnVerifier is the part of token.Verifier that gates use.
type OwnVerifier interface {
	// Recall returns the cached verdict on a token that was verified before.
	Recall(tok string, audiences []string) (t *token.AccessToken, known bool, err error)
	// VerifyAdmitted verifies any token. It calls admit before it verifies a signature.
	VerifyAdmitted(tok string, audiences []string, admit token.Admission) (*token.AccessToken, error)
	// Generation changes with every change of the keys or revocations.
	Generation() uint64
}

// verify returns a token that is good on the route, in a request for a host. The iss claim only selects the issuer; the signature
// must be by a key of that issuer.
func (t *tokens) verify(ctx context.Context, host, tok string) (*token.AccessToken, error) {
	known := t.shared.knowsRoutes()
	verified, err := t.verifyByIssuer(ctx, host, tok)
	if !known && errors.Is(err, token.ErrAudienceWrong) { // it may be for the resource of the route
		if err := t.shared.AwaitRoutes(ctx); err != nil {
			return nil, err
		}
		verified, err = t.verifyByIssuer(ctx, host, tok)
	}
	if err == nil && verified.IsSwapped() && !t.mayCome(verified) {
		return nil, token.ErrAudienceWrong
	}
	return verified, err
}

// mayCome reports whether a swapped token is for an audience of this route. A token for the resource alone is not enough: the
// name that an upstream receives as its own could be that of a route, where it could act as the client.
func (t *tokens) mayCome(swapped *token.AccessToken) bool {
	return !t.isOwn(swapped) || swapped.HasAudience(t.own.audience)
}

// isOwn reports whether our own issuer issued a verified token.
func (t *tokens) isOwn(tok *token.AccessToken) bool {
	return t.own != nil && tok.Issuer == t.own.url
}

// verifyByIssuer returns the verdict of the issuer that a token is by.
func (t *tokens) verifyByIssuer(ctx context.Context, host, tok string) (*token.AccessToken, error) {
	if t.isPersonal(tok) {
		return t.verifyPersonal(ctx, host, tok)
	}
	// 1. Look up: a token that was verified before is neither parsed nor does it wait. The look-up checks that it is alive: that it
	// has not expired, is not revoked, and is for this route.
	for i := range t.issuers {
		if verified, known, err := t.recall(ctx, &t.issuers[i], host, tok); known {
			return verified, err
		}
	}
	issuer, unknown := t.issuerOf(tok)
	var imported error
	if t.own != nil && t.shared.own.Imported.MayBeToken(tok) {
		var verified *token.AccessToken
		if verified, imported = t.verifyImported(ctx, host, tok); verified != nil {
			return verified, imported
		}
	}
	if imported != nil && (issuer == nil || issuer.external == nil || oauth.AsError(imported).Code != oauth.TemporarilyUnavailable) {
		return nil, imported
	}
	// 2. First sight: parse and verify, the signature last and in turn.
	if unknown != nil {
		return nil, unknown
	}
	admit := admission(ctx, t.shared.turns.signatures)
	if issuer.external != nil {
		verified, err := issuer.external.VerifyAdmitted(ctx, tok, t.audienceOf(issuer, host), caller.Network(caller.IP(ctx)), admit)
		if err != nil && imported != nil { // it may be an imported one, which cannot be looked up now
			return nil, imported
		}
		return verified, err
	}
	if !t.shared.isServing(ctx) {
		return nil, oauth.Unavailable("not_started", nil)
	}
	return t.verifier.VerifyAdmitted(tok, t.audienceOf(issuer, host), admit)
}

// verifyImported returns the content of an access token of another server that was imported, or nil.
func (t *tokens) verifyImported(ctx context.Context, host, tok string) (*token.AccessToken, error) {
	if !t.shared.isServing(ctx) {
		return nil, oauth.Unavailable("not_started", nil)
	}
	return t.shared.own.Imported.Token(ctx, tok, t.audienceOf(t.own, host), admission(ctx, t.shared.turns.lookups))
}

// issuerOf returns the issuer that a token names, or the issuer with introspection if it is not a JWT.
func (t *tokens) issuerOf(tok string) (*routeIssuer, error) {
	if len(t.issuers) == 1 {
		return &t.issuers[0], nil
	}
	url, isJWT := token.ClaimedIssuer(tok)
	for i := range t.issuers {
		issuer := &t.issuers[i]
		if isJWT && issuer.url == url || !isJWT && issuer.external != nil && issuer.external.Introspects() {
			return issuer, nil
		}
	}
	return nil, issuerUnknown
}

var issuerUnknown = oauth.NewError(oauth.InvalidToken, "issuer_unknown")

// recall returns the issuer's cached verdict on a token. It does not allocate.
func (t *tokens) recall(ctx context.Context, i *routeIssuer, host, tok string) (verified *token.AccessToken, known bool, err error) {
	if i.external != nil {
		return i.external.Recall(tok, t.audienceOf(i, host))
	}
	verified, known, err = t.verifier.Recall(tok, t.audienceOf(i, host))
	if known && !t.shared.isServing(ctx) {
		return nil, true, oauth.Unavailable("not_started", nil)
	}
	return verified, known, err
}

// clockAndGeneration returns the time by the issuer's clock and the generation of its keys and revocations. It fails once
// neither is kept up to date.
func (t *tokens) clockAndGeneration(issuer string) (time.Time, uint64, error) {
	closed := oauth.Unavailable("issuer_closed", nil) // revocations and key withdrawals no longer arrive
	for i := range t.issuers {
		known := &t.issuers[i]
		if known.external == nil || known.url != issuer {
			continue
		}
		if known.life.Err() != nil {
			return time.Time{}, 0, closed
		}
		return known.now(), known.external.Generation(), nil
	}
	own := t.shared.own
	if own.IsClosing() {
		return time.Time{}, 0, closed
	}
	return own.Now(), own.Verifier.Generation(), nil
}

// isExternal reports whether an issuer is external: verifying its tokens may need a network request.
func (t *tokens) isExternal(issuer string) bool {
	return slices.ContainsFunc(t.issuers, func(i routeIssuer) bool { return i.external != nil && i.url == issuer })
}

// nameOf returns the name of the trusted issuer that issued a token; empty: our own issuer.
func (t *tokens) nameOf(tok *token.AccessToken) string {
	for i := range t.issuers {
		if t.issuers[i].external != nil && t.issuers[i].url == tok.Issuer {
			return t.issuers[i].name
		}
	}
	return ""
}
