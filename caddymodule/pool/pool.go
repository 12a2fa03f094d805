// Package pool keeps values that outlive a reload of the configuration: databases, connections and fetched documents. Configurations
// with the same settings share a value. The last release ends it.
package pool

import "github.com/caddyserver/caddy/v2"

// Pool holds values by the settings that make a difference to them. Keys have to be comparable.
type Pool[T any] struct {
	things *caddy.UsagePool
	end    func(T) error
}

// New returns an empty pool. end is called with a value after its last release.
func New[T any](end func(T) error) *Pool[T] { return &Pool[T]{caddy.NewUsagePool(), end} }

// Use is one use of a value.
type Use[T any] struct {
	Value T

	pool *Pool[T]
	key  any
}

// thing is a value in caddy.UsagePool.
type thing[T any] struct {
	value T
	end   func(T) error
}

// Destruct ends the value.
func (t thing[T]) Destruct() error { return t.end(t.value) }

// Take returns a use of the value with a key, and creates the value if it is not in use. Each use has to be released.
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
	return &Use[T]{Value: taken.(thing[T]).value, pool: p, key: key}, nil // the pool has no others
}

// Release ends the use. After the last one it ends the value and returns the error of that. It accepts a nil Use.
func (u *Use[T]) Release() error {
	if u == nil {
		return nil
	}
	_, err := u.pool.things.Delete(u.key)
	return err
}

// All returns the values in use, in no order.
func (p *Pool[T]) All() (all []T) {
	p.things.Range(func(_, value any) bool {
		if t, ok := value.(thing[T]); ok {
			all = append(all, t.value)
		}
		return true
	})
	return all
}
