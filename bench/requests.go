package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
)

// get returns a request as a service sends it, with a bearer token.
func get(host, path, token string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n" +
		"Accept-Encoding: gzip\r\nAuthorization: Bearer " + token + "\r\n\r\n")
}

// orders requests the same path with each token in turn.
func orders(addr string, tokens []string) load.Load {
	requests := make([][]byte, len(tokens))
	for i, token := range tokens {
		requests[i] = get(addr, "/orders/1", token)
	}
	return load.Load{Addr: addr, Status: http.StatusOK, Request: load.InTurn(requests)}
}

// post returns a form sent with HTTP Basic, as golang.org/x/oauth2 does.
func post(addr, path, client, form string) []byte {
	basic := base64.StdEncoding.EncodeToString([]byte(client + ":" + clientSecret))
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept-Encoding: gzip\r\n"+
		"Authorization: Basic %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
		path, addr, basic, len(form), form)
}

// tokenForm returns a request to the token endpoint.
func tokenForm(addr, client string, form url.Values) []byte {
	return post(addr, "/oauth/token", client, form.Encode())
}

// clientCredentials requests tokens by client_credentials.
func clientCredentials(addr string) load.Load {
	request := tokenForm(addr, clientID, url.Values{"grant_type": {"client_credentials"}, "scope": {"public"}})
	return load.Load{Addr: addr, Status: http.StatusOK, Request: load.Constant(request)}
}

// aboutTokens sends each token in turn to an endpoint, as a client.
func aboutTokens(s *server, client, path string, tokens []string) load.Load {
	requests := make([][]byte, len(tokens))
	for i, token := range tokens {
		requests[i] = post(s.Issuer, path, client, url.Values{"token": {token}}.Encode())
	}
	return load.Load{Addr: s.Issuer, Status: http.StatusOK, Request: load.InTurn(requests)}
}

// introspect introspects tokens. Each must be active.
func introspect(s *server, client string, tokens []string) load.Load {
	l := aboutTokens(s, client, "/oauth/introspect", tokens)
	l.Response = func(_ int, r *load.Response) error {
		if len(r.Body) <= len(`{"active":false}`) {
			return fmt.Errorf("the token is not active: %s", r.Body)
		}
		return nil
	}
	return l
}

// revocations returns loads that revoke a new token in each request.
func (b *bench) revocations(s *server) func(count int) load.Load {
	return func(count int) load.Load { return aboutTokens(s, clientID, "/oauth/revoke", b.obtain(s, count)) }
}

// obtain requests tokens by client_credentials.
func (b *bench) obtain(s *server, count int) []string {
	tokens := make([]string, count)
	l := clientCredentials(s.Issuer)
	l.Response = func(i int, r *load.Response) error {
		answer, err := readTokens(r.Body)
		tokens[i] = answer.AccessToken
		return err
	}
	b.send(l, count)
	return tokens
}

// chains begins families and returns a refresh token of each.
func (b *bench) chains(s *server, count int) []string {
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
	must(begin.Send(b.ctx, 1, count))
	return tokens
}

// rotate takes a refresh token of a client that no other request is using, and puts its successor back.
func rotate(s *server, client string, tokens []string) load.Load {
	free := make(chan string, len(tokens))
	for _, token := range tokens {
		free <- token
	}
	return load.Load{
		Addr: s.Issuer, Status: http.StatusOK,
		Request: func(_ int, scratch []byte) []byte {
			form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {<-free}}
			return append(scratch, tokenForm(s.Issuer, client, form)...)
		},
		Response: func(_ int, r *load.Response) error {
			token, err := refreshTokenIn(r.Body)
			free <- token
			return err
		},
	}
}

// authorize obtains codes for a signed-in person. The portal is first-party, so there is no consent page.
func (b *bench) authorize(s *server, p person, scope string, count int) []string {
	codes := make([]string, count)
	request := []byte("GET " + authorizePath(scope) + " HTTP/1.1\r\nHost: " + s.Issuer + "\r\nUser-Agent: bench/1\r\nCookie: " + p.cookies + "\r\n\r\n")
	b.send(load.Load{
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
	}, count)
	return codes
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
			_, err := refreshTokenIn(r.Body)
			return err
		},
	}
}

// answer is the response of the token endpoint.
type answer struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	IDToken      string `json:"id_token"`
}

func readTokens(body []byte) (answer, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return a, err
	}
	if strings.Count(a.AccessToken, ".") != 2 {
		return a, errors.New("the answer holds no access_token")
	}
	return a, nil
}

// refreshTokenIn returns the refresh token of a response.
func refreshTokenIn(body []byte) (string, error) {
	a, err := readTokens(body)
	if err == nil && a.RefreshToken == "" {
		err = errors.New("the answer holds no refresh_token")
	}
	return a.RefreshToken, err
}
