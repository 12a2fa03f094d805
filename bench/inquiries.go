package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// inquiries asks about tokens, the same ones in turn, and revokes tokens, each once.
func (b *bench) inquiries() error {
	ours, err := b.ours(setup{})
	if err != nil {
		return err
	}
	asked, err := b.obtain(ours, min(1000, b.tokens))
	if err != nil {
		return err
	}
	introspect := aboutTokens(ours, "/oauth/introspect", asked)
	introspect.Response = func(_ int, r *load.Response) error {
		if len(r.Body) <= len(`{"active":false}`) {
			return fmt.Errorf("the token is not active: %s", r.Body)
		}
		return nil
	}
	revoke := func(count int) (load.Load, error) {
		tokens, err := b.obtain(ours, count)
		return aboutTokens(ours, "/oauth/revoke", tokens), err
	}
	const introspection, revocation = "introspection", "revocation"
	outs, err := b.compare(
		side{name: introspection, on: ours, load: introspect},
		side{name: "introspection again (control)", against: introspection, on: ours, load: introspect},
		side{name: revocation, on: ours, prepare: revoke, requests: b.requests / 2},
		side{name: "revocation, 64 connections", on: ours, prepare: revoke, requests: b.requests / 2, conns: manyConns},
	)
	if err != nil {
		return err
	}
	b.atLeast(introspection, 20_000, outs.named(introspection).rate(), 0, "a second")
	b.atLeast(revocation, 7000, outs.named(revocation).rate(), 0, "a second")
	return nil
}

// aboutTokens sends the tokens in turn to an endpoint.
func aboutTokens(s *server, path string, tokens []string) load.Load {
	requests := make([][]byte, len(tokens))
	for i, token := range tokens {
		requests[i] = post(s.Issuer, path, clientID, url.Values{"token": {token}}.Encode())
	}
	return load.Load{Addr: s.Issuer, Status: http.StatusOK, Request: load.InTurn(requests)}
}
