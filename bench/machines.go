package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
)

// machines measures private_key_jwt against a client secret, and personal access tokens against bearer tokens of the
// same person. Every token has been used before. The single use of an assertion is on disk before the response, so
// that comparison uses many connections, as for every durable step.
func (b *bench) machines() {
	s := b.ours(setup{personal: true})
	secret := side{name: "client_credentials with a secret", on: s, load: clientCredentials(s.Issuer), conns: manyConns}
	sides := []side{secret, secret.again()}
	for algorithm, key := range externalKeys() {
		r := robot{algorithm, key}
		key.public["kid"] = r.id()
		b.tell(s, "/oauth/clients", map[string]any{
			"id": r.id(), "name": "Robot", "grants": []string{"client_credentials"}, "scopes": []string{"public"}, "jwks": map[string]any{"keys": []any{key.public}},
		}, nil)
		sides = append(sides, side{name: "client_credentials with an assertion, " + algorithm, against: secret.name, on: s, conns: manyConns, prepare: func(count int) load.Load {
			return r.asks(s, count)
		}})
	}
	slices.SortFunc(sides[2:], func(a, b side) int { return strings.Compare(a.name, b.name) })
	few := min(100, b.tokens) // the limit for one person
	tokens, _ := b.familiesOf(s, must(signIn(b.ctx, s)), plainScope, few)
	bearer := side{name: "bearer token", on: s, load: orders(s.Protected, tokens)}
	personal := side{name: "personal access token", against: bearer.name, on: s, load: orders(s.Protected, b.personalTokens(s, few))}
	b.send(personal.load, few)
	outs := b.compare(append(sides, bearer, personal, bearer.again())...)
	for _, signed := range sides[2:] {
		b.atLeast(signed.name+": throughput", 0.5, outs.ratio(signed.name, rateOf), 2, "of the same with a secret")
	}
	b.atMost("a request with a warm personal access token: CPU", 1.15, outs.ratio(personal.name, cpuOf), 3, "of the same with a warm bearer token")
}

// tell calls the admin API of a server and decodes the response into answer, unless that is nil.
func (b *bench) tell(s *server, path string, request, answer any) {
	check(proc.Ask(b.ctx, s.Admin, path, must(json.Marshal(request)), func(body io.Reader) error {
		if answer == nil {
			return nil
		}
		return json.NewDecoder(body).Decode(answer)
	}))
}

// personalTokens creates personal access tokens for the person who signs in.
func (b *bench) personalTokens(s *server, count int) []string {
	tokens := make([]string, count)
	for i := range tokens {
		var made struct {
			Token string `json:"token"`
		}
		b.tell(s, "/oauth/personal_tokens", map[string]any{"user": "u-ben", "name": fmt.Sprint("bench ", i), "scope": "public"}, &made)
		tokens[i] = made.Token
	}
	return tokens
}

// robot is a client that signs assertions.
type robot struct {
	algorithm string
	key       externalKey
}

func (r robot) id() string { return "robot-" + r.algorithm }

// asks requests a token with each assertion. Every assertion is good once.
func (r robot) asks(s *server, count int) load.Load {
	header := encode(map[string]any{"alg": r.algorithm, "kid": r.id()})
	now := time.Now()
	requests := make([][]byte, count)
	for i := range requests {
		text := header + "." + encode(map[string]any{
			"iss": r.id(), "sub": r.id(), "aud": "http://" + s.Issuer, "jti": fmt.Sprintf("%x-%d", now.UnixNano(), i), "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		})
		form := url.Values{
			"grant_type": {"client_credentials"}, "scope": {"public"}, "client_assertion": {text + "." + encodeBytes(must(r.key.sign([]byte(text))))},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		}.Encode()
		requests[i] = fmt.Appendf(nil, "POST /oauth/token HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept-Encoding: gzip\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", s.Issuer, len(form), form)
	}
	return load.Load{Addr: s.Issuer, Status: http.StatusOK, Request: load.InTurn(requests)}
}
