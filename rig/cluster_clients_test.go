//go:build linux

package rig

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
)

// TestQ207ClientsThatMakeThemselvesKnownOnAllNodes: a client registered or let in at one node → served at the other at once; disabled at
// one → refused by both within a second. Each node fetches metadata documents itself.
func TestQ207ClientsThatMakeThemselvesKnownOnAllNodes(t *testing.T) {
	besideOthers(t)
	var asked atomic.Int64
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"client_id":"http://%s%s","redirect_uris":[%q]}`, r.Host, r.URL, Callback)
	}))
	defer host.Close()
	c := StartCluster(t, 2, Setup{OAuth: "registration {\n\t\t\tscopes trusted\n\t\t}\n\t\tclient_metadata {\n\t\t\tscopes trusted\n\t\t\tallow_private_network\n\t\t}"})
	one, other := c.Nodes[0], c.Nodes[1]
	answer := Send(t.Context(), http.MethodPost, one.URL+"/oauth/register", `{"redirect_uris":["`+Callback+`"],"token_endpoint_auth_method":"none"}`, "Content-Type", "application/json")
	var registered struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(answer.Body), &registered); err != nil || registered.ID == "" {
		t.Fatal(answer)
	}
	spread := new(times)
	for _, client := range []struct {
		id      string
		letIn   *Node
		fetches int64
	}{{registered.ID, other, 0}, {host.URL + "/client.json", one, 1}} {
		asks := func(form url.Values) Answer {
			form.Set("client_id", client.id)
			return Send(t.Context(), http.MethodPost, c.URL+"/oauth/token", form.Encode(), "Content-Type", formType)
		}
		must := func(a Answer) Tokens {
			t.Helper()
			tokens, err := ReadTokens(a)
			if err != nil {
				t.Fatal(err)
			}
			return tokens
		}
		c.Use(client.letIn)
		r := Application{c.URL, client.id}.Ask()
		code, _, err := NewBrowser(Grace).Authorize(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		tokens := must(asks(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {Callback}, "code_verifier": {r.verifier}}))
		if n := asked.Swap(0); n != client.fetches {
			t.Errorf("%s: the first node has read %d documents, want %d", client.id, n, client.fetches)
		}
		for range 2 { // at the node that has not seen it, and there again
			c.Use(map[*Node]*Node{one: other, other: one}[client.letIn])
			tokens = must(asks(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken}}))
		}
		if n := asked.Swap(0); n != client.fetches {
			t.Errorf("%s: the second node has read %d documents, want %d", client.id, n, client.fetches)
		}
		application := Application{c.URL, client.id}
		for _, n := range c.Nodes {
			if err := mustBe(application.at(n).Use(t.Context(), tokens.AccessToken), http.StatusOK, "", "a token"); err != nil {
				t.Fatal(err)
			}
		}
		client.letIn.command(t, "", "client", "disable", client.id)
		for _, n := range c.Nodes {
			took, err := refusedBy(t.Context(), application, tokens.AccessToken, n)
			if err != nil {
				t.Fatal(err)
			}
			spread.add(took)
		}
		if err := mustBe(asks(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken}}), http.StatusUnauthorized, "invalid_client", "a refresh"); err != nil {
			t.Error(err)
		}
		c.Use(c.Nodes...)
	}
	spread.arrived(t, "a disabled client")
}
