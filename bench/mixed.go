package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// algorithms lists the algorithms of our own tokens, used one after the other, and of the other issuers. Our issuer
// keeps signing with the last.
var algorithms = []string{"RS256", "EdDSA", "ES256"}

// The composition of a hundred mixed requests. The rest carry known tokens.
const (
	mixedBad        = 2
	mixedFirst      = 10
	mixedQuestions  = 4
	mixedTokens     = 4
	mixedEverything = 100
	// mixedStride is coprime to a hundred, so any hundred consecutive requests hold each kind equally often.
	mixedStride = 37
)

// errand is a request of a mixed load with its expected response.
type errand struct {
	request []byte
	status  int
	body    string // must occur in the response
}

// mixed sends all kinds of requests at once to one site: known tokens of our own and of three other issuers in three
// algorithms, new tokens, bad ones, introspection, and token requests. The same connections carry all of them, as
// those of a load balancer do.
func (b *bench) mixed() {
	m, bare := b.newMixture(), b.bareCaddy(0)
	requests := max(500, b.requests/2)
	base := side{name: "bare Caddy", on: bare, requests: requests, prepare: func(count int) load.Load {
		errands := m.errands(count, bare.Bare)
		for i := range errands {
			errands[i].status, errands[i].body = http.StatusOK, ""
		}
		return send(bare.Bare, errands)
	}}
	mixed := side{name: "mixed", against: base.name, on: m.ours, requests: requests, prepare: func(count int) load.Load {
		return send(m.ours.Mixed, m.errands(count, m.ours.Mixed))
	}}
	many := mixed
	many.name, many.conns = "mixed, 64 connections", manyConns
	b.compare(base, base.again(),
		side{name: "known tokens alone", against: base.name, on: m.ours, requests: requests, load: orders(m.ours.Mixed, m.known)},
		mixed, many)
	b.report.Note("Of a hundred requests %d show a bad token, %d one at first sight, %d ask about a token, %d ask for one, and the rest show %d known tokens of %d issuers.",
		mixedBad, mixedFirst, mixedQuestions, mixedTokens, len(m.known), 1+len(m.setup.trusted))
}

// mixture holds the parts that mixed makes requests from.
type mixture struct {
	*bench
	ours     *server
	setup    setup
	known    []string
	owned    []string // those of known that are our own
	bad      []badToken
	shown    int // how many known tokens have been sent
	badSoFar int
}

// newMixture starts the other issuers and a server that has signed with each algorithm, and obtains the known tokens.
func (b *bench) newMixture() *mixture {
	m := &mixture{bench: b}
	for range algorithms {
		m.setup.trusted = append(m.setup.trusted, b.startProvider(0))
	}
	m.ours = b.ours(m.setup)
	m.obtainKnown(max(1, b.tokens/(2*len(algorithms))))
	m.bad = m.badTokens()
	b.send(orders(m.ours.Mixed, m.known), len(m.known)) // caches them
	return m
}

// obtainKnown obtains each tokens of every kind, our own and others', and interleaves them.
func (m *mixture) obtainKnown(each int) {
	var kinds [][]string
	for i, algorithm := range algorithms {
		own := m.own(algorithm, each)
		m.owned = append(m.owned, own...)
		kinds = append(kinds, own, m.setup.trusted[i].tokens(algorithm, each))
	}
	m.known = inTurn(kinds)
}

// own obtains tokens of our own, signed with the algorithm.
func (m *mixture) own(algorithm string, count int) []string {
	m.signWith(m.ours, m.setup, algorithm)
	tokens := m.obtain(m.ours, count)
	header := must(base64.RawURLEncoding.DecodeString(tokens[0][:strings.IndexByte(tokens[0], '.')]))
	if !bytes.Contains(header, []byte(`"alg":"`+algorithm+`"`)) {
		check(fmt.Errorf("a token that was to be signed with %s has the header %s", algorithm, header))
	}
	return tokens
}

// badTokens returns bad tokens of our own issuer and of the others.
func (m *mixture) badTokens() []badToken {
	bad, _ := m.bench.badTokens(m.ours, m.setup.trusted[0])
	bad = slices.DeleteFunc(bad, func(t badToken) bool { return t.name == "oversize" })
	for i, algorithm := range algorithms {
		bad = append(bad, forged(m.setup.trusted[i], algorithm))
	}
	return bad
}

// errands returns count requests to a site, with all kinds interleaved.
func (m *mixture) errands(count int, site string) []errand {
	fresh := m.fresh(count * mixedFirst / mixedEverything)
	errands := make([]errand, count)
	for i := range errands {
		switch kind := i * mixedStride % mixedEverything; {
		case kind < mixedBad:
			errands[i] = errand{m.refused(site), http.StatusUnauthorized, `"error":"invalid_token"`}
		case kind < mixedBad+mixedQuestions:
			form := url.Values{"token": {m.owned[i%len(m.owned)]}}.Encode()
			errands[i] = errand{post(site, "/oauth/introspect", clientID, form), http.StatusOK, `"active":true`}
		case kind < mixedBad+mixedQuestions+mixedTokens:
			form := url.Values{"grant_type": {"client_credentials"}, "scope": {"public"}}
			errands[i] = errand{tokenForm(site, clientID, form), http.StatusOK, `"access_token":`}
		default:
			var token string
			if kind >= mixedEverything-mixedFirst && len(fresh) > 0 {
				token, fresh = fresh[0], fresh[1:]
			} else {
				token = m.known[m.shown%len(m.known)]
				m.shown++
			}
			errands[i] = errand{get(site, "/orders/1", token), http.StatusOK, `{"orders":[]}`}
		}
	}
	return errands
}

// refused returns a request with a different bad token each time.
func (m *mixture) refused(site string) []byte {
	m.badSoFar++
	kind := m.bad[m.badSoFar%len(m.bad)]
	token := []byte(kind.token)
	kind.vary(token, m.badSoFar)
	return get(site, "/orders/1", string(token))
}

// fresh returns tokens that have never been used, a quarter from each issuer, interleaved.
func (m *mixture) fresh(count int) []string {
	each := (count + len(algorithms)) / (1 + len(algorithms))
	kinds := [][]string{m.obtain(m.ours, each)}
	for i, p := range m.setup.trusted {
		kinds = append(kinds, p.tokens(algorithms[i], each))
	}
	return inTurn(kinds)
}

// inTurn interleaves lists of equal length.
func inTurn(lists [][]string) []string {
	var all []string
	for i := range lists[0] {
		for _, list := range lists {
			all = append(all, list[i])
		}
	}
	return all
}

// send returns a load that sends each errand once.
func send(site string, errands []errand) load.Load {
	return load.Load{
		Addr:    site,
		Request: func(i int, scratch []byte) []byte { return append(scratch, errands[i].request...) },
		Response: func(i int, r *load.Response) error {
			if want := errands[i]; r.Status != want.status || !bytes.Contains(r.Body, []byte(want.body)) {
				return fmt.Errorf("status %d instead of %d with %q: %.300s", r.Status, want.status, want.body, r.Body)
			}
			return nil
		},
	}
}
