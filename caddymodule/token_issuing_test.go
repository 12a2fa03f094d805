package caddymodule

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Which grants yield which tokens, at which paths, and what the store keeps of them.

// TestT92Q142WhoGetsARefreshToken: a code grant whose client may refresh or whose scope says so, an admin's token for a member → a refresh
// token; password grants only where switched on; client_credentials never; a sign-in without a client → a refresh without one, and none by a client;
// offline_access that the client may not have, beside others → left out; alone → invalid_scope. Clients that may refresh by themselves are in
// TestT47T59T60CodeGivesTokens, tokens for members in TestM1M23AdminObtainsATokenForAMember.
func TestT92Q142WhoGetsARefreshToken(t *testing.T) {
	plain := "client plain plain-SECRET {\n\t\t\tgrants authorization_code password client_credentials\n\t\t\tscopes public trusted refresh_token offline_access\n\t\t\tredirect_uris https://plain.example/cb\n\t\t}\n\t\tclient legacy"
	u := openUsers(t, append(passwordRefresh, "client legacy", plain)...)
	withScope := func(id, scope string) request {
		r := requestOf(id)
		r.scope = scope
		if id == "plain" {
			r.redirectURI, r.secret = "https://plain.example/cb", "plain-"+confSecret
		}
		return r
	}
	byCode := func(id, scope string) func(*userDoor) tokens {
		return func(u *userDoor) tokens { return u.userTokens(withScope(id, scope), ada) }
	}
	byPassword := func(id, scope string) func(*userDoor) tokens {
		return func(u *userDoor) tokens { return u.gives(withScope(id, scope).asPassword(ada, peoplePassword)) }
	}
	for name, test := range map[string]struct {
		obtain  func(*userDoor) tokens
		refresh bool
	}{
		"code, the scope asks":                         {byCode("plain", "public refresh_token"), true},
		"code, the scope asks by its alias":            {byCode("plain", "offline_access public"), true},
		"code, neither":                                {byCode("plain", "public trusted"), false},
		"password switched on, the client may use one": {byPassword("conf", "public"), true},
		"password switched on, the scope asks":         {byPassword("plain", "public refresh_token"), true},
		"password switched on, neither":                {byPassword("plain", "public"), false},
		"password switched on, no client":              {func(u *userDoor) tokens { return u.gives(nobodysClient.asPassword(ada, peoplePassword)) }, true},
	} {
		u.sub(name, func(u *userDoor) {
			if got := test.obtain(u); (got.RefreshToken != "") != test.refresh {
				u.t.Errorf("a refresh token: %t, want %t", got.RefreshToken != "", test.refresh)
			}
		})
	}
	pub := withScope("pub", "public offline_access trusted")
	if got := u.gives(pub.exchange(u.code(pub, ada))); got.Scope != "public trusted" {
		t.Errorf("scope %q", got.Scope)
	}
	for _, scope := range []string{"offline_access", "public offline_access nothing", "public\u00a0offline_access"} {
		r, b := withScope("pub", scope), u.browserOf(ada)
		b.errorToClient(t, b.open(r.path()), r, "invalid_scope", "")
	}
	u.sub("a sign-in without a client", func(u *userDoor) {
		first := u.gives(nobodysClient.asPassword(ada, peoplePassword))
		second := u.gives(nobodysClient.refresh(first.RefreshToken))
		if second.ExpiresIn != 2419200 || claims(u.t, second.AccessToken)["client_id"] != store.BuiltInClientID {
			u.t.Errorf("expires_in %d, claims %v", second.ExpiresIn, claims(u.t, second.AccessToken))
		}
		for _, id := range []string{"conf", "other", "pub"} {
			u.denied(requestOf(id).refresh(second.RefreshToken), badGrant("refresh_token_of_another_client"))
		}
		u.denied(with(requestOf("conf").refresh(second.RefreshToken), "client_secret", "wrong"), badClient("client_authentication_failed"))
		u.denied(with(nobodysClient.refresh(second.RefreshToken), "client_id", store.BuiltInClientID), badClient("client_authentication_failed"))
		u.denied(nobodysClient.refresh(u.userTokens(requestOf("conf"), ada).RefreshToken), badClient("client_credentials_missing"))
		u.denied(nobodysClient.refresh(u.userTokens(requestOf("pub"), ada).RefreshToken), badClient("client_credentials_missing"))
		u.denied(nobodysClient.refresh(second.RefreshToken[1:]), badClient("client_credentials_missing"))
		u.denied(nobodysClient.refresh(""), badClient("client_credentials_missing"))
		third := u.gives(nobodysClient.refresh(second.RefreshToken))
		u.denied(nobodysClient.refresh(first.RefreshToken), badGrant("refresh_token_reused"))
		u.gone(first.AccessToken, second.AccessToken, third.AccessToken)
		u.denied(nobodysClient.refresh(third.RefreshToken), badGrant("refresh_token_revoked"))
	})
	// A refresh token that the scope asked for is usable even if the client is not registered for the grant.
	r := withScope("plain", "public refresh_token")
	u.gives(r.refresh(u.userTokens(r, ada).RefreshToken))
	for _, scope := range []string{"", "public"} {
		a := u.ask(t, "/oauth/token", with(r.refresh(""), "grant_type", "client_credentials", "scope", scope).Encode())
		issued(t, a) // with exactly the members of a server token
	}
}

