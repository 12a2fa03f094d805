package caddymodule

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// settings is a configuration that has been read: values of tokenissuer.
type settings struct {
	engine        engineSettings
	sealer        *keys.Sealer
	issuer        string
	audience      []string
	lifetimes     store.Lifetimes
	passwordGrant *tokenissuer.PasswordRules // nil: it is off
	scopes        oauth.ScopeCatalogue
	roles         store.RoleCatalogue
	declared      store.StaticDirectory
	schemes       []string // of the declared users' password hashes
	brand         pages.Brand
	trusted       []trustSettings

	clientLimit, accountLimit, addressLimit, grantLimit, revocationLimit, gateLimit tokenissuer.Limit
}

// read turns the configuration into values, and says what is wrong with it.
func (a *App) read() (settings, error) {
	var s settings
	if a.Issuer == "" && len(a.Trust) > 0 {
		return s, errors.Join(a.checkGateOnly(), a.readTrust(&s), a.readGateLimit(&s), a.readRoles(&s))
	}
	steps := []func(*settings) error{
		a.readIssuer, a.readTrust, a.readStore, a.readKeys, a.readTokens, a.readScopes, a.readRoles, a.readDirectory, a.readLimits, a.readGateLimit, a.readBrand,
	}
	for _, step := range steps {
		if err := step(&s); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (a *App) readIssuer(s *settings) error {
	if a.Issuer == "" {
		return a.at(errors.New("issuer is missing: add `issuer https://…` to the oauth block, or `trust …` for a gate that issues nothing"), "oauth")
	}
	var err error
	if s.issuer, err = resolve("issuer", a.Issuer); err == nil {
		err = checkIssuer(s.issuer)
	}
	if err != nil {
		return a.at(err, "issuer")
	}
	s.engine.issuer = s.issuer
	for _, configured := range a.Audience {
		audience, err := resolve("audience", configured)
		if err != nil {
			return a.at(err, "audience", configured)
		}
		s.audience = append(s.audience, audience)
	}
	if len(s.audience) == 0 {
		s.audience = []string{s.issuer}
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
	switch u.Scheme {
	case "https":
		return nil
	case "http":
		if oauth.IsLoopback(u.Hostname()) {
			return nil
		}
	}
	return fmt.Errorf("issuer %q must be https: plain http is for loopback hosts only", issuer)
}
