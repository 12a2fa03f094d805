package signin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestP66ALaterSignInWritesWhatHasChanged: a later sign-in: nothing new → no write; groups or address changed → written, sessions end; an
// address now unverified or taken → no longer the user's.
func TestP66ALaterSignInWritesWhatHasChanged(t *testing.T) {
	p := newPeople(t)
	account := google("1", "grace@acme.example", true)
	account.Groups = []string{"b", "a"}
	user := p.signsIn(account, creates)
	family := &store.TokenFamily{
		ID:       "a-session",
		User:     store.FamilyUser{ID: user.ID, Version: user.Version},
		Grant:    store.Grant{Origin: store.BrowserSession},
		Validity: store.Validity{CreatedAt: p.at, ExpiresAt: p.at.Add(store.Day)},
		Refresh:  store.RefreshState{RotatedAt: p.at},
	}
	if outcome, err := p.stored.Families.AddFamily(t.Context(), family); err != nil || outcome != store.Done {
		t.Fatal(outcome, err)
	}
	ended := func() bool {
		f, err := p.stored.Families.Family(t.Context(), family.ID)
		p.must(err)
		return !f.RevokedAt.IsZero()
	}
	writes := func(want int64, account Account) *store.User {
		t.Helper()
		before := p.stored.writes.Load()
		user := p.signsIn(account, Rules{})
		if got := p.stored.writes.Load() - before; got != want {
			t.Errorf("%d writes, not %d", got, want)
		}
		return user
	}
	account.Groups = []string{"a", "b", "a"} // in another order, with a duplicate
	writes(0, account)
	p.at = p.at.Add(23 * time.Hour)
	writes(0, account)
	p.at = p.at.Add(2 * time.Hour)
	writes(1, account) // the day of its last use
	if got := p.identities(user.ID)[0]; !got.LastUsedAt.Equal(p.at) || got.LinkedAt.Equal(p.at) {
		t.Errorf("kept %+v", got)
	}
	account.Groups = nil // the provider sends no groups
	if user := writes(0, account); !same(user.AllGroups(), []string{"a", "b"}) {
		t.Errorf("groups %q", user.AllGroups())
	}
	account.Name, account.Email, account.Profile = "Grace B. Hopper", "hopper@acme.example", &store.Profile{FamilyName: "Hopper"}
	if user := writes(1, account); user.Name != "Grace B. Hopper" || user.Email != "hopper@acme.example" || !user.EmailVerified() || user.Profile.FamilyName != "Hopper" {
		t.Errorf("became %+v", user)
	}
	if ended() {
		t.Error("a new name has ended the session")
	}
	for name, email := range map[string]string{"taken": "ada@acme.example", "declared": "dora@acme.example", "unusable": "nothing", "none": ""} {
		moved := account
		moved.Email = email
		user, err := p.User(t.Context(), moved, Rules{})
		if err != nil || user.Email != store.UnknownEmail(user.ID) || user.EmailVerified() {
			t.Errorf("%s: %+v, %v", name, user, err)
		}
		if again := writes(1, account); again.Email != "hopper@acme.example" || !again.EmailVerified() {
			t.Errorf("%s, and back: %+v", name, again)
		}
	}
	unproved := account
	unproved.Email, unproved.EmailVerified = "ceo@acme.example", false
	if user := writes(1, unproved); user.Email != store.UnknownEmail(user.ID) || user.EmailVerified() {
		t.Errorf("an address that nobody has verified: %+v", user)
	}
	writes(1, account)
	account.EmailVerified = false
	if user := writes(1, account); user.EmailVerified() {
		t.Error("the provider has taken its word back, and the address is verified still")
	}
	account.Groups = []string{}
	if user := writes(1, account); len(user.AllGroups()) != 0 {
		t.Errorf("groups %q", user.AllGroups())
	}
	if !ended() {
		t.Error("other groups have not ended the session")
	}
}