// TestTokenAliasServesTwoGrants: the second path is the same endpoint without the other grants. A request for one of
// those uses nothing up.
func TestTokenAliasServesTwoGrants(t *testing.T) {
	const alias = "/legacy/token"
	u := openUsers(t, append(passwordRefresh, "\toauth_server\n", "\toauth_server {\n\t\ttoken_alias "+alias+"\n\t}\n")...)
	r := requestOf("conf")
	got := u.gives(r.asPassword(ada, peoplePassword), alias)
	got = u.gives(r.refresh(got.RefreshToken), alias)
	u.gives(r.refresh(got.RefreshToken))
	u.gives(nobodysClient.refresh(u.gives(nobodysClient.asPassword(ada, peoplePassword), alias).RefreshToken), alias)

	code := u.code(r, ada)
	elsewhere := outcome{status: 400, code: "unsupported_grant_type", reason: "grant_type_not_at_alias"}
	u.denied(r.exchange(code), elsewhere, alias)
	u.denied(with(r.refresh(""), "grant_type", "client_credentials"), elsewhere, alias)
	u.denied(with(r.refresh("x"), "grant_type", "nonsense"), outcome{status: 400, code: "unsupported_grant_type"}, alias)
	u.denied(with(r.refresh("x"), "grant_type", ""), missing("grant_type"), alias)
	u.denied(r.refresh("x"), badGrant("refresh_token_unknown"), alias)
	u.denied(r.asPassword(ada, wrongPassword), badGrant("sign_in_failed"), alias)
	u.denied(with(r.refresh("x"), "client_secret", "wrong"), badClient("client_authentication_failed"), alias)
	u.gives(r.exchange(code))
}

