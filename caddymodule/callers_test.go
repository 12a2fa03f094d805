package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// callers request tokens and use them in a loop until they are stopped.
type callers struct {
	g      *gatehouse
	client http.Client
	stop   context.CancelFunc
	ctx    context.Context
	work   sync.WaitGroup

	mu       sync.Mutex
	tokens   []string
	failures []string
	calls    int
}

func (g *gatehouse) startCallers(n int) *callers {
	c := &callers{g: g, client: http.Client{Timeout: patience}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	for i := range n {
		c.work.Go(func() {
			for round := i; c.ctx.Err() == nil; round++ {
				c.call(round)
			}
		})
	}
	g.t.Cleanup(c.wait)
	return c
}

func (c *callers) wait() { c.stop(); c.work.Wait(); c.client.CloseIdleConnections() }

// met counts the tokens that the callers have received so far, by signing key.
func (c *callers) met(t *testing.T) map[string]int {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	signers := make(map[string]int)
	for _, token := range c.tokens {
		signers[kidOf(t, token)]++
	}
	return signers
}

// call requests a token and sends it and an earlier one to the gate.
func (c *callers) call(round int) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"conf"}, "client_secret": {confSecret}}
	request, _ := http.NewRequestWithContext(c.ctx, http.MethodPost, c.g.url+"/oauth/token", strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		Token string `json:"access_token"`
	}
	if body, ok := c.send(request); !ok || json.Unmarshal(body, &answer) != nil {
		return
	}
	c.mu.Lock()
	c.tokens = append(c.tokens, answer.Token)
	older := c.tokens[(round*7919)%len(c.tokens)]
	c.mu.Unlock()
	for _, token := range []string{answer.Token, older} {
		request, _ := http.NewRequestWithContext(c.ctx, http.MethodGet, c.g.url+"/any/x", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		c.send(request)
	}
}

func (c *callers) send(request *http.Request) ([]byte, bool) {
	response, err := c.client.Do(request)
	if c.ctx.Err() != nil {
		return nil, false
	}
	var body []byte
	status := 0
	if err == nil {
		status = response.StatusCode
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if status != http.StatusOK {
		c.failures = append(c.failures, fmt.Sprintf("%s: %d %s %v", request.URL.Path, status, body, err))
	}
	return body, status == http.StatusOK
}
