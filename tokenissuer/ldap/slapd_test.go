package ldap_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/ldaptest"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// settingsOf returns settings for a server, with TLS and the service account.
func settingsOf(t *testing.T, s *ldaptest.Server) Settings {
	t.Helper()
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	return Settings{
		Name: "corp",
		Server: Server{
			URL: s.TLSURL, CA: string(pem), BindDN: ldaptest.ReaderDN, BindPassword: oauth.NewSecret(ldaptest.ReaderPassword),
			Timeout: 30 * time.Second, DialTimeout: 30 * time.Second, // the machine may be busy
		},
		People: People{UserBase: ldaptest.Base, UserFilter: "(&(objectClass=inetOrgPerson)(|(mail={email})(uid={username})))"},
		Groups: Groups{GroupBase: ldaptest.Groups},
	}
}

func open(t testing.TB, s Settings) *Directory {
	t.Helper()
	d, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func attempt(login, password string) signin.DirectoryAttempt {
	return signin.DirectoryAttempt{
		Login: login, Password: oauth.NewSecret(password), Address: "192.0.2.1", Admit: func(string) error { return nil },
	}
}

// wantNobody fails unless a login is refused for that reason. An empty reason means that the directory does not know the login.
func wantNobody(t *testing.T, d *Directory, login, password, reason string) {
	t.Helper()
	account, err := d.Authenticate(t.Context(), attempt(login, password))
	if account.Subject != "" || err == nil {
		t.Fatalf("%.80q was signed in as %q", login, account.Subject)
	}
	if reason == "" {
		if !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("%.80q: %v", login, err)
		}
		return
	}
	if got := oauth.AsError(err).Reason; got != reason {
		t.Fatalf("%.80q: reason %s, want %s: %v", login, got, reason, err)
	}
}

func signedIn(t *testing.T, d *Directory, login, password string) signin.Account {
	t.Helper()
	account, err := d.Authenticate(t.Context(), attempt(login, password))
	if err != nil {
		t.Fatalf("%q: %v", login, err)
	}
	slices.Sort(account.Groups)
	return account
}

