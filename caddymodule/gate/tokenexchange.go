package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/delegation"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// swapToken is the `upstream_token` value that exchanges the client's token for one for the upstream.
const swapToken = "swap"

// parseUpstreamToken reads the `upstream_token` option.
func (p *Protect) parseUpstreamToken(h httpcaddyfile.Helper) error {
	if err := setting.Once(h.Dispenser, "upstream_token", p.UpstreamToken != ""); err != nil {
		return err
	}
	args := h.RemainingArgs()
	switch {
	case len(args) == 2 && args[0] == swapToken:
		p.UpstreamToken, p.SwapAudience = args[0], args[1]
		return checkUpstreamAudience(h, "upstream_token swap", args[1])
	case len(args) != 1:
		return h.ArgErr()
	case args[0] == swapToken:
		return h.Errf("upstream_token swap needs the audience of the upstream")
	}
	p.UpstreamToken = args[0]
	if err := p.checkUpstreamToken(); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

func (p *Protect) checkUpstreamToken() error {
	if !slices.Contains([]string{"", stripToken, relayToken, swapToken}, p.UpstreamToken) {
		return fmt.Errorf("upstream_token %q: use strip, relay or swap <audience>", p.UpstreamToken)
	}
	if p.SwapAudience != "" && p.UpstreamToken != swapToken {
		return fmt.Errorf("swap_audience is for upstream_token swap, and not for %q", p.UpstreamToken)
	}
	return nil
}

// readSwap checks the settings of the token exchange.
func (p *Protect) readSwap() (err error) {
	if err := p.checkUpstreamToken(); err != nil || p.UpstreamToken != swapToken {
		return err
	}
	if p.shared.issuerURL() == "" {
		return errors.New("upstream_token swap needs an issuer of our own, whose token the upstream gets: add `issuer https://…` to the oauth block")
	}
	if p.exchangeAudience, err = setting.Resolve("upstream_token swap: audience", p.SwapAudience); err != nil {
		return err
	}
	if err := p.checkSwapAudience(); err != nil {
		return err
	}
	for _, i := range p.issuers {
		if i.external != nil {
			if err := p.shared.reserveIDPrefix(i.name); err != nil {
				return err
			}
		}
	}
	p.shared.own.Upstreams.UseExchange()
	return nil
}

// checkSwapAudience refuses an audience that would let the upstream act as the client.
func (p *Protect) checkSwapAudience() error {
	if p.exchangeAudience == p.shared.own.URL || slices.Contains(p.shared.own.Audience, p.exchangeAudience) {
		return fmt.Errorf("upstream_token swap %s: this is our issuer's own audience, and the upstream could act as the client everywhere: name the upstream alone", p.exchangeAudience)
	}
	for _, i := range p.issuers {
		if slices.Contains(i.audience, p.exchangeAudience) {
			return fmt.Errorf("upstream_token swap %s: this route takes tokens for that audience itself: name the upstream alone", p.exchangeAudience)
		}
	}
	return nil
}

// reserveIDPrefix reserves the prefix "<trust>:", with which the ids of an external issuer's subjects and clients begin
// in exchanged tokens. It fails if a declared client or user has such an id. Call it only during provisioning.
func (s *Shared) reserveIDPrefix(trust string) error {
	prefix := trust + ":"
	for _, c := range s.own.Declared.Clients() {
		if strings.HasPrefix(c.ID, prefix) {
			return fmt.Errorf("upstream_token swap: client %q could be taken for one of trust %s: give it another id", c.ID, trust)
		}
	}
	for _, u := range s.own.Declared.Users() {
		if strings.HasPrefix(u.ID, prefix) {
			return fmt.Errorf("upstream_token swap: user %q could be taken for one of trust %s: give it another id", u.ID, trust)
		}
	}
	s.reservedPrefixes = append(s.reservedPrefixes, prefix)
	return nil
}

// isReserved reports whether an id has the prefix of a trusted issuer.
func (s *Shared) isReserved(id string) bool {
	return slices.ContainsFunc(s.reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(id, prefix) })
}

// exchange gets the token for the upstream. If it fails, the request is refused; the client's token is never sent
// instead.
func (p *Protect) exchange(r *http.Request, d *decision) error {
	if p.UpstreamToken != swapToken {
		return nil
	}
	if !p.shared.isServing(r.Context()) {
		return oauth.Unavailable("not_started", nil)
	}
	name, err := p.trustOf(d.token)
	if err != nil {
		return err
	}
	d.exchanged, err = p.shared.own.Upstreams.ExchangeForUpstream(delegation.TokenExchange{Shown: d.rawToken, Token: d.token, Trust: name, Audience: p.exchangeAudience})
	return err
}

// trustOf returns the name of the trust that issued a token; empty: our own issuer. It fails for a stored id of ours that
// begins with a reserved prefix.
func (p *Protect) trustOf(t *accesstoken.AccessToken) (string, error) {
	if t.Issuer == p.shared.own.URL {
		foreign := t.Origin().Issuer != t.Issuer // it came from a swapped token
		if !foreign && p.shared.isReserved(t.Subject) || (!foreign || !t.IsSwapped()) && p.shared.isReserved(t.ClientID) {
			return "", oauth.NewError(oauth.ServerError, "subject_ambiguous").
				WithCause(fmt.Errorf("subject %q or client %q could be taken for one of a trusted issuer's: give it another id", t.Subject, t.ClientID))
		}
		return "", nil
	}
	for _, i := range p.issuers {
		if i.external != nil && i.url == t.Issuer {
			return i.name, nil
		}
	}
	return "", oauth.NewError(oauth.ServerError, "issuer_unknown")
}

// authorize sets the exchanged token in the upstream request, which has its own header map.
func (d *decision) authorize(upstream *http.Request) {
	if !d.exchanged.IsEmpty() {
		upstream.Header["Authorization"] = []string{"Bearer " + d.exchanged.Reveal()}
	}
}
