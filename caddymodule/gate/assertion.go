package gate

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// AssertionConfig is `forward assertion`: a short-lived JWT, signed by our issuer, that names the caller. It is for
// upstreams that do not trust the hops in between, and is sent in addition to the identity headers.
type AssertionConfig struct {
	// Header is the header's name. Headers that mean something to HTTP or to a proxy are refused.
	Header string `json:"header"`
	// Audience is the upstream that the assertion is for. Use a different one for each upstream, or one upstream can
	// replay it to another. Default: the first audience of the route.
	Audience string `json:"audience,omitempty"`
}

// parseAssertion reads what follows `forward assertion`.
func parseAssertion(p *directive, h httpcaddyfile.Helper, args []string) error {
	switch {
	case len(args) == 0 || len(args) > 2:
		return h.Errf("write it as `forward assertion <Header> [<audience>]`")
	case p.Assertion != nil:
		return h.Errf("forward assertion is there twice")
	case identity.Forbidden(args[0]):
		return h.Errf("forward assertion %s: an assertion cannot be written into this header", args[0])
	}
	p.Assertion = &AssertionConfig{Header: args[0]}
	if len(args) == 1 {
		return nil
	}
	p.Assertion.Audience = args[1]
	return checkUpstreamAudience(h, "forward assertion", args[1])
}

// checkUpstreamAudience refuses an empty audience and one with a placeholder of the request.
func checkUpstreamAudience(h httpcaddyfile.Helper, option, audience string) error {
	if audience == "" {
		return h.Errf("%s: the audience is empty; is a variable unset?", option)
	}
	return setting.RefuseRequest(h.Dispenser, audience)
}

// readAssertion checks the settings and adds the header to those that every `protect` removes from client requests.
func (u *forwarding) readAssertion(p *Protect) error {
	if p.Assertion == nil {
		return nil
	}
	header := http.CanonicalHeaderKey(p.Assertion.Header)
	switch {
	case identity.Forbidden(header):
		return fmt.Errorf("forward assertion %s: an assertion cannot be written into this header", header)
	case u.tokens.shared.issuerURL() == "":
		return errors.New("forward assertion needs an issuer of our own, whose keys sign it: add `issuer https://…` to the oauth block")
	case p.ForwardTo == forwardToResponse:
		return errors.New("forward assertion is bound to the request that the upstream gets, which is not the one that forward_to response answers")
	}
	for _, f := range u.claims {
		if identity.NewNames(f.Header).Has(header) {
			return fmt.Errorf("forward assertion %s: the header has the claim %s already", header, f.Claim)
		}
	}
	audience := u.tokens.issuers[0].audience[0]
	if p.Assertion.Audience != "" {
		var err error
		if audience, err = setting.Resolve("forward assertion: audience", p.Assertion.Audience); err != nil {
			return err
		}
	}
	u.assertion = &AssertionConfig{header, audience}
	u.tokens.shared.addIdentityHeader(header)
	u.tokens.shared.own.Upstreams.UseAssertions()
	return nil
}

// assert adds the assertion to the identity fields. It fails the request if the assertion cannot be signed or is too
// long: without it, an upstream could take the request for anonymous.
func (u *forwarding) assert(r *http.Request, d *decision) error {
	if u.assertion == nil {
		return nil
	}
	if !u.tokens.shared.isServing(r.Context()) {
		return oauth.Unavailable("not_started", nil)
	}
	signed, err := u.tokens.shared.own.Upstreams.Assert(d.token, token.AssertedRequest{
		Audience: u.assertion.Audience, Method: upstreamMethod(r), Target: upstreamTarget(r),
	})
	if err != nil {
		return err
	}
	if len(signed.Reveal()) > identity.MaxBytes {
		return oauth.NewError(oauth.InvalidToken, "identity_too_long")
	}
	d.fields = append(d.fields, identity.Field{Name: u.assertion.Header, Value: signed.Reveal()})
	return nil
}

// upstreamMethod returns the method that the upstream sees: reverse_proxy turns a WebSocket over HTTP/2 or 3 into a GET.
func upstreamMethod(r *http.Request) string {
	if requestpath.IsWebSocketConnect(r) {
		return http.MethodGet
	}
	return r.Method
}

// upstreamTarget returns the request target that the upstream sees.
func upstreamTarget(r *http.Request) string {
	location := *r.URL
	location.RawQuery = requests.WithoutQueryToken(location.RawQuery)
	return location.RequestURI()
}