// TestP66OperatorsKeepTheirUsers: a provider linked to an operator's user changes only the groups, and nothing of a declared user.
func TestP66OperatorsKeepTheirUsers(t *testing.T) {
	p := newPeople(t)
	account := google("1", "ada@acme.example", true)
	account.Profile, account.Groups = &store.Profile{GivenName: "Other"}, []string{"new"}
	user := p.signsIn(account, links)
	if !same(user.AllGroups(), []string{"founders", "new"}) {
		t.Errorf("groups %q", user.AllGroups())
	}
	account.Email = "elsewhere@acme.example"
	if user = p.signsIn(account, links); user.Name != "Ada" || user.Email != "ada@acme.example" || user.Profile != nil {
		t.Errorf("became %+v", user)
	}
	declared := google("2", "dora@acme.example", true)
	declared.Groups = []string{"admins"}
	for range 2 {
		if user := p.signsIn(declared, links); !same(user.AllGroups(), []string{"desk"}) || user.Name != "Dora" {
			t.Errorf("became %+v", user)
		}
	}
}

// TestP67HostileGroupsAndNames: thousands of groups, control characters, endless names → what a user can have, the same each time.
func TestP67HostileGroupsAndNames(t *testing.T) {
	p := newPeople(t)
	account := google("1", "grace@acme.example", true)
	account.Name = "line\r\nX-Auth-Role: admin"
	account.Profile = &store.Profile{Picture: "javascript:alert(1)"}
	account.Groups = []string{"ok", "ok", "a,b", "tab\t", "nul\x00", "\xff", "", " ", " ok", "ok ", strings.Repeat("x", 5000), "ünïcode", "line\nbreak", "\u202eevil"}
	user := p.signsIn(account, creates)
	if !same(user.AllGroups(), []string{"ok", "ünïcode"}) || user.Name != "grace@acme.example" || user.Profile != nil {
		t.Errorf("created %+v", user)
	}
	account.Groups = nil
	for i := range 20_000 {
		account.Groups = append(account.Groups, fmt.Sprintf("group-%05d", (i*7919)%20_000))
	}
	first := p.signsIn(account, Rules{}).AllGroups()
	if err := store.ValidateGroups(first); err != nil || len(first) < 50 || first[0] != "group-00000" {
		t.Errorf("%d groups from %q, %v", len(first), first[0], err)
	}
	account.Groups = append(account.Groups[5000:], account.Groups[:5000]...)
	before := p.stored.writes.Load()
	if second := p.signsIn(account, Rules{}).AllGroups(); !same(first, second) || p.stored.writes.Load() != before {
		t.Error("another order made other groups")
	}
}

// TestP68TheStoreIsAway: during an outage the error is temporarily_unavailable, neither a success nor a refusal.
func TestP68TheStoreIsAway(t *testing.T) {
	p := newPeople(t)
	p.stored.away = true
	_, err := p.User(t.Context(), google("1", "ada@acme.example", true), both)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

// TestP118GroupsOfAProviderCanBeKeptApart: `group_prefix` → a provider's groups never equal another's; `allow group` goes by the bare
// name.
func TestP118GroupsOfAProviderCanBeKeptApart(t *testing.T) {
	p := newPeople(t)
	account := google("1", "grace@acme.example", true)
	account.Groups = []string{"admins", "corp/admins", ""}
	rules := Rules{Create: &Creation{}, GroupPrefix: "corp/", AllowGroups: []string{"admins"}}
	for range 2 { // created, then updated
		if user := p.signsIn(account, rules); !same(user.AllGroups(), []string{"corp/", "corp/admins", "corp/corp/admins"}) {
			t.Errorf("groups %q", user.AllGroups())
		}
	}
	account.Groups = nil // the provider sends no groups
	if user := p.signsIn(account, Rules{GroupPrefix: "corp/"}); len(user.AllGroups()) != 3 {
		t.Errorf("groups %q", user.AllGroups())
	}
	rules.AllowGroups = []string{"corp/other"}
	account.Groups = []string{"other"}
	p.refuses(account, rules, ReasonGroup)
}
