package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

const (
	// manyConns is a busy moment.
	manyConns = 64
	fsyncs    = 400
)

// durableGoals are what refreshes and code exchanges should reach, steps a second, by store and connections.
var durableGoals = []struct {
	store string
	conns int
	goal  float64 // 0: none
}{{"SQLite", 1, 0}, {"SQLite", 16, 7000}, {"SQLite", manyConns, 15_000}, {"PostgreSQL", 16, 3000}, {"PostgreSQL", manyConns, 0}}

// refresh rotates the refresh tokens of as many families as there are connections.
func (b *bench) refresh() error {
	return b.durable("refresh", func(s *server) (func(int) (load.Load, error), error) {
		chains, err := b.chains(s, manyConns)
		rotation := rotate(s, chains)
		return func(int) (load.Load, error) { return rotation, nil }, err
	})
}

// codes exchanges codes. A person has signed in once, and every code is made before its time is taken.
func (b *bench) codes() error {
	return b.durable("code exchange", func(s *server) (func(int) (load.Load, error), error) {
		p, err := signIn(b.ctx, s)
		return func(count int) (load.Load, error) {
			codes, err := b.authorize(s, p, count)
			return redeem(s, codes), err
		}, err
	})
}

// durable measures a step of which each is on the disk before its answer, on both stores.
func (b *bench) durable(what string, begin func(*server) (func(int) (load.Load, error), error)) error {
	onPostgres, err := b.onPostgres()
	if err != nil {
		return err
	}
	steps := make(map[string]func(int) (load.Load, error))
	servers := make(map[string]*server)
	for store, s := range map[string]setup{"SQLite": {}, "PostgreSQL": onPostgres} {
		if servers[store], err = b.ours(s); err != nil {
			return err
		}
		if steps[store], err = begin(servers[store]); err != nil {
			return err
		}
	}
	var sides []side
	name := func(store string, conns int) string {
		return fmt.Sprintf("%s, %s, connections: %d", what, store, conns)
	}
	for _, g := range durableGoals {
		s := side{name: name(g.store, g.conns), on: servers[g.store], prepare: steps[g.store], conns: g.conns, requests: b.requests / 2}
		if g.conns == 1 {
			s.requests = max(50, b.requests/16)
		}
		sides = append(sides, s)
	}
	control := sides[1]
	control.name, control.against = control.name+" again (control)", sides[1].name
	fsync, err := fsyncTime(servers["SQLite"].dir, fsyncs)
	if err != nil {
		return err
	}
	outs, err := b.compare(append(sides, control)...)
	if err != nil {
		return err
	}
	table := b.report.Table("", "a second", "times one fsync")
	for _, o := range outs {
		table.Row(o.name, median(o.costs, rateOf, 0), report.Number(stats.MedianOf(o.costs, rateOf)*fsync.Seconds(), 1))
	}
	table.Row("write 4 KiB and fsync, alone", report.Number(1/fsync.Seconds(), 0), report.Number(1, 1))
	for _, g := range durableGoals {
		if g.goal > 0 {
			b.atLeast(name(g.store, g.conns), g.goal, outs.named(name(g.store, g.conns)).rate(), 0, "a second")
		}
	}
	return nil
}

// chains begins families, and returns a refresh token of each.
func (b *bench) chains(s *server, count int) ([]string, error) {
	form := url.Values{"grant_type": {"password"}, "email": {quickEmail}, "password": {userPassword}}
	tokens := make([]string, count)
	begin := load.Load{
		Addr: s.Issuer, Status: http.StatusOK, Request: load.Constant(tokenForm(s.Issuer, clientID, form)),
		Response: func(i int, r *load.Response) error {
			var err error
			tokens[i], err = refreshTokenIn(r.Body)
			return err
		},
	}
	_, err := begin.Send(b.ctx, 1, count)
	return tokens, err
}

// rotate takes a token that nobody is using, and puts its successor back.
func rotate(s *server, tokens []string) load.Load {
	free := make(chan string, len(tokens))
	for _, token := range tokens {
		free <- token
	}
	return load.Load{
		Addr: s.Issuer, Status: http.StatusOK,
		Request: func(_ int, scratch []byte) []byte {
			form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {<-free}}
			return append(scratch, tokenForm(s.Issuer, clientID, form)...)
		},
		Response: func(_ int, r *load.Response) error {
			token, err := refreshTokenIn(r.Body)
			free <- token
			return err
		},
	}
}

// authorize gets codes for a person who is signed in: the portal is first-party, so no page stands between.
func (b *bench) authorize(s *server, p person, count int) ([]string, error) {
	codes := make([]string, count)
	request := []byte("GET " + authorizePath + " HTTP/1.1\r\nHost: " + s.Issuer + "\r\nUser-Agent: bench/1\r\nCookie: " + p.cookies + "\r\n\r\n")
	l := load.Load{
		Addr: s.Issuer, Status: http.StatusSeeOther, Request: load.Constant(request),
		Response: func(i int, r *load.Response) error {
			location, err := url.Parse(r.Get("Location"))
			if err != nil {
				return err
			}
			if codes[i] = location.Query().Get("code"); codes[i] == "" {
				return fmt.Errorf("no code in %s", location)
			}
			return nil
		},
	}
	_, err := l.Send(b.ctx, b.conns, count)
	return codes, err
}

// redeem exchanges each code once.
func redeem(s *server, codes []string) load.Load {
	requests := make([][]byte, len(codes))
	for i, code := range codes {
		requests[i] = tokenForm(s.Issuer, portalID, url.Values{
			"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {codeVerifier},
		})
	}
	return load.Load{
		Addr: s.Issuer, Status: http.StatusOK, Request: load.InTurn(requests),
		Response: func(_ int, r *load.Response) error {
			if !strings.Contains(string(r.Body), `"refresh_token":`) {
				return errors.New("the answer holds no refresh_token")
			}
			return nil
		},
	}
}

// fsyncTime is what the disk under dir takes to make 4 KiB durable.
func fsyncTime(dir string, count int) (time.Duration, error) {
	file, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, 4<<10)
	start := time.Now()
	for range count {
		if _, err := file.WriteAt(page, 0); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(count), nil
}
