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

// algorithms are those of our own tokens, one after the other, and of the other issuers. The last one signs from then on.
var algorithms = []string{"RS256", "EdDSA", "ES256"}

// What a mixed hundred of requests holds; the rest shows tokens that are known.
const (
	mixedBad        = 2
	mixedFirst      = 10
	mixedQuestions  = 4
	mixedTokens     = 4
	mixedEverything = 100
	// mixedStride has no divisor in common with it, so that a hundred requests that follow one another hold each kind as often.
	mixedStride = 37
)

// errand is a request of a mixed load, and what its answer must be.
type errand struct {
	request []byte
	status  int
	body    string // stands in the answer
}

// mixed sends everything at once to one site: known tokens of our own and of three other issuers in three algorithms, tokens at first
// sight, bad ones, questions about tokens, and requests for tokens. The same connections carry all of it, as those of a balancer do.
func (b *bench) mixed() error {
	m, err := b.newMixture()
	if err != nil {
		return err
	}
	bare, err := b.bareCaddy()
	if err != nil {
		return err
	}
	const base = "bare Caddy"
	requests := max(500, b.requests/2)
	onBare := func(site string) func(int) (load.Load, error) {
		return func(count int) (load.Load, error) {
			errands, err := m.errands(count, site)
			for i := range errands {
				errands[i].status, errands[i].body = http.StatusOK, ""
			}
			return send(site, errands), err
		}
	}
	_, err = b.compare(
		side{name: base, on: bare, requests: requests, prepare: onBare(bare.Bare)},
		side{name: "bare Caddy again (control)", against: base, on: bare, requests: requests, prepare: onBare(bare.BareAgain)},
		side{name: "known tokens alone", against: base, on: m.ours, requests: requests, load: orders(m.ours.Mixed, m.known)},
		side{name: "mixed", against: base, on: m.ours, requests: requests, prepare: m.load},
		side{name: "mixed, 64 connections", against: base, on: m.ours, requests: requests, prepare: m.load, conns: manyConns},
	)
	b.report.Note("Of a hundred requests %d show a bad token, %d one at first sight, %d ask about a token, %d ask for one, and the rest show %d known tokens of %d issuers.",
		mixedBad, mixedFirst, mixedQuestions, mixedTokens, len(m.known), 1+len(m.partners))
	return err
}

// mixture is what mixed requests are made of.
type mixture struct {
	*bench
	ours     *server
	setup    setup
	partners []*provider
	known    []string
	owned    []string // those of them that are our own
	bad      []badToken
	shown    int // of the known tokens so far
	badSoFar int
}

// newMixture starts a server that has signed with each algorithm, and the other issuers, and gets the tokens that are known.
func (b *bench) newMixture() (*mixture, error) {
	m := &mixture{bench: b}
	for range algorithms {
		p, err := b.startProvider()
		if err != nil {
			return nil, err
		}
		m.partners = append(m.partners, p)
	}
	m.setup = setup{partners: m.partners}
	var err error
	if m.ours, err = b.ours(m.setup); err != nil {
		return nil, err
	}
	if err = m.obtainKnown(max(1, b.tokens/(2*len(algorithms)))); err != nil {
		return nil, err
	}
	if m.bad, err = m.badTokens(); err != nil {
		return nil, err
	}
	every := orders(m.ours.Mixed, m.known)
	_, err = every.Send(b.ctx, b.conns, len(m.known)) // so that they are known
	return m, err
}

// obtainKnown gets so many tokens of each kind, our own and others', and puts one beside the other.
func (m *mixture) obtainKnown(each int) error {
	var kinds [][]string
	for i, algorithm := range algorithms {
		own, err := m.own(algorithm, each)
		if err != nil {
			return err
		}
		theirs, err := m.partners[i].tokens(algorithm, each)
		if err != nil {
			return err
		}
		m.owned = append(m.owned, own...)
		kinds = append(kinds, own, theirs)
	}
	m.known = inTurn(kinds)
	return nil
}

// own gets tokens of our own, signed with the algorithm.
func (m *mixture) own(algorithm string, count int) ([]string, error) {
	if err := m.signWith(m.ours, m.setup, algorithm); err != nil {
		return nil, err
	}
	tokens, err := m.obtain(m.ours, count)
	if err != nil {
		return nil, err
	}
	header, err := base64.RawURLEncoding.DecodeString(tokens[0][:strings.IndexByte(tokens[0], '.')])
	if err != nil || !bytes.Contains(header, []byte(`"alg":"`+algorithm+`"`)) {
		return nil, fmt.Errorf("a token that was to be signed with %s has the header %s", algorithm, header)
	}
	return tokens, nil
}

// badTokens are of our own issuer and of two others.
func (m *mixture) badTokens() ([]badToken, error) {
	own, _, err := m.bench.badTokens(m.ours, m.partners[0])
	if err != nil {
		return nil, err
	}
	bad := slices.DeleteFunc(own, func(t badToken) bool { return t.name == "oversize" })
	for i, algorithm := range algorithms {
		token, err := m.partners[i].token(algorithm)
		if err != nil {
			return nil, err
		}
		f, err := newForger(token)
		if err != nil {
			return nil, err
		}
		bad = append(bad, f.changedSignature("forged "+algorithm, token))
	}
	return bad, nil
}

// load is a round for our own server.
func (m *mixture) load(count int) (load.Load, error) {
	errands, err := m.errands(count, m.ours.Mixed)
	return send(m.ours.Mixed, errands), err
}

// errands are as many requests of all kinds, one among the other, addressed to a site.
func (m *mixture) errands(count int, site string) ([]errand, error) {
	fresh, err := m.fresh(count * mixedFirst / mixedEverything)
	if err != nil {
		return nil, err
	}
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
	return errands, nil
}

// refused is a request with another bad token each time.
func (m *mixture) refused(site string) []byte {
	m.badSoFar++
	kind := m.bad[m.badSoFar%len(m.bad)]
	token := []byte(kind.token)
	kind.vary(token, m.badSoFar)
	return get(site, "/orders/1", string(token))
}

// fresh are tokens that nobody has shown, a quarter of each issuer, one beside the other.
func (m *mixture) fresh(count int) ([]string, error) {
	each := (count + len(m.partners)) / (1 + len(m.partners))
	own, err := m.obtain(m.ours, each)
	if err != nil {
		return nil, err
	}
	kinds := [][]string{own}
	for i, p := range m.partners {
		theirs, err := p.tokens(algorithms[i], each)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, theirs)
	}
	return inTurn(kinds), nil
}

// inTurn puts lists of one length one beside the other.
func inTurn(lists [][]string) []string {
	var all []string
	for i := range lists[0] {
		for _, list := range lists {
			all = append(all, list[i])
		}
	}
	return all
}

// send is a load of errands, each sent once.
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
