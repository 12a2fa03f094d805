//go:build linux

package rig

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// keyOf is the id of the key that has signed a token.
func keyOf(t *testing.T, token string) string {
	t.Helper()
	head, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		KeyID string `json:"kid"`
	}
	if err == nil {
		err = json.Unmarshal(text, &header)
	}
	if err != nil || header.KeyID == "" {
		t.Fatalf("the head of a token: %s %v", text, err)
	}
	return header.KeyID
}

// published are the ids of the keys that a node publishes.
func (n *Node) published(ctx context.Context, t *testing.T) []string {
	t.Helper()
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	readJSON(t, Send(ctx, http.MethodGet, n.URL+"/oauth/jwks", "").Body, &set)
	ids := make([]string, 0, len(set.Keys))
	for _, key := range set.Keys {
		ids = append(ids, key.ID)
	}
	return ids
}

// mustGetToken gets a server token from a node.
func (n *Node) mustGetToken(t *testing.T) string {
	t.Helper()
	tokens, err := ReadTokens(Application{n.URL, Server}.ForItself(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return tokens.AccessToken
}

// shortLead is what is left, in the database, of the time before a new key signs once every node publishes it. Ten times ten
// minutes are too long.
const shortLead = 500 * time.Millisecond

// TestK1TenRotationsOnThreeNodes rotates the key again and again, at one node after the other, under load: no token is refused
// anywhere, each key is published by every node before the first token that it signed, and none goes away.
func TestK1TenRotationsOnThreeNodes(t *testing.T) {
	rotations := either(2, 10)
	c := StartCluster(t, 3, Setup{})
	kept := []Tokens{{AccessToken: c.Nodes[0].mustGetToken(t)}}
	all := []string{keyOf(t, kept[0].AccessToken)}
	l := newLoad(t, time.Duration(either(10, 2))*time.Millisecond)
	l.start(either(4, 16), c.URL, nil)
	began, heard := time.Now(), new(times)
	for i := range rotations {
		var key struct {
			ID         string    `json:"kid"`
			ActiveFrom time.Time `json:"active_from"`
		}
		readJSON(t, c.Nodes[i%3].command(t, "", "keys", "rotate", "--json"), &key)
		if lead := time.Until(key.ActiveFrom); lead < 10*time.Minute-patience {
			t.Fatalf("the new key signs in %v, want ten minutes", lead)
		}
		heard.add(soon(t, "every node to publish the key", func() bool {
			return !slices.ContainsFunc(c.Nodes, func(n *Node) bool { return !slices.Contains(n.published(t.Context(), t), key.ID) })
		}))
		for _, n := range c.Nodes {
			if token := n.mustGetToken(t); keyOf(t, token) == key.ID {
				t.Fatalf("%s signs with a key that is to sign in ten minutes", n.Addr)
			}
		}
		c.hasten(t, key.ID)
		for _, n := range c.Nodes {
			token := ""
			soon(t, "the node to sign with the key", func() bool {
				token = n.mustGetToken(t)
				return keyOf(t, token) == key.ID
			})
			kept = append(kept, Tokens{AccessToken: token})
		}
		all = append(all, key.ID)
	}
	l.goOn(200)
	l.unbroken("while keys were rotated")
	c.mustAcceptEverywhere(t, Application{c.URL, Server}, kept...)
	for _, n := range c.Nodes {
		for _, id := range all {
			if !slices.Contains(n.published(t.Context(), t), id) {
				t.Errorf("%s no longer publishes the key %s, and there are tokens that it has signed", n.Addr, id)
			}
		}
	}
	measured(t, "K1: rotations on 3 nodes under load", "%d rotations, %d requests (%.0f a second), 0 refused; published by all nodes after %v at most",
		rotations, l.requests(), float64(l.requests())/time.Since(began).Seconds(), heard.quantile(1).Round(time.Millisecond))
}

// hasten makes a published key sign soon.
func (c *Cluster) hasten(t *testing.T, id string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), c.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	_, err = db.Exec(t.Context(), `WITH told AS (UPDATE counters SET position = position + 1 WHERE name = 'signing_keys')
		UPDATE signing_keys SET active_from = $1 WHERE id = $2`, time.Now().Add(shortLead).UnixMicro(), id)
	if err != nil {
		t.Fatal(err)
	}
}

// TestK9AKilledKeyIsRefusedByAllNodes: a revoked key → refused everywhere, at most seconds later.
func TestK9AKilledKeyIsRefusedByAllNodes(t *testing.T) {
	c := StartCluster(t, 3, Setup{})
	application, spread := Application{c.URL, Server}, new(times)
	for i := range either(5, 200) {
		token := c.Nodes[i%3].mustGetToken(t)
		killer := c.Nodes[(i+1)%3]
		for _, n := range c.Nodes { // the token's key may be a moment old
			soon(t, "the gate to accept the token", func() bool { return application.at(n).Use(t.Context(), token).Status == http.StatusOK })
		}
		refused := make([]time.Time, len(c.Nodes))
		polling := make(chan error, len(c.Nodes))
		for j, n := range c.Nodes {
			go func() {
				var err error
				refused[j], err = pollGate(t.Context(), application.at(n), token)
				polling <- err
			}()
		}
		answer := Send(t.Context(), http.MethodPost, "http://"+killer.Admin+"/oauth/keys/revoke", `{"kid":"`+keyOf(t, token)+`"}`,
			"Content-Type", "application/json")
		acknowledged := time.Now()
		if err := mustBe(answer, http.StatusNoContent, "", "revoking a key"); err != nil {
			t.Fatal(err)
		}
		for range c.Nodes {
			if err := <-polling; err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range refused {
			spread.add(max(0, at.Sub(acknowledged)))
		}
		for _, n := range c.Nodes {
			soon(t, "the node to publish the key no more", func() bool { return !slices.Contains(n.published(t.Context(), t), keyOf(t, token)) })
		}
	}
	measured(t, "K9: from the revocation of a key until three gates refuse", "%v", spread)
	spread.arrived(t, "a revoked key")
	token := c.Nodes[0].mustGetToken(t)
	for _, n := range c.Nodes {
		soon(t, "the gate to accept a new token", func() bool { return application.at(n).Use(t.Context(), token).Status == http.StatusOK })
	}
}
