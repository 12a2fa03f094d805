package caddymodule

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// parseIssuer reads `issuer <url>`.
func (a *App) parseIssuer(d *caddyfile.Dispenser) error {
	if err := setting.TextOrPlaceholder(d, &a.Issuer); err != nil {
		return err
	}
	if !setting.IsPlaceholder(a.Issuer) {
		if err := checkIssuer(a.Issuer); err != nil {
			return d.Errf("%v", err)
		}
	}
	a.note(d, "issuer")
	return nil
}

// Audience reads `audience <audience>...`.
func (a *App) parseAudience(d *caddyfile.Dispenser) error {
	before := len(a.Audience)
	err := setting.Audience(d, &a.Audience)
	for _, value := range a.Audience[before:] {
		a.note(d, "audience", value)
	}
	return err
}

func (a *App) readIssuer(s *settings) error {
	if a.Issuer == "" {
		return a.at(errors.New("issuer is missing: add `issuer https://…` to the oauth block, or `trust …` for a gate that issues nothing"), "oauth")
	}
	var err error
	if s.URL, err = setting.Resolve("issuer", a.Issuer); err == nil {
		err = checkIssuer(s.URL)
	}
	if err != nil {
		return a.at(err, "issuer")
	}
	s.node.Issuer = s.URL
	for _, configured := range a.Audience {
		audience, err := setting.Resolve("audience", configured)
		if err != nil {
			return a.at(err, "audience", configured)
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
