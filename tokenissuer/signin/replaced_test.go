package signin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// declares sets the declared users, as a reload does.
func (p *providerPeople) declares(users ...*store.User) {
	p.Helper()
	for _, u := range users {
		u.Name, u.Status, u.External = u.ID, store.UserActive, true
	}
	declared, err := store.NewStaticDirectory(store.Declarations{Users: users})
	p.must(err)
	p.registry.People.Declared = declared
	p.Families.Directory = store.OverlayDirectory{Declared: declared, Stored: p.stored.Directory()}
}

// session opens a session of a user who signed in at google.
func (p *providerPeople) session(id string, user *store.User) {
	p.Helper()
	outcome, err := p.stored.Families.AddFamily(p.Context(), &store.TokenFamily{
		ID: id, User: store.FamilyUser{ID: user.ID, Version: user.Version, Declared: user.Declared}, Grant: store.Grant{Origin: store.BrowserSession}, SignIn: store.SignIn{Provider: "google"},
		Validity: store.Validity{CreatedAt: p.at, ExpiresAt: p.at.Add(store.Day)}, Refresh: store.RefreshState{RotatedAt: p.at},
	})
	if err != nil || outcome != store.Done {
		p.Fatal(outcome, err)
	}
}

func (p *providerPeople) lives(id string) bool {
	p.Helper()
	f, err := p.stored.Families.Family(p.Context(), id)
	p.must(err)
	return f.RevokedAt.IsZero()
}

// TestP114TheNextOwnerOfAnIDIsAnotherPerson: the id of a declared user given to another person → the account of the former person has no
// user, its sign-ins have ended.
func TestP114TheNextOwnerOfAnIDIsAnotherPerson(t *testing.T) {
	dora, dan := google("3", "dora@acme.example", true), google("4", "dan@acme.example", true)
	next := func() *store.User { return &store.User{ID: "u-dora", Email: "dan@acme.example"} }
	for name, reload := range map[string]func(p *providerPeople){
		"at once": func(p *providerPeople) { p.declares(next()) },
		"after a while": func(p *providerPeople) {
			p.declares()
			p.must(p.registry.Reconcile(p.Context()))
			p.refuses(dora, both, ReasonRemoved)
			p.declares(next())
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t)
			p.must(p.registry.Reconcile(t.Context()))
			p.session("of dora", p.signsIn(dora, links))
			reload(p)
			p.refuses(dora, Rules{}, ReasonRemoved) // even before the store has learned of the configuration
			p.refuses(dora, both, ReasonRemoved)
			p.must(p.registry.Reconcile(t.Context()))
			if p.lives("of dora") {
				t.Error("the sign-in of the person before lives")
			}
			if user := p.signsIn(dan, links); user.ID != "u-dora" || user.Email != "dan@acme.example" {
				t.Errorf("the next owner is %+v", user)
			}
			if linked := p.identities("u-dora"); len(linked) != 1 || linked[0].Subject != "4" {
				t.Errorf("linked are %+v", linked)
			}
			p.refuses(dora, links, ReasonUnknown)
		})
	}
}

// TestP114AStoredUserOfTheIDIsAnotherPerson: a declaration hides a stored user and is later removed.
func TestP114AStoredUserOfTheIDIsAnotherPerson(t *testing.T) {
	p := newPeople(t)
	p.must(p.stored.Users.AddUser(t.Context(), &store.User{ID: "u-dora", Email: "old@acme.example", Name: "Old", Status: store.UserActive, CreatedAt: p.at}, true))
	p.must(p.registry.Reconcile(t.Context()))
	dora := google("3", "dora@acme.example", true)
	p.signsIn(dora, links)
	if hidden, err := p.stored.Users.User(t.Context(), "u-dora"); err != nil || hidden.External {
		t.Errorf("the hidden user is %+v, %v", hidden, err)
	}
	p.declares()
	p.refuses(dora, both, ReasonRemoved)
	p.must(p.registry.Reconcile(t.Context()))
	if linked := p.identities("u-dora"); len(linked) > 0 {
		t.Errorf("linked are %+v", linked)
	}
	if user := p.signsIn(google("5", "old@acme.example", true), links); user.ID != "u-dora" || user.Declared {
		t.Errorf("its owner is %+v", user)
	}
}