// TestP30ToP34ADirectory: LDAP: the right password → the entry's identifier, address and groups (P40); a wrong or empty one, injected,
// unknown or double names → refused; bad certificates (P42) or service password (P45) → temporarily_unavailable; several addresses (P46)
// → the typed one.
func TestP30ToP34ADirectory(t *testing.T) {
	server := ldaptest.Start(t)
	settings := settingsOf(t, server)
	d := open(t, settings)

	t.Run("P30 the right password", func(t *testing.T) {
		a := signedIn(t, d, "ada@example.com", ldaptest.PasswordOf("ada"))
		if a.Provider != "corp" || a.Email != "ada@example.com" || !a.EmailVerified || a.Name != "The one called ada" ||
			a.Profile.PreferredUsername != "ada" || a.Profile.GivenName != "Given" || a.Profile.FamilyName != "Surname" {
			t.Errorf("account %+v, profile %+v", a, a.Profile)
		}
		if len(a.Subject) != 36 {
			t.Errorf("subject %q is no entryUUID", a.Subject)
		}
		if byName := signedIn(t, d, "ada", ldaptest.PasswordOf("ada")); byName.Subject != a.Subject {
			t.Error("the username leads to another subject")
		}
	})
	t.Run("P31 a wrong password", func(t *testing.T) {
		wantNobody(t, d, "ada@example.com", "wrong", ReasonRefused)
		wantNobody(t, d, "ada@example.com", ldaptest.PasswordOf("bob"), ReasonRefused)
	})
	t.Run("P31 nobody", func(t *testing.T) { wantNobody(t, d, "eve@example.com", "wrong", "") })
	t.Run("P32 an empty password", func(t *testing.T) { wantNobody(t, d, "ada@example.com", "", ReasonRefused) })
	t.Run("P33 injection", func(t *testing.T) {
		for _, login := range []string{
			"*", "a*", "*@example.com", "ada)(uid=*", "*)(uid=*", "*)(|(uid=*", "ada)(objectClass=*", "x)(|(mail=ada@example.com", `\2a`, `ada\00`,
			"{username}", "{email}", `uid=ada,ou=people,dc=example,dc=com`, "(uid=ada)",
		} {
			wantNobody(t, d, login, ldaptest.PasswordOf("ada"), "")
		}
		for _, login := range []string{"ada\x00", "ada\x00@example.com", "\u200bada", "a\u00adda", "ada\n", "\xff\xfe", "", strings.Repeat("a", 255)} {
			wantNobody(t, d, login, ldaptest.PasswordOf("ada"), "")
		}
	})
	t.Run("P33 names that want escaping", func(t *testing.T) {
		for _, login := range []string{"o'hara*@example.com", "o'*hara (x)"} {
			if a := signedIn(t, d, login, ldaptest.PasswordOf("o'*hara (x)")); a.Profile.PreferredUsername != "o'*hara (x)" {
				t.Errorf("%q is %q", login, a.Profile.PreferredUsername)
			}
		}
	})
	t.Run("P34 in two branches", func(t *testing.T) {
		wantNobody(t, d, "twin", ldaptest.PasswordOf("twin"), ReasonAmbiguous)
		one := settings
		one.UserBase = ldaptest.People
		signedIn(t, open(t, one), "twin", ldaptest.PasswordOf("twin"))
	})
	t.Run("P40 groups", func(t *testing.T) {
		for _, test := range []struct {
			name   string
			change func(*Settings)
			want   []string
		}{
			{"nested, with a cycle", func(*Settings) {}, []string{"dev", "engineering", "everybody", "staff"}},
			{"direct", func(s *Settings) { s.GroupDepth = 1 }, []string{"dev", "staff"}},
			{"one step up", func(s *Settings) { s.GroupDepth = 2 }, []string{"dev", "engineering", "staff"}},
			{"by a filter", func(s *Settings) { s.GroupFilter = "(&(objectClass=groupOfNames)(member={dn}))" }, []string{"engineering", "everybody", "staff"}},
			{"listed, without a base", func(s *Settings) { s.GroupBase, s.Attributes.Groups = "", "memberOf" }, []string{"admins", "engineering", "everybody", "staff"}},
			{"listed and searched, below the base alone", func(s *Settings) { s.Attributes.Groups = "memberOf" }, []string{"dev", "engineering", "everybody", "staff"}},
			{"not asked for", func(s *Settings) { s.GroupBase = "" }, nil},
		} {
			t.Run(test.name, func(t *testing.T) {
				changed := settings
				test.change(&changed)
				a := signedIn(t, open(t, changed), "ada", ldaptest.PasswordOf("ada"))
				if !slices.Equal(a.Groups, test.want) || (a.Groups == nil) != (test.want == nil) {
					t.Errorf("groups %q, want %q", a.Groups, test.want)
				}
			})
		}
		if a := signedIn(t, d, "o'*hara (x)", ldaptest.PasswordOf("o'*hara (x)")); a.Groups == nil || len(a.Groups) > 0 {
			t.Errorf("who is in no group has %#v: an empty list takes the person out of all", a.Groups)
		}
	})
	t.Run("P42 StartTLS, and a name that the certificate lacks", func(t *testing.T) {
		secured := settings
		secured.URL, secured.StartTLS = server.URL, true
		signedIn(t, open(t, secured), "ada", ldaptest.PasswordOf("ada"))
		other := secured
		other.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
		wantNobody(t, open(t, other), "ada", ldaptest.PasswordOf("ada"), ReasonUnavailable)
		unknown := settings
		unknown.CA = ""
		wantNobody(t, open(t, unknown), "ada", ldaptest.PasswordOf("ada"), ReasonUnavailable)
	})
	t.Run("P44 the subject", func(t *testing.T) {
		named := settings
		named.Attributes.Subject = "employeeNumber"
		wantNobody(t, open(t, named), "ada", ldaptest.PasswordOf("ada"), ReasonUnavailable)
		server.Modify(ldaptest.DN("ada"), "employeeNumber", "4711")
		if a := signedIn(t, open(t, named), "ada", ldaptest.PasswordOf("ada")); a.Subject != "4711" {
			t.Errorf("subject %q", a.Subject)
		}
	})
	t.Run("P45 a service account whose password has changed", func(t *testing.T) {
		stale := settings
		stale.BindPassword = oauth.NewSecret("of yesterday")
		broken := open(t, stale)
		wantNobody(t, broken, "ada", ldaptest.PasswordOf("ada"), ReasonUnavailable)
		if broken.State().DownSince.IsZero() || strings.Contains(broken.State().LastError, "yesterday") {
			t.Errorf("state %+v", broken.State())
		}
	})
	t.Run("P46 addresses", func(t *testing.T) {
		server.Modify(ldaptest.DN("bob"), "mail", "bob@example.com", "robert@example.com")
		if a := signedIn(t, d, "robert@example.com", ldaptest.PasswordOf("bob")); a.Email != "robert@example.com" {
			t.Errorf("address %q", a.Email)
		}
		unverified := settings
		unverified.EmailUnverified = true
		if a := signedIn(t, open(t, unverified), "bob", ldaptest.PasswordOf("bob")); a.EmailVerified || a.Email == "" {
			t.Errorf("account %+v", a)
		}
	})
	t.Run("anonymous searches", func(t *testing.T) {
		anonymous := settings
		anonymous.BindDN, anonymous.BindPassword = "", oauth.Secret{}
		signedIn(t, open(t, anonymous), "ada", ldaptest.PasswordOf("ada"))
	})
	t.Run("too many have failed for this person", func(t *testing.T) {
		var subjects []string
		a := attempt("ada", ldaptest.PasswordOf("ada"))
		a.Admit = func(subject string) error {
			subjects = append(subjects, subject)
			return oauth.NewError(oauth.RateLimited, "sign_in_throttled")
		}
		_, err := d.Authenticate(t.Context(), a)
		tokentest.WantCode(t, err, oauth.RateLimited)
		if len(subjects) != 1 || len(subjects[0]) != 36 {
			t.Errorf("admitted %q", subjects)
		}
	})
	t.Run("what an operator sees", func(t *testing.T) {
		for _, test := range []struct {
			name, login string
			change      func(*Settings)
			want        string // one of the steps and its result
		}{
			{"all is well", "ada", func(*Settings) {}, "groups passed"},
			{"nobody named", "", func(*Settings) {}, "user_filter advice"},
			{"nobody found", "eve", func(*Settings) {}, "user_filter failed"},
			{"two found", "twin", func(*Settings) {}, "user_filter failed"},
			{"no such host", "", func(s *Settings) { s.URL = "ldaps://gatehouse.invalid" }, "address failed"},
			{"no such authority", "", func(s *Settings) { s.CA = "" }, "connection failed"},
			{"wrong password", "", func(s *Settings) { s.BindPassword = oauth.NewSecret("x") }, "bind failed"},
			{"no such base", "", func(s *Settings) { s.UserBase = "ou=gone," + ldaptest.Base }, "user_base failed"},
			{"no such group base", "ada", func(s *Settings) { s.GroupBase = "ou=gone," + ldaptest.Base }, "group_base failed"},
		} {
			t.Run(test.name, func(t *testing.T) {
				changed := settings
				test.change(&changed)
				steps := open(t, changed).Test(t.Context(), test.login)
				if !slices.ContainsFunc(steps, func(s signin.Step) bool { return s.Name+" "+string(s.Result) == test.want }) {
					t.Errorf("no %s: %+v", test.want, steps)
				}
			})
		}
	})
	t.Run("P50 the directory comes back", func(t *testing.T) {
		signedIn(t, d, "ada", ldaptest.PasswordOf("ada"))
		server.Stop()
		wantNobody(t, d, "ada", ldaptest.PasswordOf("ada"), ReasonUnavailable)
		if d.State().DownSince.IsZero() {
			t.Error("nobody has noticed")
		}
		server.Run()
		signedIn(t, d, "ada", ldaptest.PasswordOf("ada"))
		if !d.State().DownSince.IsZero() {
			t.Errorf("state %+v", d.State())
		}
	})
}
