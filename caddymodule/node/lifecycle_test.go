package node

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestF9TwoNodesOnOneFile stands for two processes. They agree on one first key, and one node refuses what the other
// revokes within the feed's interval.
func TestF9TwoNodesOnOneFile(t *testing.T) {
	settings := onDisk(t)
	var both [2]*Node
	var opened sync.WaitGroup
	for i := range both {
		both[i] = prepared(t, settings)
		opened.Go(func() {
			if err := both[i].Open(); err != nil {
				t.Error(err)
			}
		})
	}
	opened.Wait()
	if t.Failed() {
		return
	}
	var kids [2]string
	for i, n := range both {
		key, err := n.Keys.Signing(Clock())
		if err != nil {
			t.Fatal(err)
		}
		kids[i] = key.ID
	}
	if kids[0] != kids[1] {
		t.Errorf("they sign with %s and %s", kids[0], kids[1])
	}
	parts := both[0].issuer()
	tokens, err := parts.Minter.Issue(issuer.Grant{Client: &store.Client{ID: "conf"}})
	if err != nil {
		t.Fatal(err)
	}
	verify := func() error {
		_, err := both[1].Verifier.Verify(tokens.AccessToken.Reveal(), []string{"https://a.example"})
		return err
	}
	if err := verify(); err != nil {
		t.Fatalf("the other refuses the token: %v", err)
	}
	if err := parts.Families.Revoke(context.Background(), parts.Families.RevocationOf(store.RevokeToken, tokens.Claims.ID)); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); verify() == nil; time.Sleep(5 * time.Millisecond) {
		if took := time.Since(began); machine.Fair(took) > 5*time.Second { // the promise of docs/reliability.md
			t.Fatalf("after %s the other still accepts the token", took)
		}
	}
	if reason := oauth.AsError(verify()).Reason; reason != "token_revoked" {
		t.Errorf("the other refuses it as %s", reason)
	}
}

// TestCleanupWaitsForRequests: the store stays open for the requests of the old configuration and admits no new ones.
func TestCleanupWaitsForRequests(t *testing.T) {
	n := opened(t, onDisk(t))
	if !n.Life.Enter() {
		t.Fatal("an open node lets nobody in")
	}
	if err := n.Destruct(); err != nil {
		t.Fatal(err)
	}
	if n.Life.Enter() {
		t.Error("a closing node lets somebody in")
	}
	if _, err := n.store.Clients.Clients(t.Context()); err != nil {
		t.Errorf("the store is closed under a request: %v", err)
	}
	n.Life.Leave()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := n.store.Clients.Clients(t.Context()); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the store stays open")
		}
	}
}
