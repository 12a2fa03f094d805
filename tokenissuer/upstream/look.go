package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// lookAt resolves a provider's address, and reports whether all results may be dialled.
func lookAt(ctx context.Context, s *signin.Steps, c *channel, address string) bool {
	list, err := c.client.Addresses(ctx, address)
	if err != nil {
		s.Fail("address", err)
		return false
	}
	s.Pass("address", "%s is %s", hostOf(address), joinAddresses(list))
	return true
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Hostname()
}

func joinAddresses(list []netip.Addr) string {
	texts := make([]string, len(list))
	for i, ip := range list {
		texts[i] = ip.String()
	}
	return strings.Join(texts, ", ")
}

// Test checks metadata, keys and client as a sign-in would use them, at the provider itself. Its steps are address, connection, metadata,
// issuer, endpoints, keys, algorithms, pkce, client, redirect_uri.
func (p *OpenID) Test(ctx context.Context, redirectURI string) []signin.Step {
	var s signin.Steps
	if m := p.testMetadata(ctx, &s); m != nil {
		p.testKeys(ctx, &s, m)
		switch {
		case slices.Contains(m.Challenges, "S256"):
			s.Pass("pkce", "the provider announces PKCE with S256")
		default:
			s.Advise("pkce", "the provider does not announce PKCE with S256: it is sent nevertheless, and the nonce protects the sign-in too")
		}
		p.testGroups(&s, m)
		if config, err := p.config(m, redirectURI); err == nil {
			testClient(ctx, &s, p.channel, config)
		}
	}
	s.Advise("redirect_uri", "register this redirect URI at the provider: %s", redirectURI)
	return s
}

// testGroups reports whether the provider sends the groups claim. It relies on the sign-ins so far or, before the first, on the claims
// listed in the metadata. A provider omits a claim whose scope was not requested, and people then have no groups of this provider.
func (p *OpenID) testGroups(s *signin.Steps, m *metadata) {
	claim := p.settings.GroupsClaim
	outer, _, _ := strings.Cut(claim, ".")
	const remedy = "ask for the scope that brings it (scopes), or have the provider send it"
	switch signIns := p.signIns.Load(); {
	case claim == "":
	case p.withGroups.Load() > 0:
		s.Pass("groups", "the claim %q comes", claim)
	case signIns > 0:
		s.Advise("groups", "the claim %q has come in none of %d sign-ins since the start, so nobody is in groups of this provider: %s", claim, signIns, remedy)
	case len(m.Claims) > 0 && !slices.Contains(m.Claims, claim) && !slices.Contains(m.Claims, outer):
		s.Advise("groups", "the provider lists its claims, and %q is not among them: %s", claim, remedy)
	}
}

// testMetadata returns nil if nothing else can be checked.
func (p *OpenID) testMetadata(ctx context.Context, s *signin.Steps) *metadata {
	issuer := p.settings.Issuer
	if !lookAt(ctx, s, p.channel, issuer) {
		return nil
	}
	document, err := p.published.Look(ctx)
	if what := brokenConnection(err); what != "" {
		s.Add("connection", signin.Failed, "%s: %s", what, err)
		return nil
	}
	s.Pass("connection", "connected to %s", hostOf(issuer))
	if err != nil {
		s.Add("metadata", signin.Failed, "%s: is %s the issuer, as the provider writes it?", err, issuer)
		return nil
	}
	m := new(metadata)
	if err := strictjson.Object(document, m); err != nil {
		s.Fail("metadata", err)
		return nil
	}
	s.Pass("metadata", "found")
	if m.Issuer == "" {
		s.Add("issuer", signin.Failed, "the metadata names no issuer: is %s the address of an OpenID provider?", issuer)
		return nil
	}
	if m.Issuer != issuer {
		s.Add("issuer", signin.Failed, "the provider calls itself %.200q: write that in the place of %q, byte for byte", m.Issuer, issuer)
		return nil
	}
	s.Pass("issuer", "%s", issuer)
	if failed := m.endpoints(p.channel.client.CheckURL); len(failed) > 0 {
		s.Fail("endpoints", errors.Join(failed...))
		return nil
	}
	if _, err := m.authStyle(p.settings.Client); err != nil {
		s.Fail("endpoints", err)
		return nil
	}
	s.Pass("endpoints", "all usable")
	return m
}

// brokenConnection describes where a connection failed. It returns "" if there was a response.
func brokenConnection(err error) string {
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return "the certificate is not valid for this host, or of an authority that this machine does not know"
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "it does not speak TLS"
	}
	if fault, is := errors.AsType[net.Error](err); is {
		if fault.Timeout() {
			return "no answer within five seconds"
		}
		if _, is := errors.AsType[*net.OpError](err); is {
			return "no connection"
		}
	}
	return ""
}

func (p *OpenID) testKeys(ctx context.Context, s *signin.Steps, m *metadata) {
	list, err := p.published.LookAtKeys(ctx, m.JWKSURI)
	if err != nil {
		s.Fail("keys", err)
		return
	}
	s.Pass("keys", "%d published at %s", len(list), m.JWKSURI)
	offered := m.usableAlgorithms()
	usable := slices.DeleteFunc(slices.Clone(offered), func(name string) bool {
		return !slices.ContainsFunc(list, func(k fetch.KeyReport) bool { return slices.Contains(k.Algorithms, oauth.Algorithm(name)) })
	})
	if len(usable) == 0 {
		s.Add("algorithms", signin.Failed, "the provider offers %s for ID tokens, and has no key for any that we support", joined(m.Algorithms))
		return
	}
	s.Pass("algorithms", "%s", joined(usable))
}

// testClient redeems a nonexistent code. A provider that refuses the code has accepted the client.
func testClient(ctx context.Context, s *signin.Steps, c *channel, config oauth2.Config) {
	_, err := c.redeem(ctx, config, newFlow(Request{}, time.Time{}), oauth.NewSecret("gatehouse-test-"+oauth.NewID()))
	e := oauth.AsError(err)
	switch {
	case err == nil:
		s.Advise("client", "the provider gave tokens for a code that does not exist")
	case errors.Is(err, ErrExpired):
		s.Pass("client", "the provider knows the client and its secret")
	default:
		s.Add("client", signin.Failed, "%s", errors.Unwrap(e))
	}
}

// Test checks GitHub and the client.
func (g *GitHub) Test(ctx context.Context, redirectURI string) []signin.Step {
	var s signin.Steps
	if lookAt(ctx, &s, g.channel, g.web) && lookAt(ctx, &s, g.channel, g.api) {
		testClient(ctx, &s, g.channel, g.config(redirectURI))
	}
	s.Advise("redirect_uri", "register this authorization callback URL at GitHub: %s", redirectURI)
	return s
}
