package caddymodule

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// encrypted serves durableSite with a key-encryption key.
func encrypted(t *testing.T) *gatehouse {
	t.Helper()
	g := startGatehouse(t, "{\n\tadmin ADMIN\n}\n")
	g.writeKEK("kek", strings.Repeat("a1", 32))
	g.reload(withKEK("kek"))
	return g
}

// edit changes the database directly, as an attacker with access to it can.
func (g *gatehouse) edit(statement string, args ...any) {
	g.t.Helper()
	db := besideAt(g.t, g.database())
	defer func() { _ = db.Close() }()
	for _, change := range []struct {
		statement string
		args      []any
	}{{statement, args}, {"UPDATE counters SET position = position + 1 WHERE name = 'signing_keys'", nil}} {
		if _, err := db.Exec(change.statement, change.args...); err != nil {
			g.t.Fatal(err)
		}
	}
}

// plant stores a key in the database as a node without a key-encryption key would.
func (g *gatehouse) plant() *keys.SigningKey {
	g.t.Helper()
	key, err := keys.NewSigningKey(oauth.ES256, time.Now())
	check(g.t, err)
	stored, err := key.Stored(nil)
	check(g.t, err)
	g.edit(`INSERT INTO signing_keys (id, algorithm, private, sealed_with, created_at, active_from) VALUES (?, 'ES256', ?, '', ?, ?)`,
		stored.ID, stored.Private, stored.CreatedAt.UnixMicro(), stored.ActiveFrom.UnixMicro())
	return key
}

// signedWith issues a token signed with another key.
func (g *gatehouse) signedWith(key *keys.SigningKey) string {
	g.t.Helper()
	app := g.app()
	forger := app.newIssuer(g.loaded().others.clientKeys.value)
	forger.Families.Opened, forger.Minter.Keys = app.issuer.Families.Opened, new(keys.Set)
	check(g.t, forger.Minter.Keys.Replace([]*keys.SigningKey{key}, key.Algorithm))
	tokens, err := forger.Minter.Issue(issuer.Grant{Client: &store.Client{ID: "conf"}})
	check(g.t, err)
	return tokens.AccessToken.Reveal()
}

// sealedFiles lists the files in which this machine records sealed keys.
func (g *gatehouse) sealedFiles() []string {
	g.t.Helper()
	files, err := filepath.Glob(filepath.Join(caddy.AppDataDir(), "oauth", "sealed-*"))
	check(g.t, err)
	return files
}

// TestK16APlantedSigningKey: a signing key added to the database without the key-encryption key → not used, published or accepted, now and after
// a restart; the operator sees it and can revoke it.
func TestK16APlantedSigningKey(t *testing.T) {
	g := encrypted(t)
	token, kids := g.token(), g.kids()
	planted := g.plant()
	forged := g.signedWith(planted)
	unused := func(when string) {
		t.Helper()
		const line = "a stored key is refused"
		g.eventually("the log tells "+when, func() bool { return strings.Contains(g.logs(), line) && strings.Contains(g.logs(), planted.ID) })
		if got := g.kids(); got != kids || g.gate(token) != 200 || g.gate(forged) != 401 || kidOf(t, g.token()) == planted.ID {
			t.Errorf("%s: the keys are %s, were %s; a good token %d, a forged one %d", when, got, kids, g.gate(token), g.gate(forged))
		}
		if view := g.keyViews()[planted.ID]; view.State != keys.StateRefused || view.SealedWith != "" {
			t.Errorf("%s: it is shown as %+v", when, view)
		}
	}
	unused("while it runs")
	if err := g.app().node.KeepHouse(t.Context()); err != nil {
		t.Error(err)
	}
	unused("after the housekeeping")
	g.stop()
	check(t, os.Truncate(g.logFile, 0))
	g.reload(withKEK("kek"))
	unused("after a restart")
	g.eventually("status and metrics count it", func() bool {
		return strings.Contains(g.ok("status"), "1 refused, 1 signing") && g.measured()[`gatehouse_keys{state="refused"}`] == 1
	})
	g.ok("keys", "revoke", planted.ID)
	if view := g.keyViews()[planted.ID]; view.State != keys.StateRevoked || g.kids() != kids {
		t.Errorf("revoked, it is shown as %+v", view)
	}
}

