package node

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// keptKeys runs statements on the database at path, with a second file attached as kept.
func keptKeys(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // ATTACH applies to one connection
	for _, statement := range append([]string{fmt.Sprintf(`ATTACH '%s.kept' AS kept`, path)}, statements...) {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// TestV9ACompleteOldSetIsPutBack: all rows of the keys from before a revocation are put back, including the manifest.
// No step that writes keys makes the old manifest the current one, neither on a running node nor on one that starts.
func TestV9ACompleteOldSetIsPutBack(t *testing.T) {
	kek := func(fill string) oauth.Secret { return oauth.NewSecret(strings.Repeat(fill, 32)) }
	sealer := func(current string, older ...oauth.Secret) *keys.Sealer {
		s, err := keys.NewSealer("https://a.example", kek(current), older...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const restarts = true
	for name, c := range map[string]struct {
		restarts bool
		change   func(n *Node, other string) error // nil: none
		openID   bool
		kek      func() *keys.Sealer
		without  string // the algorithm left out
	}{
		"rotate": {change: func(n *Node, _ string) error {
			_, err := n.KeyRing().Rotate(t.Context(), oauth.ES256, true)
			return err
		}},
		"revoke another": {change: func(n *Node, other string) error {
			_, err := n.KeyRing().Revoke(t.Context(), other)
			return err
		}},
		"housekeeping":            {change: func(n *Node, _ string) error { return n.KeepHouse(t.Context()) }},
		"restart":                 {restarts: restarts},
		"restart, new algorithm":  {restarts: restarts, openID: true},
		"restart, key left out":   {restarts: restarts, openID: true, without: "RS256"},
		"restart, KEK":            {restarts: restarts, kek: func() *keys.Sealer { return sealer("cd", kek("ab")) }},
		"restart, KEK, algorithm": {restarts: restarts, openID: true, without: "RS256", kek: func() *keys.Sealer { return sealer("cd", kek("ab")) }},
		"rotate, then restart": {restarts: restarts, change: func(n *Node, _ string) error {
			_, err := n.KeyRing().Rotate(t.Context(), oauth.ES256, true)
			return err
		}},
		"a restart in between, KEK": {restarts: restarts, change: func(n *Node, _ string) error { return n.KeepHouse(t.Context()) }, kek: func() *keys.Sealer { return sealer("cd", kek("ab")) }},
	} {
		for _, moved := range []int{0, 100} {
			t.Run(fmt.Sprintf("%s, counter +%d", name, moved), func(t *testing.T) {
				settings := onDisk(t)
				settings.OpenID = c.without != ""
				open := func(s *keys.Sealer) *Node {
					n := newNode(settings, s)
					if err := n.Open(); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = n.Destruct() })
					return n
				}
				n := open(sealer("ab"))
				key, err := n.Keys.SigningWith(oauth.ES256, Clock())
				if err != nil {
					t.Fatal(err)
				}
				revoked := key.ID
				keptKeys(t, settings.Path, `CREATE TABLE kept.rows AS SELECT * FROM signing_keys`)
				if _, err := n.KeyRing().Revoke(t.Context(), revoked); err != nil {
					t.Fatal(err)
				}
				if err := n.rollback.syncKeys(t.Context()); err != nil {
					t.Fatal(err)
				}
				key, err = n.Keys.SigningWith(oauth.ES256, Clock())
				if err != nil {
					t.Fatal(err)
				}
				if c.restarts && c.change == nil {
					if err := n.Destruct(); err != nil {
						t.Fatal(err)
					}
				}
				keptKeys(t, settings.Path, `DELETE FROM signing_keys`,
					`INSERT INTO signing_keys SELECT * FROM kept.rows WHERE algorithm <> '`+c.without+`'`, `DELETE FROM revocations`,
					fmt.Sprintf(`UPDATE counters SET position = position + %d WHERE name = 'signing_keys'`, moved))
				if c.change != nil {
					if err := c.change(n, key.ID); err != nil {
						t.Log("the change:", err)
					}
				}
				if c.restarts {
					if c.change != nil {
						if err := n.Destruct(); err != nil {
							t.Fatal(err)
						}
					}
					settings.OpenID = c.openID
					s := sealer("ab")
					if c.kek != nil {
						s = c.kek()
					}
					n = open(s)
				} else if err := errors.Join(n.rollback.syncKeys(t.Context()), n.keepKeys(t.Context())); err != nil {
					t.Error(err)
				}
				if slices.ContainsFunc(n.Keys.List(), func(k *keys.SigningKey) bool { return k.ID == revoked }) {
					t.Error("the revoked key is published")
				}
				list, err := n.KeyRing().List(t.Context())
				if err != nil {
					t.Error(err)
				}
				for _, k := range list {
					if k.ID == revoked && k.State != keys.StateRevoked {
						t.Errorf("it is listed as %s", k.State)
					}
				}
				if _, err := n.Keys.SigningWith(oauth.ES256, Clock()); err != nil {
					t.Error(err)
				}
				if _, err := n.KeyRing().Rotate(t.Context(), oauth.ES256, true); err != nil {
					t.Errorf("a rotation afterwards: %v", err)
				}
			})
		}
	}
}
