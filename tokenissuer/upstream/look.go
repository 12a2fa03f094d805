package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
)

// Step is one thing that was looked at.
type Step struct {
	// Name is stable: address, connection, metadata, issuer, endpoints, keys, algorithms, pkce, client, redirect_uri.
	Name string `json:"step"`
	// Result says how it went.
	Result Result `json:"result"`
	// Text says what was found, or what to do.
	Text string `json:"text"`
}

// Result is how a Step went.
type Result string

// The results.
const (
	Passed Result = "passed"
	Failed Result = "failed"
	// Advice is something that works, and could be better, or that only the operator can compare.
	Advice Result = "advice"
)

// steps collects what was found.
type steps []Step

func (s *steps) pass(name, format string, values ...any) { s.add(name, Passed, format, values...) }

func (s *steps) fail(name string, err error) { s.add(name, Failed, "%s", err) }

func (s *steps) advise(name, format string, values ...any) { s.add(name, Advice, format, values...) }

func (s *steps) add(name string, result Result, format string, values ...any) {
	*s = append(*s, Step{Name: name, Result: result, Text: fmt.Sprintf(format, values...)})
}

// lookAt resolves a provider's address, and says whether all of its addresses may be dialled.
func (s *steps) lookAt(ctx context.Context, c *channel, address string) bool {
	list, err := c.client.Addresses(ctx, address)
	if err != nil {
		s.fail("address", err)
		return false
	}
	s.pass("address", "%s is %s", hostOf(address), joinAddresses(list))
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

// Test looks at metadata, keys and client as a sign-in would use them, at the provider itself.
func (p *OpenID) Test(ctx context.Context, redirectURI string) []Step {
	var s steps
	if m := p.testMetadata(ctx, &s); m != nil {
		p.testKeys(ctx, &s, m)
		switch {
		case slices.Contains(m.Challenges, "S256"):
			s.pass("pkce", "the provider announces PKCE with S256")
		default:
			s.advise("pkce", "the provider does not announce PKCE with S256: it is sent nevertheless, and the nonce protects the sign-in too")
		}
		if config, err := p.config(m, redirectURI); err == nil {
			s.testClient(ctx, p.channel, config)
		}
	}
	s.advise("redirect_uri", "register this redirect URI at the provider: %s", redirectURI)
	return s
}

// testMetadata returns nil when nothing else can be looked at.
func (p *OpenID) testMetadata(ctx context.Context, s *steps) *metadata {
	issuer := p.settings.Issuer
	if !s.lookAt(ctx, p.channel, issuer) {
		return nil
	}
	document, err := p.published.Look(ctx)
	if what := brokenConnection(err); what != "" {
		s.add("connection", Failed, "%s: %s", what, err)
		return nil
	}
	s.pass("connection", "connected to %s", hostOf(issuer))
	if err != nil {
		s.add("metadata", Failed, "%s: is %s the issuer, as the provider writes it?", err, issuer)
		return nil
	}
	m := new(metadata)
	if err := json.Unmarshal(document, m); err != nil {
		s.fail("metadata", err)
		return nil
	}
	s.pass("metadata", "found")
	if m.Issuer != issuer {
		s.add("issuer", Failed, "the provider calls itself %.200q: write that in the place of %q, byte for byte", m.Issuer, issuer)
		return nil
	}
	s.pass("issuer", "%s", issuer)
	if failed := m.endpoints(p.channel.client.CheckURL); len(failed) > 0 {
		s.fail("endpoints", errors.Join(failed...))
		return nil
	}
	if _, err := m.authStyle(p.settings.Client); err != nil {
		s.fail("endpoints", err)
		return nil
	}
	s.pass("endpoints", "all usable")
	return m
}

// brokenConnection says where a connection has failed; empty: there was an answer.
func brokenConnection(err error) string {
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return "the certificate is not valid for this host, or of an authority that this machine does not know"
	}
	if _, is := errors.AsType[tls.RecordHeaderError](err); is {
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

func (p *OpenID) testKeys(ctx context.Context, s *steps, m *metadata) {
	list, err := p.published.LookAtKeys(ctx, m.JWKSURI)
	if err != nil {
		s.fail("keys", err)
		return
	}
	s.pass("keys", "%d published at %s", len(list), m.JWKSURI)
	offered := m.usableAlgorithms()
	usable := slices.DeleteFunc(slices.Clone(offered), func(name string) bool {
		return !slices.ContainsFunc(list, func(k trust.KeyReport) bool { return slices.Contains(k.Algorithms, oauth.Algorithm(name)) })
	})
	if len(usable) == 0 {
		s.add("algorithms", Failed, "the provider offers %s for ID tokens, and has no key for any that we support", joined(m.Algorithms))
		return
	}
	s.pass("algorithms", "%s", joined(usable))
}

// testClient redeems a code that does not exist. A provider that complains of the code has accepted the client.
func (s *steps) testClient(ctx context.Context, c *channel, config oauth2.Config) {
	_, err := c.redeem(ctx, config, newFlow(0), oauth.NewSecret("gatehouse-test-"+oauth.NewID()))
	e := oauth.AsError(err)
	switch {
	case err == nil:
		s.advise("client", "the provider gave tokens for a code that does not exist")
	case e.Reason == ReasonExpired:
		s.pass("client", "the provider knows the client and its secret")
	default:
		s.add("client", Failed, "%s", errors.Unwrap(e))
	}
}

// Test looks at GitHub, and at the client.
func (g *GitHub) Test(ctx context.Context, redirectURI string) []Step {
	var s steps
	if s.lookAt(ctx, g.channel, g.web) && s.lookAt(ctx, g.channel, g.api) {
		s.testClient(ctx, g.channel, g.config(redirectURI))
	}
	s.advise("redirect_uri", "register this authorization callback URL at GitHub: %s", redirectURI)
	return s
}