// TestK16EverySealedKeyReplaced: all keys replaced by others in the clear → the start is refused, because the machine
// remembers that keys are encrypted. The error says what to do if the operator made the change.
func TestK16EverySealedKeyReplaced(t *testing.T) {
	g := encrypted(t)
	files := g.sealedFiles()
	if len(files) != 1 || !strings.Contains(readFile(t, files[0]), "http://"+g.addr) {
		t.Fatalf("the machine remembers %v", files)
	}
	token := g.token()
	g.stop()
	g.edit(`DELETE FROM signing_keys`)
	planted := g.plant()
	err := g.tryReload(withKEK("kek"))
	if err == nil || !strings.Contains(err.Error(), "the key is refused") || !strings.Contains(err.Error(), "remove "+files[0]) {
		t.Errorf("it starts: %v", err)
	}
	check(t, os.Remove(files[0]))
	g.reload(withKEK("kek"))
	if !strings.Contains(g.kids(), planted.ID) || g.gate(token) != http.StatusUnauthorized {
		t.Errorf("the keys are %s", g.kids())
	}
	if !strings.Contains(g.logs(), "keys that were stored in the clear are encrypted now") {
		t.Error("the log does not tell that keys were encrypted")
	}
}

// keptRow is a copy of a row of signing_keys.
type keptRow []any

// keepRow copies a row of signing_keys.
func (g *gatehouse) keepRow(id string) keptRow {
	g.t.Helper()
	db := besideAt(g.t, g.database())
	defer func() { _ = db.Close() }()
	row := make(keptRow, 7)
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	check(g.t, db.QueryRow(`SELECT id, algorithm, private, sealed_with, created_at, active_from, revoked_at FROM signing_keys WHERE id = ?`, id).Scan(into...))
	return row
}

func (g *gatehouse) putBack(row keptRow) {
	g.t.Helper()
	g.edit(`INSERT OR REPLACE INTO signing_keys (id, algorithm, private, sealed_with, created_at, active_from, revoked_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, row...)
}

// TestV9ARevokedKeyIsPutBack: with `encrypt_with`, a revoked key's row put back, manifest or revocation deleted → the
// key is refused and its tokens 401, with an audit line. Neither a running node nor one that starts loads the key.
func TestV9ARevokedKeyIsPutBack(t *testing.T) {
	for _, c := range []struct {
		name string
		// attack changes the database; key and manifest are the rows from before the revocation.
		attack func(g *gatehouse, key, manifest keptRow)
		// line is expected in the audit log; distrusts means that all keys are replaced by new ones.
		line      string
		distrusts bool
		stopped   bool // the attack stops Caddy
	}{
		{"the row under the mark of the revocation", func(g *gatehouse, key, _ keptRow) {
			g.edit(`UPDATE signing_keys SET private = ?, sealed_with = ?, revoked_at = NULL WHERE id = ?`, key[2], key[3], key[0])
		}, "stored signing key refused", false, false},
		{"the row and the manifest, in what is called another database", func(g *gatehouse, key, manifest keptRow) {
			g.stop()
			g.putBack(key)
			g.putBack(manifest)
			g.edit(`UPDATE counters SET position = 4711 WHERE name = 'identity'`)
		}, "signing keys distrusted", true, true},
		{"the row, and no manifest", func(g *gatehouse, key, _ keptRow) {
			g.putBack(key)
			g.edit(`DELETE FROM signing_keys WHERE id = 'manifest'`)
		}, "signing keys distrusted", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := encrypted(t)
			stolen := g.token()
			kid := kidOf(t, stolen)
			key, manifest := g.keepRow(kid), g.keepRow("manifest")
			g.ok("keys", "revoke", kid)
			good := g.token()
			g.eventually("the revoked key is refused", func() bool { return g.gate(stolen) == 401 && g.gate(good) == 200 })
			version, err := g.app().node.Store().Keys.KeysVersion(t.Context())
			check(t, err)
			g.eventually("the marker is written", func() bool {
				files, _ := filepath.Glob(filepath.Join(caddy.AppDataDir(), "oauth", "marker-*"))
				for _, file := range files {
					if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), fmt.Sprintf(`"manifest":%d`, version)) {
						return true
					}
				}
				return false
			})
			c.attack(g, key, manifest)
			g.edit(`DELETE FROM revocations`)
			if !c.stopped {
				if err := g.app().node.KeepHouse(t.Context()); err != nil {
					t.Log("the housekeeping while it runs:", err)
				}
				if got := g.gate(stolen); got != 401 {
					t.Errorf("while it runs the token gets %d", got)
				}
				g.stop()
			}
			g.reload(withKEK("kek"))
			if got := g.gate(stolen); got != 401 || strings.Contains(g.kids(), kid) {
				t.Errorf("after a restart the token gets %d, and the keys are %s", got, g.kids())
			}
			if got := g.gate(good); (got == 200) == c.distrusts {
				t.Errorf("after a restart a good token gets %d", got)
			}
			if got := g.gate(g.token()); got != 200 {
				t.Errorf("a fresh token gets %d", got)
			}
			holdWords(t, "the audit log", g.logs(), `"logger":"oauth.audit","msg":"`+c.line+`"`)
		})
	}
}
