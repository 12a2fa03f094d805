// Package pool keeps what outlives a reload of the configuration: databases, connections, and what was learned of others. Configurations
// with the same settings share a thing; the last of them to let go ends it.
package pool

import "github.com/caddyserver/caddy/v2"

// Pool has things of one kind, by all of the settings that make a difference to them. A key has to be comparable.
type Pool[T any] struct {
	things *caddy.UsagePool
	end    func(T) error
}

// New returns an empty pool, whose things are ended so.
func New[T any](end func(T) error) *Pool[T] { return &Pool[T]{caddy.NewUsagePool(), end} }

// Use is a configuration's use of a thing.
type Use[T any] struct {
	Value T

	pool *Pool[T]
	key  any
}

// thing is what the pool knows of.
type thing[T any] struct {
	value T
	end   func(T) error
}

// Destruct ends the thing.
func (t thing[T]) Destruct() error { return t.end(t.value) }

// Take returns the use of the thing with a key, which is made if nobody uses it. Each use has to be released.
func (p *Pool[T]) Take(key any, create func() (T, error)) (*Use[T], error) {
	taken, _, err := p.things.LoadOrNew(key, func() (caddy.Destructor, error) {
		value, err := create()
		if err != nil {
			return nil, err
		}
		return thing[T]{value, p.end}, nil
	})
	if err != nil {
		return nil, err
	}
	return &Use[T]{Value: taken.(thing[T]).value, pool: p, key: key}, nil //nolint:forcetypeassert // the pool has no others
}

// Release ends the use, and with the last one the thing. It returns the error of that end. A nil Use is of nothing.
func (u *Use[T]) Release() error {
	if u == nil {
		return nil
	}
	_, err := u.pool.things.Delete(u.key)
	return err
}

// All returns the things in use, in no order.
func (p *Pool[T]) All() (all []T) {
	p.things.Range(func(_, value any) bool {
		if t, ok := value.(thing[T]); ok {
			all = append(all, t.value)
		}
		return true
	})
	return all
}
