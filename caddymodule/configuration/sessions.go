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
	// Idle is how long a session may rest: 10m to 400 days, and no longer than Max. Default: 7d, or Max if that is shorter.
	Idle caddy.Duration `json:"idle,omitempty"`
	// Max is how long a session lives at most, however often it is used: 10m to 400 days. Default: 30d.
	Max caddy.Duration `json:"max,omitempty"`
}

// parseSessions reads `sessions`:
//
//	sessions {
//		idle <duration>
//		max  <duration>
//	}
func (b *Block) parseSessions(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "sessions", b.Sessions != nil); err != nil {
		return err
	}
	b.Sessions = new(Sessions)
	b.note(d, "sessions")
	return options{"idle": b.Sessions.lifetime(&b.Sessions.Idle), "max": b.Sessions.lifetime(&b.Sessions.Max)}.
		parseAlone(d, "unknown sessions option %q")
}

func (c *Sessions) lifetime(value *caddy.Duration) func(*caddyfile.Dispenser) error {
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

func (b *Block) readSessions(s *Settings) error {
	if b.Sessions == nil {
		return nil
	}
	s.Sessions = signin.Limits{Idle: time.Duration(b.Sessions.Idle), Max: time.Duration(b.Sessions.Max)}
	return b.at(s.Sessions.Validate(), "sessions")
}
