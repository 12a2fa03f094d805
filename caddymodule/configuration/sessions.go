package configuration

import (
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// Sessions are the lifetimes of the sessions of browsers, at the issuer and at the hosts behind the gate.
type Sessions struct {
	// Idle is how long a session lives without being used: 10m to 400 days, and no longer than Max. Default: 7d, or Max if that is shorter.
	Idle caddy.Duration `json:"idle,omitempty"`
	// Max is how long a session lives at most: 10m to 400 days. Default: 30d.
	Max caddy.Duration `json:"max,omitempty"`
}

// parseSessions reads `sessions`:
//
//	sessions {
//		idle <duration>
//		max  <duration>
//	}
func parseSessions(d *caddyfile.Dispenser, sessions **Sessions, at *Sources) error {
	if err := setting.Once(d, "sessions", *sessions != nil); err != nil {
		return err
	}
	at.note(d, "sessions")
	c := orNew(sessions)
	return options{"idle": sessionLimit(&c.Idle), "max": sessionLimit(&c.Max)}.parseAlone(d, "unknown sessions option %q")
}

// sessionLimit is the option for a lifetime of sessions.
func sessionLimit(value *caddy.Duration) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if err := parseOnce(d, value); err != nil {
			return err
		}
		if err := signin.CheckLimit(name, time.Duration(*value)); err != nil {
			return d.Errf("%v", err)
		}
		return nil
	}
}

func (c *Sessions) read(s *Settings, at *Sources) error {
	if c == nil {
		return nil
	}
	s.Issuer.Sessions = signin.Limits{Idle: time.Duration(c.Idle), Max: time.Duration(c.Max)}
	return at.At(s.Issuer.Sessions.Validate(), "sessions")
}
