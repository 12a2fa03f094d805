package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

const (
	plainScope  = "public"
	openIDScope = "openid profile email public"
)

// openID measures what OpenID Connect adds: an ID token with each access token, userinfo compared with introspection,
// and published documents compared with a constant response. One process serves all of it.
func (b *bench) openID() {
	s := b.ours(setup{openID: true})
	p := must(signIn(b.ctx, s))
	exchange := func(name, scope string) side {
		return side{name: name, on: s, requests: b.requests / 2, prepare: func(count int) load.Load {
			return withIDToken(redeem(s, b.authorize(s, p, scope, count)), scope)
		}}
	}
	refresh := func(name, scope string) side {
		_, tokens := b.familiesOf(s, p, scope, manyConns)
		return side{name: name, on: s, requests: b.requests / 2, load: withIDToken(rotate(s, portalID, tokens), scope)}
	}
	code, codeID := exchange("code exchange", plainScope), exchange("code exchange, openid", openIDScope)
	rotation, rotationID := refresh("refresh", plainScope), refresh("refresh, openid", openIDScope)
	codeID.against, rotationID.against = code.name, rotation.name

	tokens, _ := b.familiesOf(s, p, openIDScope, min(200, b.tokens))
	introspection := side{name: "introspection", on: s, load: introspect(s, portalID, tokens)}
	info := side{name: "userinfo", against: introspection.name, on: s, load: userInfo(s, tokens)}

	respond := side{name: "respond", on: s, load: document(s.Answer, "/", "")}
	discovery := side{name: "discovery", against: respond.name, on: s, load: document(s.Issuer, "/.well-known/openid-configuration", `"userinfo_endpoint"`)}
	jwks := side{name: "jwks", against: respond.name, on: s, load: document(s.Issuer, "/oauth/jwks", `"kid"`)}

	outs := b.compare(code, codeID, code.again(), rotation, rotationID, rotation.again(), introspection, info, introspection.again(),
		respond, discovery, jwks, respond.again())
	b.atMost("code exchange with openid, ES256: CPU per request", 1.6, outs.ratio(codeID.name, cpuOf), 3, "of the same without")
	b.atMost("refresh with openid, ES256: CPU per request", 1.6, outs.ratio(rotationID.name, cpuOf), 3, "of the same without")
	b.atLeast("userinfo: rate", 0.8, outs.ratio(info.name, rateOf), 3, "of introspection")
}

// familiesOf signs a person in to the portal count times, and returns an access token and a refresh token of each
// sign-in.
func (b *bench) familiesOf(s *server, p person, scope string, count int) (access, refresh []string) {
	access, refresh = make([]string, count), make([]string, count)
	l := redeem(s, b.authorize(s, p, scope, count))
	l.Response = func(i int, r *load.Response) error {
		a, err := readTokens(r.Body)
		access[i], refresh[i] = a.AccessToken, a.RefreshToken
		return err
	}
	b.send(l, count)
	return access, refresh
}

// withIDToken checks that responses have an ID token if the scope asks for one.
func withIDToken(l load.Load, scope string) load.Load {
	right := l.Response
	l.Response = func(i int, r *load.Response) error {
		if err := right(i, r); err != nil {
			return err
		}
		var a answer
		if err := json.Unmarshal(r.Body, &a); err != nil {
			return err
		}
		if (scope == openIDScope) != (strings.Count(a.IDToken, ".") == 2) {
			return fmt.Errorf("for the scope %q: %s", scope, r.Body)
		}
		return nil
	}
	return l
}

// userInfo requests userinfo with each token in turn.
func userInfo(s *server, tokens []string) load.Load {
	requests := make([][]byte, len(tokens))
	for i, token := range tokens {
		requests[i] = get(s.Issuer, "/oauth/userinfo", token)
	}
	return load.Load{Addr: s.Issuer, Status: http.StatusOK, Request: load.InTurn(requests), Response: func(_ int, r *load.Response) error {
		if !strings.Contains(string(r.Body), quickEmail) {
			return fmt.Errorf("the answer has no e-mail address: %s", r.Body)
		}
		return nil
	}}
}

// document requests a published document and checks that it contains a text.
func document(addr, path, text string) load.Load {
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n\r\n")
	return load.Load{Addr: addr, Status: http.StatusOK, Request: load.Constant(request), Response: func(_ int, r *load.Response) error {
		if !strings.Contains(string(r.Body), text) {
			return errors.New("it is another document")
		}
		return nil
	}}
}
