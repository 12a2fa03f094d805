package configuration

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
)

// Revocation bounds the age of the known revocations.
type Revocation struct {
	// MaxStaleness is how old the known revocations may become while the store cannot be read. Then gates answer 503. Default 5m.
	MaxStaleness caddy.Duration `json:"max_staleness,omitempty"`
}

const (
	defaultStaleness = 5 * time.Minute
	leastStaleness   = 2 * time.Second
)

// parseRevocation reads `revocation { max_staleness <duration> }`.
func parseRevocation(d *caddyfile.Dispenser, revocation **Revocation, _ *Sources) error {
	return options{"max_staleness": orNew(revocation).parseMaxStaleness}.parseAlone(d, "unknown revocation option %q")
}

func (c *Revocation) parseMaxStaleness(d *caddyfile.Dispenser) error {
	err := parseOnce(d, &c.MaxStaleness)
	if staleness := time.Duration(c.MaxStaleness); err == nil && staleness < leastStaleness {
		err = d.Errf("max_staleness %s: use at least %s, for the store is read once a second", staleness, leastStaleness)
	}
	return err
}

func (c *Revocation) read(s *Settings) error {
	s.Node.MaxStaleness = defaultStaleness
	if c != nil && c.MaxStaleness != 0 {
		s.Node.MaxStaleness = time.Duration(c.MaxStaleness)
	}
	if s.Node.MaxStaleness < leastStaleness {
		return fmt.Errorf("max_staleness: use at least %s, for the store is read once a second", leastStaleness)
	}
	return nil
}

// Limits bound failed attempts, and requests that leave records in the store.
type Limits struct {
	// Client bounds failed client authentications from one address as one client. Default 20 a minute.
	Client *Limit `json:"client,omitempty"`
	// LoginAccount bounds failed sign-ins to one account, on the sign-in page and with the password grant together.
	// Default 10 a minute. A browser that has signed in to the account before has a count of its own.
	LoginAccount *Limit `json:"login_account,omitempty"`
	// LoginAddress bounds failed sign-ins from one address to all accounts together. Default 30 a minute.
	LoginAddress *Limit `json:"login_ip,omitempty"`
	// Grants bounds how often one user is granted access in each way: by authorization requests, by the password grant and by
	// browser sign-ins. It also bounds how many tokens one admin creates for members. Default 60 a minute.
	Grants *Limit `json:"grants,omitempty"`
	// Revocations bounds how many of its own tokens a client revokes one by one. Beyond it, revoking a token also ends those that were
	// issued before. Default 60 a minute.
	Revocations *Limit `json:"revocations,omitempty"`
}

// Limit is a number of failures, grants or revocations within a window.
type Limit struct {
	// Off removes the limit.
	Off bool `json:"off,omitempty"`
	// Failures is the number that a window allows.
	Failures int `json:"failures,omitempty"`
	// Window begins with the first failure.
	Window caddy.Duration `json:"window,omitempty"`
}

// The default limits.
var (
	defaultClientLimit     = attempts.Limit{Failures: 20, Window: time.Minute}
	defaultAccountLimit    = attempts.Limit{Failures: 10, Window: time.Minute}
	defaultAddressLimit    = attempts.Limit{Failures: 30, Window: time.Minute}
	defaultGrantLimit      = attempts.Limit{Failures: 60, Window: time.Minute}
	defaultRevocationLimit = attempts.Limit{Failures: 60, Window: time.Minute}
)

// parseLimits reads:
//
//	limits {
//		client      <failures>/<window> per ip | off
//		login       <failures>/<window> per account|ip
//		login       off
//		grants      <grants>/<window> per user | off
//		revocations <revocations>/<window> per client | off
//	}
func parseLimits(d *caddyfile.Dispenser, limits **Limits, _ *Sources) error {
	c := orNew(limits)
	return options{
		"client":      oneLimit(&c.Client, "20/1m", "ip"),
		"login":       c.parseLogin,
		"grants":      oneLimit(&c.Grants, "60/1m", "user"),
		"revocations": oneLimit(&c.Revocations, "60/1m", "client"),
	}.parseAlone(d, "unknown limit %q")
}

// oneLimit is the option for a limit with one line, as in the example.
func oneLimit(limit **Limit, example, per string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) (err error) {
		name := d.Val()
		if err := setting.Once(d, "limits "+name, *limit != nil); err != nil {
			return err
		}
		*limit, _, err = parseLimit(d, fmt.Sprintf("write a limit as `%s %s per %s`, or as `%s off`", name, example, per, name), per)
		return err
	}
}

func (c *Limits) parseLogin(d *caddyfile.Dispenser) error {
	limit, per, err := parseLimit(d, "write limits as `login 10/1m per account` and `login 30/1m per ip`, or as `login off`", "account", "ip")
	if err != nil {
		return err
	}
	for _, login := range []struct {
		per   string
		limit **Limit
	}{{"account", &c.LoginAccount}, {"ip", &c.LoginAddress}} {
		if per != "" && per != login.per { // off is for both
			continue
		}
		if err := setting.Once(d, "limits login per "+login.per, *login.limit != nil); err != nil {
			return err
		}
		*login.limit = limit
	}
	return nil
}

// parseLimit reads `<number>/<window> per …`, or `off`, for which per is empty.
func parseLimit(d *caddyfile.Dispenser, usage string, known ...string) (limit *Limit, per string, err error) {
	args := d.RemainingArgs()
	if len(args) == 1 && args[0] == "off" {
		return &Limit{Off: true}, "", nil
	}
	if len(args) != 3 || !strings.Contains(args[0], "/") || args[1] != "per" || !slices.Contains(known, args[2]) {
		return nil, "", d.Errf("%s", usage)
	}
	count, window, _ := strings.Cut(args[0], "/")
	failures, err := strconv.Atoi(count)
	if err != nil || failures < 1 {
		return nil, "", d.Errf("%q is no number", count)
	}
	duration, err := caddy.ParseDuration(window)
	if err != nil || duration < time.Second {
		return nil, "", d.Errf("%q is no window: write it as 30s, 1m or 1h", window)
	}
	return &Limit{Failures: failures, Window: caddy.Duration(duration)}, args[2], nil
}

func (c *Limits) read(limits *attempts.Limits) (err error) {
	if c == nil {
		c = new(Limits)
	}
	for _, l := range []struct {
		name       string
		configured *Limit
		otherwise  attempts.Limit
		limit      *attempts.Limit
	}{
		{"client", c.Client, defaultClientLimit, &limits.ClientLimit},
		{"login_account", c.LoginAccount, defaultAccountLimit, &limits.AccountLimit},
		{"login_ip", c.LoginAddress, defaultAddressLimit, &limits.AddressLimit},
		{"grants", c.Grants, defaultGrantLimit, &limits.GrantLimit},
		{"revocations", c.Revocations, defaultRevocationLimit, &limits.RevocationLimit},
	} {
		if *l.limit, err = l.configured.read(l.otherwise); err != nil {
			return fmt.Errorf("limits %s: %w", l.name, err)
		}
	}
	return nil
}

func (c *Limit) read(otherwise attempts.Limit) (attempts.Limit, error) {
	switch {
	case c == nil:
		return otherwise, nil
	case c.Off:
		return attempts.Limit{}, nil
	case c.Failures < 1 || c.Window < caddy.Duration(time.Second):
		return otherwise, errors.New("use a number and a window of at least 1s, as in 20/1m, or off")
	}
	return attempts.Limit{Failures: c.Failures, Window: time.Duration(c.Window)}, nil
}
