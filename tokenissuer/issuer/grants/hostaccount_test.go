package grants_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// atHost stores a host session that depends on a sign-in. It is redeemed unless fresh is set.
func (f *flow) atHost(s *signin.Session, host string, fresh bool) string {
	f.tb.Helper()
	now := f.clock()
	family := &store.TokenFamily{
		ID:            oauth.NewID(),
		User:          store.FamilyUser{ID: s.User.ID, Version: s.User.Version, Declared: s.User.Declared},
		Grant:         store.Grant{ClientID: store.BuiltInClientID, Origin: store.HostSession},
		SignIn:        store.SignIn{SessionID: s.Family.ID},
		Validity:      store.Validity{CreatedAt: now, ExpiresAt: s.Family.ExpiresAt},
		Refresh:       store.RefreshState{RotatedAt: now},
		Code:          store.CodeBinding{RequestID: oauth.NewID(), RedirectURI: "https://" + host + "/oauth/callback", ExpiresAt: now.Add(time.Minute)},
		Preconditions: store.Preconditions{SessionID: s.Family.ID},
	}
	if !fresh {
		family.Code.SpentAt = now
	}
	if outcome, err := f.store.Families.AddFamily(f.tb.Context(), family); outcome != store.Done || err != nil {
		f.tb.Fatal(outcome, err)
	}
	return family.ID
}

// TestAHostStandsOnceOnTheAccountPage: several sessions at one host from one sign-in, as after the back button, are shown once and end
// together.
func TestAHostStandsOnceOnTheAccountPage(t *testing.T) {
	f := newFlow(t)
	ada := f.user("ada")
	s, _ := f.open("ada")
	other, _ := f.open("ada")
	var app []string
	for range 3 {
		app = append(app, f.atHost(s, "app.example.com", false))
		f.wait(time.Minute)
	}
	wiki, elsewhere := f.atHost(s, "wiki.example.com", false), f.atHost(other, "app.example.com", false)
	for i, end := range []string{"", app[0]} {
		if end != "" {
			f.ended(f.EndSessionOf(t.Context(), ada, end))
		}
		allowed, err := people.Accounts{Sessions: f.Server.Sessions}.Of(t.Context(), ada)
		f.must(err)
		var names []string
		for _, host := range allowed.Hosts[s.Family.ID] {
			names = append(names, host.Host)
		}
		wantTexts(t, names, [][]string{{"wiki.example.com", "app.example.com"}, {"wiki.example.com"}}[i]...)
		if len(allowed.Hosts[other.Family.ID]) != 1 {
			t.Errorf("the other browser: %+v", allowed.Hosts)
		}
	}
	for id, ended := range map[string]bool{app[0]: true, app[1]: true, app[2]: true, wiki: false, elsewhere: false} {
		if family, err := f.store.Families.Family(t.Context(), id); err != nil || family.RevokedAt.IsZero() == ended {
			t.Errorf("%+v, %v", family, err)
		}
	}
}

// TestS66TheAccountHasTheHostsOfEachSession: the account page and `user sessions` → host sessions under their sign-in, with last use;
// each ends alone. They are not listed as applications, and only their user can end them.
func TestS66TheAccountHasTheHostsOfEachSession(t *testing.T) {
	f := newFlow(t)
	ada := f.user("ada")
	first, _ := f.open("ada")
	second, _ := f.open("ada")
	f.atHost(second, "app.example.com", true) // not redeemed
	rests := f.atHost(second, "old.example.com", false)
	f.wait(5 * 24 * time.Hour)
	app := f.atHost(second, "app.example.com", false)
	f.wait(time.Hour)
	wiki := f.atHost(second, "wiki.example.com:8443", false)
	hosts := func(of *signin.Session) (names []string) {
		t.Helper()
		allowed, err := people.Accounts{Sessions: f.Server.Sessions}.Of(t.Context(), ada)
		f.must(err)
		if len(allowed.Applications) != 0 {
			t.Errorf("the applications are %+v", allowed.Applications)
		}
		for _, host := range allowed.Hosts[of.Family.ID] {
			names = append(names, host.Host+" "+host.ID)
			if host.LastUsed.IsZero() || host.Since.IsZero() {
				t.Errorf("the host session is %+v", host)
			}
		}
		return names
	}
	wantTexts(t, hosts(second), "wiki.example.com:8443 "+wiki, "app.example.com "+app, "old.example.com "+rests)
	wantTexts(t, hosts(first))

	// The sign-ins are unused for a week, and one of them is still used at hosts.
	f.wait(2 * 24 * time.Hour)
	allowed, err := people.Accounts{Sessions: f.Server.Sessions}.Of(t.Context(), ada)
	f.must(err)
	if len(allowed.Sessions) != 1 || allowed.Sessions[0].ID != second.Family.ID {
		t.Errorf("the sessions are %+v", allowed.Sessions)
	}
	wantTexts(t, hosts(second), "wiki.example.com:8443 "+wiki, "app.example.com "+app)

	if f.ended(f.EndSessionOf(t.Context(), f.user("eve"), app)) {
		t.Error("a session of another user ended")
	}
	wantTexts(t, hosts(second), "wiki.example.com:8443 "+wiki, "app.example.com "+app)
	f.ended(f.EndSessionOf(t.Context(), ada, app))
	wantTexts(t, hosts(second), "wiki.example.com:8443 "+wiki)
	f.ended(f.EndSessionOf(t.Context(), ada, second.Family.ID))
	wantTexts(t, hosts(second))
	if f, err := f.store.Families.Family(t.Context(), wiki); err != nil || f.RevokedAt.IsZero() {
		t.Errorf("with its sign-in the host session is %+v, %v", f, err)
	}
}

// wantTexts compares two lists.
func wantTexts(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
