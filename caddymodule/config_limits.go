package caddymodule

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// RevocationConfig says how revocations reach the gate.
type RevocationConfig struct {
	// MaxStaleness is how old the gate's knowledge of revocations may become, when the store cannot be read, before it
	// answers 503. Default 5m.
	MaxStaleness caddy.Duration `json:"max_staleness,omitempty"`
}

const (
	defaultStaleness = 5 * time.Minute
	leastStaleness   = 2 * time.Second
)

// LimitsConfig bounds failed attempts, and what leaves records in the store.
type LimitsConfig struct {
	// Client bounds failed client authentications from one address as one client. Default 20 a minute.
	Client *LimitConfig `json:"client,omitempty"`
	// LoginAccount bounds failed sign-ins to one account, on the sign-in page and with the password grant together.
	// Default 10 a minute. A browser that has signed in to the account before has a count of its own.
	LoginAccount *LimitConfig `json:"login_account,omitempty"`
	// LoginAddress bounds failed sign-ins from one address, whatever the accounts. Default 30 a minute.
	LoginAddress *LimitConfig `json:"login_ip,omitempty"`
	// Grants bounds how often one user is granted access in one way: by authorization requests, by the password grant, by signing
	// in with a browser; and how many tokens one admin creates for members. Each leaves records in the store. Default 60 a
	// minute.
	Grants *LimitConfig `json:"grants,omitempty"`
	// Revocations bounds how many of the tokens that it got for itself a client revokes one by one, each of which leaves a record
	// in the store. Beyond it, revoking one ends those that were issued before as well. Default 60 a minute.
	Revocations *LimitConfig `json:"revocations,omitempty"`
	// Gate bounds the bad tokens that one address shows to `protect`. Beyond it, and only while others come through with good
	// ones, its refusals are held back, and then its connections are closed with them. Good tokens from there pass as ever.
	// Default 60 in 3 seconds.
	Gate *LimitConfig `json:"gate,omitempty"`
}

// LimitConfig is a number of failures, grants or revocations in a time.
type LimitConfig struct {
	// Off sets no limit.
	Off bool `json:"off,omitempty"`
	// Failures is how many there may be in a window.
	Failures int `json:"failures,omitempty"`
	// Window begins with the first of them.
	Window caddy.Duration `json:"window,omitempty"`
}

// The limits that hold unless the configuration says otherwise.
var (
	defaultClientLimit     = tokenissuer.Limit{Failures: 20, Window: time.Minute}
	defaultAccountLimit    = tokenissuer.Limit{Failures: 10, Window: time.Minute}
	defaultAddressLimit    = tokenissuer.Limit{Failures: 30, Window: time.Minute}
	defaultGrantLimit      = tokenissuer.Limit{Failures: 60, Window: time.Minute}
	defaultRevocationLimit = tokenissuer.Limit{Failures: 60, Window: time.Minute}
	defaultGateLimit       = tokenissuer.Limit{Failures: 600, Window: 3 * time.Second}
)

func (a *App) readLimits(s *settings) error {
	s.engine.staleness = defaultStaleness
	if a.Revocation != nil && a.Revocation.MaxStaleness != 0 {
		s.engine.staleness = time.Duration(a.Revocation.MaxStaleness)
		if s.engine.staleness < leastStaleness {
			return fmt.Errorf("max_staleness: use at least %s, for the store is read once a second", leastStaleness)
		}
	}
	limits := a.Limits
	if limits == nil {
		limits = new(LimitsConfig)
	}
	for _, l := range []struct {
		name       string
		configured *LimitConfig
		otherwise  tokenissuer.Limit
		limit      *tokenissuer.Limit
	}{
		{"client", limits.Client, defaultClientLimit, &s.clientLimit},
		{"login_account", limits.LoginAccount, defaultAccountLimit, &s.accountLimit},
		{"login_ip", limits.LoginAddress, defaultAddressLimit, &s.addressLimit},
		{"grants", limits.Grants, defaultGrantLimit, &s.grantLimit},
		{"revocations", limits.Revocations, defaultRevocationLimit, &s.revocationLimit},
	} {
		var err error
		if *l.limit, err = l.configured.read(l.otherwise); err != nil {
			return fmt.Errorf("limits %s: %w", l.name, err)
		}
	}
	return nil
}

// readGateLimit is for a gate without an issuer too.
func (a *App) readGateLimit(s *settings) (err error) {
	var configured *LimitConfig
	if a.Limits != nil {
		configured = a.Limits.Gate
	}
	if s.gateLimit, err = configured.read(defaultGateLimit); err != nil {
		return fmt.Errorf("limits gate: %w", err)
	}
	return nil
}

func (c *LimitConfig) read(otherwise tokenissuer.Limit) (tokenissuer.Limit, error) {
	switch {
	case c == nil:
		return otherwise, nil
	case c.Off:
		return tokenissuer.Limit{}, nil
	case c.Failures < 1 || c.Window < caddy.Duration(time.Second):
		return otherwise, errors.New("use a number and a window of at least 1s, as in 20/1m, or off")
	}
	return tokenissuer.Limit{Failures: c.Failures, Window: time.Duration(c.Window)}, nil
}
