package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// swapToken is the `upstream_token` value that exchanges the client's token for one for the upstream.
const swapToken = "swap"

// parseUpstreamToken reads the `upstream_token` option.
func parseUpstreamToken(p *directive, h httpcaddyfile.Helper) error {
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
	if err := checkUpstreamToken(p.Protect); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

func checkUpstreamToken(p *Protect) error {
	if !slices.Contains([]string{"", stripToken, relayToken, swapToken}, p.UpstreamToken) {
		return fmt.Errorf("upstream_token %q: use strip, relay or swap <audience>", p.UpstreamToken)
	}
	if p.SwapAudience != "" && p.UpstreamToken != swapToken {
		return fmt.Errorf("swap_audience is for upstream_token swap, and not for %q", p.UpstreamToken)
	}
	return nil
}

// readExchange checks the settings of the token exchange.
func (u *forwarding) readExchange(p *Protect) (err error) {
	if err := checkUpstreamToken(p); err != nil || p.UpstreamToken != swapToken {
		return err
	}
	if u.tokens.shared.issuerURL() == "" {
		return errors.New("upstream_token swap needs an issuer of our own, whose token the upstream gets: add `issuer https://…` to the oauth block")
	}
	if u.exchangeAudience, err = setting.Resolve("upstream_token swap: audience", p.SwapAudience); err != nil {
		return err
	}
	if err := u.checkAudience(); err != nil {
		return err
	}
	for _, i := range u.tokens.issuers {
		if i.external != nil {
			if err := u.tokens.shared.reserveIDPrefix(i.name); err != nil {
				return err
			}
		}
	}
	u.tokens.shared.own.Upstreams.UseExchange()
	return nil
}

// checkAudience refuses an audience that would let the upstream act as the client.
func (u *forwarding) checkAudience() error {
	if u.exchangeAudience == u.tokens.shared.own.URL || slices.Contains(u.tokens.shared.own.Audience, u.exchangeAudience) {
		return fmt.Errorf("upstream_token swap %s: this is our issuer's own audience, and the upstream could act as the client everywhere: name the upstream alone", u.exchangeAudience)
	}
	for _, i := range u.tokens.issuers {
		if slices.Contains(i.audience, u.exchangeAudience) {
			return fmt.Errorf("upstream_token swap %s: this route takes tokens for that audience itself: name the upstream alone", u.exchangeAudience)
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

// exchange returns the token for the upstream; empty: it gets none. If it fails, the request is refused; the client's token is never sent
// instead.
func (u *forwarding) exchange(r *http.Request, d *decision) (exchanged oauth.Secret, err error) {
	if u.exchangeAudience == "" {
		return exchanged, nil
	}
	if !u.tokens.shared.isServing(r.Context()) {
		return exchanged, oauth.Unavailable("not_started", nil)
	}
	name, err := u.tokens.trustOf(d.token)
	if err != nil {
		return exchanged, err
	}
	return u.tokens.shared.own.Upstreams.ExchangeForUpstream(token.Exchange{Shown: d.shown.token, Token: d.token, Trust: name, Audience: u.exchangeAudience})
}

// trustOf returns the name of the trust that issued a token; empty: our own issuer. It fails for a stored id of ours that
// begins with a reserved prefix.
func (t *tokens) trustOf(tok *token.AccessToken) (string, error) {
	if tok.Issuer == t.shared.own.URL {
		foreign := tok.Origin().Issuer != tok.Issuer // it came from a swapped token
		if !foreign && t.shared.isReserved(tok.Subject) || (!foreign || !tok.IsSwapped()) && t.shared.isReserved(tok.ClientID) {
			return "", oauth.NewError(oauth.ServerError, "subject_ambiguous").
				WithCause(fmt.Errorf("subject %q or client %q could be taken for one of a trusted issuer's: give it another id", tok.Subject, tok.ClientID))
		}
		return "", nil
	}
	if name := t.nameOf(tok); name != "" {
		return name, nil
	}
	return "", oauth.NewError(oauth.ServerError, "issuer_unknown")
}

// authorize sets the exchanged token in the upstream request, which has its own header map.
func (d *decision) authorize(upstream *http.Request) {
	if !d.exchanged.IsEmpty() {
		upstream.Header["Authorization"] = []string{"Bearer " + d.exchanged.Reveal()}
	}
}