// TestP115DeclaredPeopleStayThemselves: a declared user in the next configuration, under another id with the same verified address → the
// same person. This also holds for a person with another address at the provider.
func TestP115DeclaredPeopleStayThemselves(t *testing.T) {
	p := newPeople(t)
	dora := google("3", "dora@acme.example", true)
	declare := func(id string) {
		p.declares(&store.User{ID: id, Email: "dora@acme.example"})
		p.must(p.registry.Reconcile(t.Context()))
	}
	is := func(account Account, rules Rules, id string) {
		t.Helper()
		if user := p.signsIn(account, rules); user.ID != id || len(p.identities(id)) != 1 {
			t.Errorf("signed in as %+v with %+v", user, p.identities(id))
		}
	}
	declare("u-dora")
	p.session("of dora", p.signsIn(dora, links))
	declare("u-dora")
	is(dora, Rules{}, "u-dora")
	elsewhere := dora
	elsewhere.Email = "d@elsewhere.example"
	is(elsewhere, Rules{}, "u-dora")
	if !p.lives("of dora") {
		t.Error("the sign-in has ended")
	}
	p.declares()
	p.must(p.registry.Reconcile(t.Context()))
	p.refuses(dora, both, ReasonRemoved)
	declare("u-dora")
	is(dora, Rules{}, "u-dora")
	declare("u-dora2")
	p.refuses(dora, Rules{}, ReasonRemoved)
	is(dora, links, "u-dora2")
	if before := p.identities("u-dora"); len(before) > 0 {
		t.Errorf("and as %+v", before)
	}
}

// TestP113ASignInBesideTheUnlink: the day's last use of an identity that is unlinked meanwhile → not added again, the sign-in is refused.
func TestP113ASignInBesideTheUnlink(t *testing.T) {
	p := newPeople(t)
	ada := google("1", "ada@acme.example", true)
	p.signsIn(ada, links)
	p.at = p.at.Add(25 * time.Hour)
	p.stored.beforeTouch = func() {
		_, err := p.stored.Identities.UnlinkIdentity(t.Context(), store.Unlinking{Provider: "google", Subject: "1", UserID: "u-ada", MayBeLast: true}, p.Families.Ending())
		p.must(err)
	}
	p.stored.writes.Store(0)
	if user, err := p.User(t.Context(), ada, links); oauth.AsError(err).Reason != ReasonUnlinked {
		t.Errorf("signed in as %+v, %v", user, err)
	}
	if linked := p.identities("u-ada"); len(linked) > 0 {
		t.Errorf("linked are %+v", linked)
	}
}

// TestQ126PersonalTokensOfADeclaredUserWhoIsGone: a declared user with tokens is taken out and the id given to another → the tokens are
// gone.
func TestQ126PersonalTokensOfADeclaredUserWhoIsGone(t *testing.T) {
	p := newPeople(t)
	p.must(p.registry.Reconcile(t.Context()))
	record := &store.PersonalToken{ID: "1", UserID: "u-dora", UserDeclared: true, CreatedAt: p.at, ExpiresAt: p.at.Add(store.Day)}
	p.must(p.stored.PersonalTokens.AddPersonalToken(t.Context(), record, ""))
	p.must(p.registry.Reconcile(t.Context()))
	if _, err := p.stored.PersonalTokens.PersonalToken(t.Context(), record.Digest); err != nil {
		t.Fatalf("while she is there: %v", err)
	}
	p.declares()
	p.must(p.registry.Reconcile(t.Context()))
	if _, err := p.stored.PersonalTokens.PersonalToken(t.Context(), record.Digest); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("afterwards: %v", err)
	}
}
