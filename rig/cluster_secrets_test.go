//go:build linux

package rig

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestT94PostgreSQLHoldsNoSecretOfItsNodes uses everything that issues or accepts a credential, and then looks for each of them in a dump
// of the database and in every byte of the server's data directory, including the write-ahead log.
func TestT94PostgreSQLHoldsNoSecretOfItsNodes(t *testing.T) {
	besideOthers(t)
	c := StartCluster(t, 2, Setup{OAuth: "password_grant"})
	secrets, known := c.issueEverything(t)
	dump := c.dump(t)
	if !strings.Contains(dump, known) {
		t.Fatalf("the dump does not even hold the client id %s", known)
	}
	reportLeaks(t, "the dump", []byte(dump), secrets)

	var found bool
	for path, content := range c.dataFiles(t) {
		found = found || bytes.Contains(content, []byte(known))
		reportLeaks(t, path, content, secrets)
	}
	if !found {
		t.Errorf("no file holds the client id %s: are these the right files?", known)
	}
	for _, n := range c.Nodes {
		reportLeaks(t, "the log of "+n.Addr, []byte(n.Log()), secrets)
	}
}

// reportLeaks looks for secrets as they are and in the encodings in which they could have been stored.
func reportLeaks(t *testing.T, where string, content []byte, secrets map[string]string) {
	t.Helper()
	for what, secret := range secrets {
		for encoding, text := range map[string]string{
			"plain": secret, "hex": hex.EncodeToString([]byte(secret)),
			"base64":    strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="),
			"base64url": base64.RawURLEncoding.EncodeToString([]byte(secret)),
		} {
			if bytes.Contains(content, []byte(text)) {
				t.Errorf("%s holds %s (%s)", where, what, encoding)
			}
		}
	}
}

// issueEverything makes the nodes issue and accept every kind of credential. It returns them by kind, and an id that the database must
// hold.
func (c *Cluster) issueEverything(t *testing.T) (secrets map[string]string, known string) {
	t.Helper()
	secrets = map[string]string{"a declared client's secret": Secret(Console), "a declared password": Password, "the password of a stored user": "open-sesame-47-times"}
	var added struct {
		ID     string `json:"id"`
		Secret string `json:"client_secret"`
	}
	readJSON(t, c.Nodes[0].command(t, "", "client", "add", "--name", "Vault", "--grant", "client_credentials", "--json"), &added)
	secrets["a stored client's secret"] = added.Secret
	c.Nodes[1].command(t, secrets["the password of a stored user"],
		"user", "add", "--id", "u-eve", "--email", "eve@acme.example", "--name", "Eve", "--org", "acme", "--role", "member", "--password-stdin")
	byPassword := url.Values{"grant_type": {"password"}, "email": {"eve@acme.example"}, "password": {secrets["the password of a stored user"]}}
	if err := mustBe(Send(t.Context(), http.MethodPost, c.Nodes[0].URL+"/oauth/token", byPassword.Encode(), "Content-Type", formType), http.StatusOK, "", "the password grant"); err != nil {
		t.Fatal(err)
	}
	application, browser := Application{c.URL, Portal}, NewBrowser(Ada)
	request := application.Ask()
	code, _, err := browser.Authorize(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	secrets["a code"], secrets["a proof of a code's holder"] = code, request.verifier
	tokens, err := ReadTokens(request.Redeem(t.Context(), code))
	if err != nil {
		t.Fatal(err)
	}
	refreshed := c.mustRefresh(t, application, tokens.RefreshToken)
	created, err := ReadTokens(application.CreateToken(t.Context(), refreshed.AccessToken, Grace))
	if err != nil {
		t.Fatal(err)
	}
	own, err := ReadTokens(Application{c.URL, Server}.ForItself(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	secrets["an access token"], secrets["a refresh token"] = tokens.AccessToken, tokens.RefreshToken
	secrets["a refreshed access token"], secrets["a successor"] = refreshed.AccessToken, refreshed.RefreshToken
	secrets["a created access token"], secrets["its refresh token"] = created.AccessToken, created.RefreshToken
	secrets["a server token"] = own.AccessToken
	at, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, cookie := range browser.jar.Cookies(at) {
		secrets["the cookie "+cookie.Name] = cookie.Value
	}
	if err := mustBe(application.Revoke(t.Context(), refreshed.RefreshToken), http.StatusOK, "", "revoking"); err != nil {
		t.Fatal(err)
	}
	for what, secret := range secrets {
		if len(secret) < 12 {
			t.Fatalf("%s is %q, which proves nothing", what, secret)
		}
	}
	return secrets, added.ID
}

func readJSON(t *testing.T, text string, value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// ask returns the text that a query yields.
func (c *Cluster) ask(t *testing.T, query string) (text string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), c.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	if err := db.QueryRow(t.Context(), query).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// dump returns the whole database as pg_dump writes it.
func (c *Cluster) dump(t *testing.T) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "pg_dump", "--dbname="+c.DSN).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	return string(output)
}

// dataFiles reads every file below the server's data directory. It skips files that disappear meanwhile.
func (c *Cluster) dataFiles(t *testing.T) func(func(string, []byte) bool) {
	t.Helper()
	root := c.ask(t, "SHOW data_directory")
	return func(yield func(string, []byte) bool) {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil // see above
			}
			content, err := os.ReadFile(path)
			if err == nil && !yield(path, content) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func (c *Cluster) mustRefresh(t *testing.T, a Application, token string) Tokens {
	t.Helper()
	tokens, err := ReadTokens(a.Refresh(t.Context(), token))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}
