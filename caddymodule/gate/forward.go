package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// ForwardedClaim maps a claim to a header of the upstream request.
type ForwardedClaim struct {
	// Header is the header's name. Headers that mean something to HTTP or to a proxy are refused.
	Header string `json:"header"`
	// Claim is the claim's name on the wire: sub, client_id, scope, org, role, groups, or any other.
	Claim string `json:"claim"`
	// Raw sends a value of printable ASCII as it is, and percent-encodes only others. A token with several values is refused then.
	Raw bool `json:"raw,omitempty"`

	// ownTokensOnly: forward the claim only from tokens of our own issuer.
	ownTokensOnly bool
}

// defaultForward lists the headers that are set unless `forward` says otherwise.
var defaultForward = []ForwardedClaim{
	{Header: identity.Subject, Claim: "sub"}, {Header: identity.Client, Claim: "client_id"}, {Header: identity.Scope, Claim: "scope"},
	{Header: identity.Organisation, Claim: "org"}, {Header: identity.Role, Claim: "role"},
	{Header: identity.Groups, Claim: "groups", ownTokensOnly: true}, // other issuers' groups may be of any size
}

// forwarding tells the upstream who is calling.
type forwarding struct {
	tokens    *tokens
	claims    []ForwardedClaim
	assertion *AssertionConfig // resolved; nil: none
	// exchangeAudience is the audience of the token that replaces the client's; empty: none does.
	exchangeAudience string
}

// newForwarding determines the identity headers and adds them to those that every `protect` removes from client
// requests.
func newForwarding(p *Protect, t *tokens) (forwarding, error) {
	u := forwarding{tokens: t}
	for _, read := range []func(*Protect) error{u.readClaims, u.readAssertion, u.readExchange} {
		if err := read(p); err != nil {
			return u, err
		}
	}
	return u, nil
}

// readClaims determines the headers that claims go into.
func (u *forwarding) readClaims(p *Protect) error {
	switch {
	case p.ForwardOff && (len(p.Forward) > 0 || p.ForwardDefaults):
		return errors.New("forward off stands beside other forward lines")
	case p.ForwardOff:
		return nil
	case p.ForwardDefaults || len(p.Forward) == 0:
		u.claims = slices.Clip(defaultForward)
		if slices.ContainsFunc(u.tokens.issuers, func(i routeIssuer) bool { return i.external != nil }) {
			// Two issuers may use the same subject.
			u.claims = append(u.claims, ForwardedClaim{Header: identity.Issuer, Claim: "iss"})
		}
	}
	seen := make(map[string]bool) // keys are folded
	for _, f := range u.claims {
		seen[identity.Fold(f.Header)] = true
	}
	for _, f := range p.Forward {
		f.Header = http.CanonicalHeaderKey(f.Header)
		switch {
		case identity.Forbidden(f.Header):
			return fmt.Errorf("forward %s: a claim cannot be written into this header", f.Header)
		case f.Claim == "":
			return fmt.Errorf("forward %s: the claim is missing", f.Header)
		case seen[identity.Fold(f.Header)]:
			return fmt.Errorf("forward %s is there twice", f.Header)
		}
		if err := f.checkRaw(); err != nil {
			return err
		}
		seen[identity.Fold(f.Header)] = true
		u.claims = append(u.claims, f)
		u.tokens.shared.addIdentityHeader(f.Header)
	}
	return nil
}

// checkRaw refuses to send lists without encoding: their values could not be told apart.
func (f ForwardedClaim) checkRaw() error {
	if f.Raw && slices.Contains([]string{"aud", "scope", "amr", token.ClaimGroups}, f.Claim) {
		return fmt.Errorf("forward %s %s raw: the claim is a list, whose values are always encoded: leave raw out", f.Header, f.Claim)
	}
	return nil
}

// warnOfAbsentClaims warns of claims that no token on the route can have. Those of other issuers can have any.
func warnOfAbsentClaims(p *Protect) {
	if acceptsExternal(p.Issuers) {
		return
	}
	absent := func(claim string) (why string) {
		switch {
		case token.CanOwnTokenClaim(claim, p.UsesHostSessions()):
			return ""
		case token.CanOwnTokenClaim(claim, true):
			return "access tokens of ours do not have it, and only sessions of browsers do: add `challenge browser`"
		}
		return "no access token of ours has it, and sessions of browsers have " + strings.Join(token.SessionClaims(), ", ")
	}
	for _, f := range p.Forward {
		if why := absent(f.Claim); why != "" {
			p.logger.Warn("`forward "+f.Header+" "+f.Claim+"` never sends anything here, because the claim never comes: "+why, zap.String("source", p.Source))
		}
	}
	for _, r := range p.Require {
		if why := absent(r.Claim); r.Claim != "" && why != "" {
			p.logger.Warn("nobody passes `require claim "+r.Claim+"` here, because the claim never comes: "+why, zap.String("source", p.Source))
		}
	}
}

// fields appends an identity header for each claim that has a value. It fails if a value is too long for an
// upstream: omitting it would change what the token says.
func (u *forwarding) fields(fields []identity.Field, tok *token.AccessToken) ([]identity.Field, error) {
	for _, f := range u.claims {
		if f.ownTokensOnly && !u.tokens.isOwn(tok) {
			continue
		}
		value, err := claimValue(tok, f)
		if err != nil {
			return nil, err
		}
		if len(value) > identity.MaxBytes {
			return nil, oauth.NewError(oauth.InvalidToken, "identity_too_long")
		}
		if value != "" {
			fields = append(fields, identity.Field{Name: f.Header, Value: value})
		}
	}
	return fields, nil
}

// claimValue encodes a claim for a header. Values in X-Auth-Groups are separated by commas, others by spaces.
func claimValue(tok *token.AccessToken, f ForwardedClaim) (string, error) {
	encode := identity.Encode
	if f.Raw {
		encode = identity.EncodeRaw
	}
	if text, isOne := tok.Text(f.Claim); isOne {
		return encode(text), nil
	}
	texts := tok.Claim(f.Claim)
	switch {
	case len(texts) == 1:
		return encode(texts[0]), nil
	case f.Raw && len(texts) > 1: // a list could look like a text
		return "", oauth.NewError(oauth.InvalidToken, "identity_several")
	case f.Header == identity.Groups:
		return identity.EncodeList(texts, ','), nil
	}
	return identity.EncodeList(texts, ' '), nil
}
