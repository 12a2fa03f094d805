package configuration

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// sessionsOnlyURL is what the core calls itself where there is no issuer for others. It is in the store, and nobody else gets to see it.
const sessionsOnlyURL = "https://sessions.invalid"

// parseIssuer reads `issuer <url>`.
func (b *Block) parseIssuer(d *caddyfile.Dispenser) error {
	if err := setting.TextOrPlaceholder(d, &b.Issuer); err != nil {
		return err
	}
	if !setting.IsPlaceholder(b.Issuer) {
		if err := checkIssuer(b.Issuer); err != nil {
			return d.Errf("%v", err)
		}
	}
	b.note(d, "issuer")
	return nil
}

// Audience reads `audience <audience>...`.
func (b *Block) parseAudience(d *caddyfile.Dispenser) error {
	before := len(b.Audience)
	err := setting.Audience(d, &b.Audience)
	for _, value := range b.Audience[before:] {
		b.note(d, "audience", value)
	}
	return err
}

func (b *Block) readIssuer(s *Settings) error {
	if s.SessionsOnly {
		s.URL, s.Node.Issuer, s.Audience = sessionsOnlyURL, sessionsOnlyURL, []string{sessionsOnlyURL}
		return nil
	}
	if b.Issuer == "" {
		return b.at(errors.New("issuer is missing: add `issuer https://…` to the oauth block, a provider to sign_in, or `trust …` for a gate that issues nothing"), "oauth")
	}
	var err error
	if s.URL, err = setting.Resolve("issuer", b.Issuer); err == nil {
		err = checkIssuer(s.URL)
	}
	if err != nil {
		return b.at(err, "issuer")
	}
	s.Node.Issuer = s.URL
	for _, configured := range b.Audience {
		audience, err := setting.Resolve("audience", configured)
		if err != nil {
			return b.at(err, "audience", configured)
		}
		s.Audience = append(s.Audience, audience)
	}
	if len(s.Audience) == 0 {
		s.Audience = []string{s.URL}
	}
	return nil
}

// checkIssuer holds the issuer to RFC 8414 §2: https, no query, no fragment. Plain http is for loopback only.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return fmt.Errorf("issuer %q is no URL: write it as https://api.example.com", issuer)
	}
	if strings.ContainsAny(issuer, "?#") || u.User != nil || strings.HasSuffix(issuer, "/") {
		return fmt.Errorf("issuer %q must have no query, no fragment, no credentials and no trailing slash", issuer)
	}
	if u.Scheme == "https" || u.Scheme == "http" && oauth.IsLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("issuer %q must be https: plain http is for loopback hosts only", issuer)
}
