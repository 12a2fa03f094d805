package configuration

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Tokens holds lifetimes: of access tokens by the grant that they come from, 1s to 35 days, and of what they are
// refreshed or exchanged with.
type Tokens struct {
	// AuthorizationCode: default 6h. It is also the life of a browser session's own token.
	AuthorizationCode caddy.Duration `json:"authorization_code,omitempty"`
	// ClientCredentials: default 2h.
	ClientCredentials caddy.Duration `json:"client_credentials,omitempty"`
	// Password: default 28d.
	Password caddy.Duration `json:"password,omitempty"`
	// AdminCreated: default 28d.
	AdminCreated caddy.Duration `json:"admin_created,omitempty"`
	// Refresh is how long after the sign-in tokens can be refreshed, however often they are: 1s to 400 days, default 90d.
	Refresh caddy.Duration `json:"refresh,omitempty"`
	// RefreshIdle is how long may lie between two refreshes: 1s to 400 days, default 30d.
	RefreshIdle caddy.Duration `json:"refresh_idle,omitempty"`
	// RefreshGrace is how long after its use a refresh token gives the same successor again, to a client whose answer was
	// lost: at most 5m, default 30s. 0 turns it off: then a client that repeats a refresh loses all of its tokens.
	RefreshGrace *caddy.Duration `json:"refresh_grace,omitempty"`
	// RefreshGraceSameAddress makes a repeat within the grace a reuse too, when it comes from another address or by another
	// family of user agents than the refresh. Default: it is served, with a warning in the audit log.
	RefreshGraceSameAddress bool `json:"refresh_grace_same_address,omitempty"`
	// Code is how long an authorization code can be redeemed: 1s to 10m, default 60s.
	Code caddy.Duration `json:"code,omitempty"`
}

// tokensOption is a block of lifetimes, the issuer's or a client's:
//
//	tokens {
//		authorization_code | client_credentials | password | admin_created <duration>
//		refresh | refresh_idle | code <duration>
//		refresh_grace <duration> [same_address] | 0
//	}
func tokensOption(tokens **Tokens) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		c := orNew(tokens)
		return options{
			"authorization_code": c.lifetime(&c.AuthorizationCode), "client_credentials": c.lifetime(&c.ClientCredentials),
			"password": c.lifetime(&c.Password), "admin_created": c.lifetime(&c.AdminCreated), "code": c.lifetime(&c.Code),
			"refresh": c.lifetime(&c.Refresh), "refresh_idle": c.lifetime(&c.RefreshIdle), "refresh_grace": c.parseRefreshGrace,
		}.parseAlone(d, "unknown token lifetime %q")
	}
}

func (c *Tokens) lifetime(value *caddy.Duration) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if err := parseOnce(d, value); err != nil {
			return err
		}
		if *value == 0 {
			return d.Errf("token lifetime %s 0s: use at least 1s", name)
		}
		return c.check(d)
	}
}

// parseRefreshGrace reads a duration, of which 0 says something, and who may repeat a refresh within it.
func (c *Tokens) parseRefreshGrace(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "refresh_grace", c.RefreshGrace != nil); err != nil {
		return err
	}
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	grace, err := setting.DurationOf(d, args[0])
	if err != nil {
		return err
	}
	if len(args) == 2 && args[1] != "same_address" {
		return d.Errf("unknown option %q of refresh_grace: use same_address", args[1])
	}
	duration := caddy.Duration(grace)
	c.RefreshGrace, c.RefreshGraceSameAddress = &duration, len(args) == 2
	return c.check(d)
}

func (c *Tokens) check(d *caddyfile.Dispenser) error {
	if _, err := c.lifetimes(); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}

// lifetimes returns the core's form of what is set, and refuses what is out of bounds.
func (c *Tokens) lifetimes() (store.Lifetimes, error) {
	if c == nil {
		return store.Lifetimes{}, nil
	}
	l := store.Lifetimes{
		AuthorizationCode: time.Duration(c.AuthorizationCode),
		ClientCredentials: time.Duration(c.ClientCredentials),
		Password:          time.Duration(c.Password),
		AdminCreated:      time.Duration(c.AdminCreated),
		Refresh:           time.Duration(c.Refresh),
		RefreshIdle:       time.Duration(c.RefreshIdle),
		Code:              time.Duration(c.Code),
		SameAddress:       c.RefreshGraceSameAddress,
	}
	if c.RefreshGrace != nil {
		switch grace := time.Duration(*c.RefreshGrace); {
		case grace < 0:
			return l, errors.New("token lifetime refresh_grace: use 0 to 5m")
		case grace == 0 && c.RefreshGraceSameAddress:
			return l, errors.New("token lifetime refresh_grace: 0 refuses every repeat, leave same_address out")
		case grace == 0:
			l.RefreshGrace = store.NoGrace
		default:
			l.RefreshGrace = grace
		}
	}
	return l, l.Validate()
}

// ReadLifetimes reads a `tokens` block in JSON.
func ReadLifetimes(block jsontext.Value) (store.Lifetimes, error) {
	var c Tokens
	if err := json.Unmarshal(block, &c, json.RejectUnknownMembers(true)); err != nil {
		return store.Lifetimes{}, fmt.Errorf("the request: %w", err)
	}
	return c.lifetimes()
}

func (b *Block) readTokens(s *Settings) error {
	own, err := b.Tokens.lifetimes()
	s.Lifetimes = own.Or(store.DefaultLifetimes)
	return err
}

// parsePasswordGrant reads `password_grant { refresh_tokens }`.
func (b *Block) parsePasswordGrant(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "password_grant", b.PasswordGrant != nil); err != nil {
		return err
	}
	b.PasswordGrant = new(tokenissuer.PasswordRules)
	return options{"refresh_tokens": flag(&b.PasswordGrant.Refresh)}.parseAlone(d, "unknown password_grant option %q")
}
