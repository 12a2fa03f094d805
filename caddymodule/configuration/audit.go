package configuration

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/auditlog"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

// Audit keeps the events of the audit log in the store, where `caddy oauth audit` finds them.
type Audit struct {
	// Keep is how long an event is kept, from 1h to 10 years. Default 30d.
	Keep caddy.Duration `json:"keep,omitempty"`
	// MaxEvents is how many events are kept, from 1000 to 10000000: the oldest go first. Default 1000000.
	MaxEvents int `json:"max_events,omitempty"`
}

// The bounds of Audit.
const (
	defaultAuditKeep        = 30 * 24 * time.Hour
	leastKeep, mostKeep     = time.Hour, 10 * 366 * 24 * time.Hour
	defaultEvents           = 1_000_000
	leastEvents, mostEvents = 1000, 10_000_000
)

// parseAudit reads:
//
//	audit {
//		keep       <duration>
//		max_events <number>
//	}
func parseAudit(d *caddyfile.Dispenser, configured **Audit, at *Sources) error {
	at.note(d, "audit")
	if err := setting.Once(d, "audit", *configured != nil); err != nil {
		return err
	}
	c := orNew(configured)
	return options{
		"keep":       func(d *caddyfile.Dispenser) error { return parsePositive(d, &c.Keep) },
		"max_events": c.parseMaxEvents,
	}.parseAlone(d, "unknown audit option %q")
}

func (c *Audit) parseMaxEvents(d *caddyfile.Dispenser) error {
	if err := setting.Once(d, "max_events", c.MaxEvents != 0); err != nil {
		return err
	}
	var text string
	if err := setting.Text(d, &text); err != nil {
		return err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return d.Errf("%q is no number", text)
	}
	c.MaxEvents = n
	return nil
}

func (c *Audit) read(s *Settings, at *Sources) error {
	if c == nil {
		return nil
	}
	s.Node.Audit = auditlog.Retention{
		Keep: cmp.Or(time.Duration(c.Keep), defaultAuditKeep), MaxEvents: cmp.Or(c.MaxEvents, defaultEvents),
	}
	switch r := s.Node.Audit; {
	case r.Keep < leastKeep || r.Keep > mostKeep:
		return at.At(fmt.Errorf("audit keep %s: use 1h to 10 years", r.Keep), "audit")
	case r.MaxEvents < leastEvents || r.MaxEvents > mostEvents:
		return at.At(fmt.Errorf("audit max_events %d: use %d to %d", r.MaxEvents, leastEvents, mostEvents), "audit")
	}
	return nil
}
