package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/machine"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestK9AtTheOtherNode: a second node on the same database refuses tokens of a revoked key and signs with its
// successor, without a request to that node.
func TestK9AtTheOtherNode(t *testing.T) {
	settings := onDisk(t)
	nodes := []*Node{opened(t, settings), opened(t, settings)}
	tokens, err := nodes[0].issuer().Minter.Issue(issuer.Grant{Client: &store.Client{ID: "conf"}})
	if err != nil {
		t.Fatal(err)
	}
	verify := func() error {
		_, err := nodes[1].Verifier.Verify(tokens.AccessToken.Reveal(), []string{"https://a.example"})
		return err
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	revoked := tokens.Claims.KeyID
	if _, err := nodes[0].KeyRing().Revoke(t.Context(), revoked); err != nil {
		t.Fatal(err)
	}
	nodes[0].KeysChanged(t.Context())
	successor, err := nodes[0].Keys.Signing(Clock())
	if err != nil || successor.ID == revoked {
		t.Fatalf("%v signs, %v", successor, err)
	}
	began := time.Now()
	for {
		key, err := nodes[1].Keys.Signing(Clock())
		if err == nil && key.ID == successor.ID && verify() != nil {
			break
		}
		if machine.Fair(time.Since(began)) > 5*time.Second { // row K9
			t.Fatalf("after %s the other node signs with %v, and says %v of the token", time.Since(began), key, verify())
		}
		time.Sleep(5 * time.Millisecond)
	}
	if list := nodes[1].Keys.List(); slices.ContainsFunc(list, func(k *keys.SigningKey) bool { return k.ID == revoked }) {
		t.Errorf("the other node has the keys %v", list)
	}
}

// TestMasterKeyThatCannotBeOpened: with a wrong key-encryption key nothing starts and nothing is replaced, as with
// signing keys.
func TestMasterKeyThatCannotBeOpened(t *testing.T) {
	settings := onDisk(t)
	open := func(kek string) error {
		sealer, err := keys.NewSealer("https://a.example", oauth.NewSecret(strings.Repeat(kek, 32)))
		if err != nil {
			t.Fatal(err)
		}
		n := newNode(settings, sealer)
		return errors.Join(n.Open(), n.Destruct())
	}
	if err := open("ab"); err != nil {
		t.Fatal(err)
	}
	if err := open("cd"); err == nil || !strings.Contains(err.Error(), "sealed under key-encryption key") {
		t.Errorf("with another key: %v", err)
	}
	if err := open("ab"); err != nil {
		t.Errorf("with the right key again: %v", err)
	}
}
