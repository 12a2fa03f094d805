package caddymodule

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// readMembers reads an app of those members beside the issuer.
func readMembers(t *testing.T, members string) settings {
	t.Helper()
	app := new(App)
	if err := json.Unmarshal([]byte(`{"issuer":"https://a.example"`+members+`}`), app); err != nil {
		t.Fatal(err)
	}
	s, err := app.read()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReadGrace: 0 turns the grace off, and nothing leaves it as it is.
func TestReadGrace(t *testing.T) {
	for _, test := range []struct {
		name, members string
		want          time.Duration
	}{
		{"nothing", ``, 30 * time.Second},
		{"no grace among tokens", `,"tokens":{"refresh":"1d"}`, 30 * time.Second},
		{"off", `,"tokens":{"refresh_grace":0}`, store.NoGrace},
		{"off as text", `,"tokens":{"refresh_grace":"0s"}`, store.NoGrace},
		{"longer", `,"tokens":{"refresh_grace":"5m"}`, 5 * time.Minute},
	} {
		if got := readMembers(t, test.members).lifetimes.RefreshGrace; got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	s := readMembers(t, `,"tokens":{"refresh_grace":"1m"},"clients":[{"id":"a","type":"public","tokens":{"refresh_grace":0,"code":"10s"}},{"id":"b","type":"public"}]`)
	for id, want := range map[string]store.Lifetimes{"a": {RefreshGrace: store.NoGrace, Code: 10 * time.Second}, "b": {}} {
		client, err := s.declared.Client(t.Context(), id)
		if err != nil || client.Lifetimes != want {
			t.Errorf("client %s has %+v, %v", id, client.Lifetimes, err)
		}
	}
}

func TestReadLimits(t *testing.T) {
	perMinute := func(n int) tokenissuer.Limit { return tokenissuer.Limit{Failures: n, Window: time.Minute} }
	none := tokenissuer.Limit{}
	for _, test := range []struct {
		name, members            string
		client, account, address tokenissuer.Limit
	}{
		{"nothing", ``, perMinute(20), perMinute(10), perMinute(30)},
		{"account alone", `,"limits":{"login_account":{"failures":3,"window":"1m"}}`, perMinute(20), perMinute(3), perMinute(30)},
		{"address alone", `,"limits":{"login_ip":{"failures":3,"window":"1m"}}`, perMinute(20), perMinute(10), perMinute(3)},
		{"logins off", `,"limits":{"login_account":{"off":true},"login_ip":{"off":true}}`, perMinute(20), none, none},
		{"clients off", `,"limits":{"client":{"off":true}}`, none, perMinute(10), perMinute(30)},
	} {
		s := readMembers(t, test.members)
		if s.clientLimit != test.client || s.accountLimit != test.account || s.addressLimit != test.address {
			t.Errorf("%s: %v, %v, %v", test.name, s.clientLimit, s.accountLimit, s.addressLimit)
		}
	}
}

// TestReadPeople: declared people are in the directory, and the schemes of their hashes are known to the issuer, which
// spends as much on an address that it does not know.
func TestReadPeople(t *testing.T) {
	const argon = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA"
	path := filepath.Join(t.TempDir(), "bob")
	if err := os.WriteFile(path, []byte(argon+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := readMembers(t, `,"organisations":[{"id":"acme","name":"Acme Ltd"},{"id":"globex"}],"users":[
		{"id":"u-ada","email":"ada@acme.example","organisation":"acme","role":"admin","password_hash":"`+adaHash+`"},
		{"id":"u-bob","email":"bob@globex.example","name":"Bob","organisation":"globex","password_hash":"{file.`+path+`}"}]`)
	if !slices.Equal(s.schemes, []string{"$2a$04", "$argon2id$v=19$m=64,t=1,p=1"}) {
		t.Errorf("schemes %q", s.schemes)
	}
	ada, err := s.declared.User(t.Context(), "u-ada")
	if err != nil || ada.Role != store.RoleAdmin || ada.Name != "ada@acme.example" || !ada.IsActive() || !ada.Declared {
		t.Errorf("ada is %+v, %v", ada, err)
	}
	bob, err := s.declared.UserByEmail(t.Context(), "bob@globex.example")
	if err != nil || bob.ID != "u-bob" || bob.Role != store.RoleMember || bob.PasswordHash.Reveal() != argon {
		t.Errorf("bob is %+v, %v", bob, err)
	}
	for id, name := range map[string]string{"acme": "Acme Ltd", "globex": "globex"} {
		if o, err := s.declared.Organisation(t.Context(), id); err != nil || o.Name != name || !o.Declared {
			t.Errorf("%s is %+v, %v", id, o, err)
		}
	}
}

func TestReadPasswordGrant(t *testing.T) {
	for members, want := range map[string]*tokenissuer.PasswordRules{
		``: nil, `,"password_grant":{}`: {}, `,"password_grant":{"refresh_tokens":true}`: {Refresh: true},
	} {
		app := new(App)
		if err := json.Unmarshal([]byte(`{"issuer":"https://a.example"`+members+`}`), app); err != nil || !reflect.DeepEqual(app.PasswordGrant, want) {
			t.Errorf("%s: %+v, %v", members, app.PasswordGrant, err)
		}
	}
}

// TestReadBrand reads each kind of logo by its suffix.
func TestReadBrand(t *testing.T) {
	dir := t.TempDir()
	for suffix, media := range map[string]string{
		"svg": "image/svg+xml", "SVG": "image/svg+xml", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp",
	} {
		path := filepath.Join(dir, "logo."+suffix)
		content := make([]byte, maxLogo)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := readMembers(t, `,"brand":{"name":"Acme","logo":"`+path+`"}`)
		if want := (pages.Brand{Name: "Acme", Logo: &pages.Logo{MediaType: media, Data: content}}); !reflect.DeepEqual(s.brand, want) {
			t.Errorf("%s: %q, %s", suffix, s.brand.Name, s.brand.Logo.MediaType)
		}
	}
}
