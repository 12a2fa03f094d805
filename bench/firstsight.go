package main

import "github.com/gatehouse-auth/gatehouse/bench/internal/load"

// firstSight shows each token to a gate once. Two nodes share a PostgreSQL and an issuer.
func (b *bench) firstSight() error {
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	alone, err := b.ours(setup{})
	if err != nil {
		return err
	}
	one, other, err := b.twoNodes()
	if err != nil {
		return err
	}
	fresh := func(from *server, at string) func(int) (load.Load, error) {
		return func(count int) (load.Load, error) {
			tokens, err := b.obtain(from, count)
			return orders(at, tokens), err
		}
	}
	const base = "bare Caddy"
	requests := max(200, b.requests/2)
	outs, err := b.compare(
		side{name: base, on: bare, requests: requests, prepare: fresh(alone, bare.Bare)},
		side{name: "bare Caddy again (control)", against: base, on: bare, requests: requests, prepare: fresh(alone, bare.BareAgain)},
		side{name: "issued here, SQLite", against: base, on: alone, requests: requests, prepare: fresh(alone, alone.Protected)},
		side{name: "issued here, PostgreSQL", against: base, on: one, requests: requests, prepare: fresh(one, one.Protected)},
		side{name: "issued by the other node", against: base, on: other, requests: requests, prepare: fresh(one, other.Protected)},
	)
	if err != nil {
		return err
	}
	b.atMost("own tokens at first sight, same node: CPU per request", 1.05, outs.ratio("issued here, SQLite", cpuOf), 3, "of bare")
	return nil
}

// twoNodes start on one empty database.
func (b *bench) twoNodes() (one, other *server, err error) {
	s, err := b.onPostgres()
	if err != nil {
		return nil, nil, err
	}
	if one, err = b.ours(s); err != nil {
		return nil, nil, err
	}
	s.issuer = "http://" + one.Issuer
	other, err = b.ours(s)
	return one, other, err
}

// onPostgres is a server on an empty database.
func (b *bench) onPostgres() (setup, error) {
	database, err := b.database()
	if err != nil {
		return setup{}, err
	}
	dsn, err := database.Database()
	return setup{store: "postgres " + dsn}, err
}
