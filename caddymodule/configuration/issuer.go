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

// sessionsOnlyURL is the issuer identifier where there is no issuer for applications. It appears only in the store.
const sessionsOnlyURL = "https://sessions.invalid"

// parseIssuer reads `issuer <url>`.
func parseIssuer(d *caddyfile.Dispenser, issuer *string, at *Sources) error {
	if err := setting.TextOrPlaceholder(d, issuer); err != nil {
		return err
	}
	if !setting.IsPlaceholder(*issuer) {
		if err := checkIssuer(*issuer); err != nil {
			return d.Errf("%v", err)
		}
	}
	at.note(d, "issuer")
	return nil
}

// parseAudience reads `audience <audience>...`.
func parseAudience(d *caddyfile.Dispenser, audience *[]string, at *Sources) error {
	before := len(*audience)
	err := setting.Audience(d, audience)
	for _, value := range (*audience)[before:] {
		at.note(d, "audience", value)
	}
	return err
}

// readIssuer reads the issuer identifier and the audience of its tokens.
func readIssuer(issuer string, audience []string, s *Settings, at *Sources) error {
	if s.SignIn.Only {
		s.Node.Issuer, s.Issuer.URL, s.Issuer.Audience = sessionsOnlyURL, sessionsOnlyURL, []string{sessionsOnlyURL}
		return nil
	}
	if issuer == "" {
		return at.At(errors.New("issuer is missing: add `issuer https://…` to the oauth block, a provider to sign_in, or `trust …` for a gate that issues nothing"), "oauth")
	}
	var err error
	if s.Issuer.URL, err = setting.Resolve("issuer", issuer); err == nil {
		err = checkIssuer(s.Issuer.URL)
	}
	if err != nil {
		return at.At(err, "issuer")
	}
	s.Node.Issuer = s.Issuer.URL
	for _, configured := range audience {
		value, err := setting.Resolve("audience", configured)
		if err != nil {
			return at.At(err, "audience", configured)
		}
		s.Issuer.Audience = append(s.Issuer.Audience, value)
	}
	if len(s.Issuer.Audience) == 0 {
		s.Issuer.Audience = []string{s.Issuer.URL}
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
