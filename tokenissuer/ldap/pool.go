package ldap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maxIdle is how long an idle connection is kept. Directories and firewalls drop idle connections.
const maxIdle = time.Minute

// pool keeps connections that are bound to the service account, or anonymous ones if there is none. They were never bound to a person.
// There are at most as many as concurrent sign-ins.
type pool struct {
	plan *plan

	mu     sync.Mutex
	idle   []*connection // the most recently used one is last
	closed bool
}

// run calls ask with a connection. If an idle connection turns out to be broken, it calls ask again with a new one.
func (p *pool) run(ctx context.Context, ask func(*connection) error) error {
	if c := p.take(); c != nil {
		err := ask(c)
		if !errors.Is(err, errBroken) {
			p.put(c)
			return err
		}
		c.close()
		if errors.Is(err, errTimeout) {
			return err
		}
	}
	c, err := p.connect(ctx)
	if err != nil {
		return err
	}
	err = ask(c)
	if errors.Is(err, errBroken) {
		c.close()
		return err
	}
	p.put(c)
	return err
}

// connect opens a connection and binds it to the service account.
func (p *pool) connect(ctx context.Context) (*connection, error) {
	c, err := p.plan.dial(ctx)
	if err != nil {
		return nil, err
	}
	if p.plan.BindDN != "" {
		if err := c.bind(ctx, p.plan.BindDN, p.plan.BindPassword); err != nil {
			c.close()
			return nil, fmt.Errorf("bind as %s: %w", p.plan.BindDN, withoutReferral(err))
		}
	}
	return c, nil
}

// take returns an idle connection, or nil. It closes those that were idle for too long.
func (p *pool) take() *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.plan.Now()
	for len(p.idle) > 0 && now.Sub(p.idle[0].idleSince) > maxIdle {
		p.idle[0].close()
		p.idle = p.idle[1:]
	}
	if len(p.idle) == 0 {
		return nil
	}
	last := len(p.idle) - 1
	c := p.idle[last]
	p.idle = p.idle[:last]
	return c
}

func (p *pool) put(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.close()
		return
	}
	c.idleSince = p.plan.Now()
	p.idle = append(p.idle, c)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.close()
	}
	p.idle = nil
}