// TestT22T94A87NoCredentialIsStored: every credential issued in every flow and every secret of a client, sought in database, write-ahead log,
// Caddy's files, log, configuration and metrics → none is found, session ids are random and stored as digests. The store is a file, and the
// search covers everything that the process wrote.
func TestT22T94A87NoCredentialIsStored(t *testing.T) {
	u := openUsers(t, append(onDiskPeople, passwordRefresh...)...)
	for _, id := range []string{"conf", "pub", "nat", "legacy", "first"} {
		r := requestOf(id)
		form := r.exchange(u.code(r, ada))
		got := u.gives(form)
		if got.RefreshToken != "" {
			got = u.gives(r.refresh(got.RefreshToken))
			u.gives(r.refresh(got.RefreshToken))
		}
		u.code(r, ada) // and one that is not redeemed
		u.remember("code verifier", r.verifier)
		u.remember("client secret", r.secret)
		if id == "conf" || id == "pub" {
			u.revoked(t, u.revoke(r, got.AccessToken), true)
			u.denied(form, badGrant("code_replayed"))
		}
	}
	conf := requestOf("conf")
	generated := u.register(t, store.Client{ID: "app"})
	rotated, err := u.app().registry.Clients.RotateSecret(t.Context(), "app", time.Hour, nil)
	check(t, err)
	for _, secret := range []string{generated, rotated.Reveal()} {
		u.remember("generated client secret", secret)
		issued(t, u.ask(t, "/oauth/token", ccGrant, basic("app:"+secret)...))
	}
	member := u.addUser("member@acme.example", "acme", "member")
	u.userTokens(conf, "member@acme.example")
	u.gives(conf.asPassword(ada, peoplePassword))
	u.gives(nobodysClient.asPassword(ada, peoplePassword))
	u.denied(conf.asPassword(ada, wrongPassword), badGrant("sign_in_failed"))
	u.remember("wrong password", wrongPassword)
	created := u.createdByAdmin(u.userTokens(conf, ada).AccessToken, "u-grace")
	u.gives(conf.refresh(created.RefreshToken))
	const another = "another password of the member"
	u.remember("new password", another)
	u.must(http.StatusNoContent, "POST", "/oauth/users/"+member+"/password", `{"password":"`+another+`"}`)
	visitor := u.browser()
	for _, p := range []page{visitor.open(conf.path()), u.browserOf(ada).consentFor(t, conf)} {
		_, form := formIn(t, p)
		u.remember("form token", form.Get("form_token"))
		u.remember("pending request", form.Get("pending"))
	}
	u.browsers["a visitor"] = visitor
	for _, b := range u.browsers {
		for _, name := range []string{"session", "accessToken", "gatehouse_browser", "gatehouse_device"} {
			u.remember("cookie "+name, b.cookie(name))
		}
	}

	for _, path := range []string{"/config/", "/metrics"} {
		u.noneIn(path, sentBy(t, http.DefaultClient, http.MethodGet, "http://"+u.admin+path, "").body)
	}
	files := filesBelow(t, filepath.Dir(u.logFile))
	for path, text := range files {
		// The autosaved configuration contains what the test's Caddyfile has in plain text instead of naming a file.
		if filepath.Base(path) != "autosave.json" {
			u.noneIn(path, text)
			u.noneEncodedIn(path, text)
		}
		if filepath.Dir(path) != filepath.Dir(u.database()) && strings.Contains(text, string(u.storedKey().Private)) {
			t.Errorf("the signing key is in %s", path)
		}
	}
	if len(files) < 4 {
		t.Errorf("%d files", len(files))
	}
	if wal, err := os.ReadFile(u.database() + "-wal"); err != nil || !strings.Contains(string(wal), "u-ada") {
		t.Errorf("the search would find nothing: %d bytes, %v", len(wal), err)
	}
}

// filesBelow reads every file below a directory while Caddy runs. It skips a file that its writer renames before it
// is read.
func filesBelow(t *testing.T, directory string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			files[path] = string(text)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	check(t, err)
	return files
}

// noneEncodedIn looks for credentials in encodings that a store may use.
func (u *userDoor) noneEncodedIn(place, text string) {
	u.t.Helper()
	for credential, what := range u.credentials {
		for _, form := range []string{
			hex.EncodeToString([]byte(credential)), base64.RawStdEncoding.EncodeToString([]byte(credential)),
			base64.RawURLEncoding.EncodeToString([]byte(credential)), strings.ToLower(credential),
		} {
			if strings.Contains(text, form) {
				u.t.Errorf("%s holds a credential, encoded: a %s", place, what)
			}
		}
	}
}

// TestT68AServerTokenIsOneWhateverItsName: a client whose id is `admin` or an e-mail address → its tokens are server tokens without a user.
func TestT68AServerTokenIsOneWhateverItsName(t *testing.T) {
	d := openDoor(t, patient)
	for id, secret := range map[string]string{"admin": "admin-" + confSecret, "ada@acme.example": d.register(t, store.Client{ID: "ada@acme.example"})} {
		token, _ := issued(t, d.ask(t, "/oauth/token", ccGrant, basic(url.QueryEscape(id)+":"+secret)...))
		claim := claims(t, token)
		if claim["sub"] != id || claim["client_id"] != id {
			t.Errorf("sub %v, client_id %v", claim["sub"], claim["client_id"])
		}
		for _, absent := range []string{"sid", "org", "role", "auth_time", "act"} {
			if claim[absent] != nil {
				t.Errorf("%s: %v", absent, claim[absent])
			}
		}
		d.send(t, http.MethodGet, "/api/x", "", "Authorization", "Bearer "+token).is(t, http.StatusForbidden, "a route for trusted")
		d.upstream.none(t)
		d.send(t, http.MethodGet, "/any/x", "", "Authorization", "Bearer "+token).is(t, http.StatusOK, "the gate")
		seen := d.upstream.one(t)
		if seen.Header.Get("X-Auth-Subject") != id || seen.Header["X-Auth-Role"] != nil || seen.Header["X-Auth-Organisation"] != nil {
			t.Errorf("the upstream saw %v", seen.Header)
		}
	}
}
