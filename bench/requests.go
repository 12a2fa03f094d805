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

// get is a request as a service sends it, with a bearer token.
func get(host, path, token string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n" +
		"Accept-Encoding: gzip\r\nAuthorization: Bearer " + token + "\r\n\r\n")
}

// orders asks for the same path with the tokens in turn.
func orders(addr string, tokens []string) load.Load {
	requests := make([][]byte, len(tokens))
	for i, token := range tokens {
		requests[i] = get(addr, "/orders/1", token)
	}
	return load.Load{Addr: addr, Status: http.StatusOK, Request: load.InTurn(requests)}
}

// post is a form that a client sends with HTTP Basic, as golang.org/x/oauth2 does.
func post(addr, path, client, form string) []byte {
	basic := base64.StdEncoding.EncodeToString([]byte(client + ":" + clientSecret))
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept-Encoding: gzip\r\n"+
		"Authorization: Basic %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
		path, addr, basic, len(form), form)
}

// tokenForm is a request to the token endpoint.
func tokenForm(addr, client string, form url.Values) []byte {
	return post(addr, "/oauth/token", client, form.Encode())
}

// clientCredentials asks for tokens.
func clientCredentials(addr string) load.Load {
	request := tokenForm(addr, clientID, url.Values{"grant_type": {"client_credentials"}, "scope": {"public"}})
	return load.Load{Addr: addr, Status: http.StatusOK, Request: load.Constant(request)}
}

// obtain gets tokens by client_credentials.
func (b *bench) obtain(s *server, count int) ([]string, error) {
	tokens := make([]string, count)
	l := clientCredentials(s.Issuer)
	l.Response = func(i int, r *load.Response) error {
		answer, err := readTokens(r.Body)
		tokens[i] = answer.AccessToken
		return err
	}
	_, err := l.Send(b.ctx, b.conns, count)
	return tokens, err
}

// answer is what the token endpoint gives.
type answer struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
}

// errNoToken is an answer of the token endpoint without a token.
var errNoToken = errors.New("the answer holds no access_token")

func readTokens(body []byte) (answer, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return a, err
	}
	if strings.Count(a.AccessToken, ".") != 2 {
		return a, errNoToken
	}
	return a, nil
}

// refreshTokenIn is the refresh token of an answer.
func refreshTokenIn(body []byte) (string, error) {
	a, err := readTokens(body)
	if err == nil && a.RefreshToken == "" {
		err = errors.New("the answer holds no refresh_token")
	}
	return a.RefreshToken, err
}
