package configuration

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Registration lets clients register themselves (RFC 7591).
type Registration struct {
	// Scopes are the scopes that such clients can be granted in addition to public. Default: those of the routes with `mcp`.
	Scopes []string `json:"scopes,omitempty"`
	// MaxClients bounds the number of such clients. Default: 1000.
	MaxClients int `json:"max_clients,omitempty"`
	// Limit bounds the registrations from one address. Default: 20 an hour.
	Limit *Limit `json:"limit,omitempty"`
	// InitialAccessTokens are the initial access tokens, each as {env.NAME} or {file./path}. A registration needs one of them. Default:
	// registration is open.
	InitialAccessTokens []string `json:"initial_access_tokens,omitempty"`
}

const (
	defaultMaxRegistered = 1000
	leastInitialToken    = 16 // bytes
)

var defaultRegistrationLimit = attempts.Limit{Failures: 20, Window: time.Hour}

// parseRegistration reads:
//
//	registration {
//		scopes      <scope>...
//		max_clients <number>
//		limit       <registrations>/<window> per ip | off
//		initial_access_token {env.NAME} | {file./path}
//	}
func parseRegistration(d *caddyfile.Dispenser, registration **Registration, at *Sources) error {
	if err := setting.Once(d, "registration", *registration != nil); err != nil {
		return err
	}
	at.note(d, "registration")
	c := orNew(registration)
	return options{
		"scopes": at.scopes(&c.Scopes, "registration", "scope"), "max_clients": c.parseMaxClients, "limit": oneLimit(&c.Limit, "20/1h", "ip"),
		"initial_access_token": c.parseInitialToken,
	}.parseAlone(d, "registration has no option %q")
}

func (c *Registration) parseMaxClients(d *caddyfile.Dispenser) error {
	var text string
	if err := setting.Once(d, "max_clients", c.MaxClients != 0); err != nil {
		return err
	}
	if err := setting.Text(d, &text); err != nil {
		return err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return d.Errf("max_clients %q: use a number of clients", text)
	}
	c.MaxClients = n
	return nil
}

func (c *Registration) parseInitialToken(d *caddyfile.Dispenser) error {
	var token string
	if err := setting.Text(d, &token); err != nil {
		return err
	}
	reference, err := setting.Reference(d, "registration", "initial_access_token", token)
	if err == nil && !reference {
		err = d.Err("give the initial_access_token as {env.NAME} or {file./path}: Caddy keeps what stands here in the clear")
	}
	c.InitialAccessTokens = append(c.InitialAccessTokens, token)
	return err
}

func (c *Registration) read(s *Settings, at *Sources) error {
	if c == nil {
		return nil
	}
	fail := func(err error) error { return at.At(fmt.Errorf("registration: %w", err), "registration") }
	if err := at.checkScopes(s.Issuer.Scopes, c.Scopes, "registration", "scope"); err != nil {
		return err
	}
	rules := &clients.RegistrationRules{Most: c.MaxClients}
	if rules.Most == 0 {
		rules.Most = defaultMaxRegistered
	}
	if rules.Most < 0 {
		return fail(errors.New("max_clients must be a number of clients"))
	}
	var err error
	if rules.PerAddress, err = c.Limit.read(defaultRegistrationLimit); err != nil {
		return fail(fmt.Errorf("limit: %w", err))
	}
	for _, configured := range c.InitialAccessTokens {
		token, err := setting.Resolve("initial_access_token", configured)
		if err == nil && len(token) < leastInitialToken {
			err = fmt.Errorf("initial_access_token: use at least %d characters", leastInitialToken)
		}
		if err != nil {
			return fail(err)
		}
		rules.InitialTokens = append(rules.InitialTokens, sha256.Sum256([]byte(token)))
	}
	s.Open.Registration, s.Open.RegistrationScopes = rules, oauth.Scopes(c.Scopes)
	return nil
}
