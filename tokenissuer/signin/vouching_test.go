package signin_test

import (
	"testing"
	"time"

	. "github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// at returns an account at a provider.
func at(provider, subject, email string, verified bool) Account {
	return Account{Provider: provider, Subject: subject, Email: email, EmailVerified: verified, Name: "Bob"}
}

const bob = "bob@acme.example"

// laterStatements are later statements of a provider that had verified bob's address and no longer does.
var laterStatements = map[string]Account{
	"another address":   at("one", "bob", "old@acme.example", true),
	"the same":          at("one", "bob", bob, false),
	"an unverified one": at("one", "bob", "x@acme.example", false),
	"a taken one":       at("one", "bob", "ada@acme.example", true),
	"a declared one":    at("one", "bob", "dora@acme.example", true),
	"none":              at("one", "bob", "", false),
	"no address":        at("one", "bob", "nothing", true),
	"another kind":      at("one", "bob", "bob@acme.example.", false),
}

// TestV1AWordThatIsTakenBackSharesNobody: a provider stops vouching for an address that another provider then brings → two users or a
// refusal, never one account shared.
func TestV1AWordThatIsTakenBackSharesNobody(t *testing.T) {
	loose := both
	loose.AllowUnverifiedEmail = true
	for name, later := range laterStatements {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t)
			before := p.signsIn(at("one", "bob", bob, true), both)
			old := p.signsIn(later, both)
			if old.ID != before.ID || old.Email == bob || old.EmailVerified() && later.Email != old.Email {
				t.Errorf("became %+v", old)
			}
			next := p.signsIn(at("two", "bob", bob, true), both)
			if next.ID == old.ID || next.Email != bob || next.EmailVerifiedBy != store.VerifiedBy("two") {
				t.Errorf("the next Bob is %+v", next)
			}
			if again := p.signsIn(later, both); again.ID != old.ID || again.Email == bob {
				t.Errorf("the one before became %+v", again)
			}
			if back := p.signsIn(at("one", "bob", bob, true), both); back.ID != old.ID || back.EmailVerified() {
				t.Errorf("and %+v, though the address is the next one's", back)
			}
		})
		t.Run(name+", allowed unverified", func(t *testing.T) {
			p := newPeople(t)
			p.signsIn(at("one", "bob", bob, true), loose)
			old := p.signsIn(later, loose)
			if old.EmailVerified() && later.Email != old.Email {
				t.Errorf("became %+v", old)
			}
			next, err := p.User(t.Context(), at("two", "bob", bob, true), both)
			if err == nil && next.ID == old.ID {
				t.Errorf("the next Bob is the same, %+v", next)
			}
		})
	}
}

// TestV1OfAUserOfTheOperator: the operator's user keeps the address, unverified unless the operator has verified it. Another person with
// that address at another provider is not linked to the user. The same holds for a declared user.
func TestV1OfAUserOfTheOperator(t *testing.T) {
	for name, c := range map[string]struct {
		id, email string
		verified  bool // verified by the operator
	}{"stored": {"u-ada", "ada@acme.example", false}, "verified": {"u-ada", "ada@acme.example", true}, "declared": {"u-dora", "dora@acme.example", false}} {
		for statement, later := range laterStatements {
			t.Run(name+", "+statement, func(t *testing.T) {
				p := newPeople(t)
				if c.verified {
					p.must(p.registry.People.UpdateUser(t.Context(), c.id, store.UserChange{KeepsTokens: true, VerifiesEmail: true}))
				}
				p.signsIn(at("one", "bob", c.email, true), both)
				if later.Email == c.email {
					later.Email = "else@acme.example"
				}
				old := p.signsIn(later, both)
				if old.ID != c.id || old.Email != c.email || old.EmailVerified() != c.verified {
					t.Errorf("became %+v", old)
				}
				p.refuses(at("two", "bob", c.email, true), both, ReasonAddressUnproven)
				if c.verified { // the operator knows by now that they are one person
					p.must(p.registry.People.UpdateUser(t.Context(), c.id, store.UserChange{KeepsTokens: true, VerifiesEmail: true}))
				} else {
					p.signsIn(at("one", "bob", c.email, true), both)
				}
				if user := p.signsIn(at("two", "bob", c.email, true), both); user.ID != c.id {
					t.Errorf("with the word of both it is %+v", user)
				}
			})
		}
	}
}

// TestV1LinkingNeedsTheWordOfBoth: accounts are not linked if either provider has "link never", whichever comes first. The same holds if a
// provider has that rule only now, or is no longer configured.
func TestV1LinkingNeedsTheWordOfBoth(t *testing.T) {
	ceo := "ceo@acme.example"
	for name, again := range map[string]Rules{"created": creates, "and came again": creates, "first with link": both} {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t)
			first := creates
			if name == "first with link" {
				first, again = both, creates
			}
			planted := p.signsIn(at("one", "mallory", ceo, true), first)
			if name != "created" {
				p.signsIn(at("one", "mallory", ceo, true), again)
			}
			p.refuses(at("two", "ceo", ceo, true), both, ReasonAddressUnproven)
			p.refuses(at("two", "ceo", ceo, true), links, ReasonAddressUnproven)
			p.refuses(at("two", "ceo", ceo, true), creates, ReasonAddressTaken)
			p.signsIn(at("one", "mallory", ceo, true), both)
			if user := p.signsIn(at("two", "ceo", ceo, true), links); user.ID != planted.ID {
				t.Errorf("with the word of both it is %+v", user)
			}
		})
	}
	p := newPeople(t)
	planted := p.signsIn(at("trust", "mallory", ceo, true), creates)
	p.refuses(Account{Provider: "trust:issuer", Subject: "ceo", Email: ceo, EmailVerified: true, NamedOnly: true}, links, ReasonAddressUnproven)
	p.must(p.registry.People.UpdateUser(t.Context(), planted.ID, store.UserChange{KeepsTokens: true, VerifiesEmail: true}))
	if user := p.signsIn(at("two", "ceo", ceo, true), links); user.ID != planted.ID {
		t.Errorf("by the operator's word it is %+v", user)
	}
}

// TestV1EachProviderTakesBackItsOwnWord: a provider withdraws only its own verification. The address stays verified by the provider that
// verified it last.
func TestV1EachProviderTakesBackItsOwnWord(t *testing.T) {
	p := newPeople(t)
	by := func(user *store.User, want string) {
		t.Helper()
		if user.Email != bob || user.EmailVerifiedBy != want {
			t.Errorf("the address is %s, verified by %q, not by %q", user.Email, user.EmailVerifiedBy, want)
		}
	}
	old := p.signsIn(at("one", "bob", bob, true), both)
	by(old, "provider one")
	by(p.signsIn(at("two", "bob", bob, true), both), "provider two")
	p.isRefused(at("two", "bob", "", false), both)
	by(p.user(old.ID), "")
	by(p.signsIn(at("one", "bob", bob, true), both), "provider one")
	p.isRefused(at("two", "bob", "else@acme.example", true), both)
	by(p.user(old.ID), "provider one")
	p.refuses(at("three", "bob", bob, true), links, ReasonAddressUnproven)
	by(p.signsIn(at("two", "bob", bob, true), both), "provider two")
	by(p.signsIn(at("three", "bob", bob, true), both), "provider three")
	p.must(p.registry.People.Unlink(t.Context(), store.Unlinking{Provider: "three", Subject: "bob", UserID: old.ID, MayBeLast: true}))
	by(p.signsIn(at("two", "bob", bob, true), both), "provider two")
}

// TestV1ATokenThatNamesAPersonTakesNothingBack: a token of the provider's issuer may omit the address.
func TestV1ATokenThatNamesAPersonTakesNothingBack(t *testing.T) {
	p := newPeople(t)
	user := p.signsIn(at("one", "bob", bob, true), both)
	named := Account{Provider: "one", Subject: "bob", NamedOnly: true, Groups: []string{"admins"}}
	if after := p.signsIn(named, Rules{}); after.ID != user.ID || after.Email != bob || !after.EmailVerified() || len(after.AllGroups()) > 0 {
		t.Errorf("became %+v", after)
	}
	if next := p.signsIn(at("two", "bob", bob, true), both); next.ID != user.ID {
		t.Errorf("linked to %+v", next)
	}
	named.Email = "else@acme.example"
	p.isRefused(named, Rules{})
	if after := p.user(user.ID); after.Email != bob || !after.EmailVerified() {
		t.Errorf("the user became %+v", after)
	}
	named.Email = ""
	p.isRefused(named, Rules{}) // until the provider states again that the address belongs to the account
	p.refuses(at("three", "bob", bob, true), both, ReasonAddressUnproven)
}

// TestV1TakenBackBesideTheLink: the other provider withdraws its verification between look-up and link.
func TestV1TakenBackBesideTheLink(t *testing.T) {
	p := newPeople(t)
	old := p.signsIn(at("one", "bob", bob, true), both)
	p.stored.beforeLink = func() {
		p.stored.beforeLink = nil
		p.signsIn(at("one", "bob", "", false), both)
	}
	user, err := p.User(t.Context(), at("two", "bob", bob, true), links)
	if err == nil || user != nil {
		t.Errorf("signed in as %+v", user)
	}
	if linked := p.identities(old.ID); len(linked) != 1 || linked[0].Provider != "one" {
		t.Errorf("linked are %+v", linked)
	}
}

// TestV1ADirectoryWithSeveralAddresses: a directory vouches for all of a person's addresses, whichever was typed.
func TestV1ADirectoryWithSeveralAddresses(t *testing.T) {
	p := newPeople(t)
	account := at("staff", "ada", "ada@acme.example", true)
	account.Aliases = []string{"Ada@acme.example", "a.lovelace@acme.example"}
	p.signsIn(account, links)
	account.Email = "a.lovelace@acme.example"
	if user := p.signsIn(account, links); user.Email != "ada@acme.example" || !user.EmailVerified() {
		t.Errorf("became %+v", user)
	}
	if user := p.signsIn(at("two", "ada", "ada@acme.example", true), links); user.ID != "u-ada" {
		t.Errorf("linked to %+v", user)
	}
	account.EmailVerified = false // the directory says that people can change their addresses
	p.isRefused(account, links)
	if user := p.user("u-ada"); user.EmailVerifiedBy != store.VerifiedBy("two") {
		t.Errorf("became %+v", user)
	}
}

// TestV1TwoTabsAtOnce: concurrent first sign-ins of the next Bob create one user, who is not the former one.
func TestV1TwoTabsAtOnce(t *testing.T) {
	p := newPeople(t)
	p.signsIn(at("one", "bob", bob, true), both)
	old := p.signsIn(at("one", "bob", "", false), both)
	users := make(chan *store.User, 8)
	for range cap(users) {
		go func() {
			user, _ := p.User(t.Context(), at("two", "bob", bob, true), both)
			users <- user
		}()
	}
	var first *store.User
	for range cap(users) {
		user := <-users
		if first == nil {
			first = user
		}
		if user == nil || user.ID == old.ID || user.ID != first.ID {
			t.Fatalf("%+v and %+v", first, user)
		}
	}
}

// TestV1AProviderThatMoves: a provider that has moved (formerly) withdraws what it verified before.
func TestV1AProviderThatMoves(t *testing.T) {
	p := newPeople(t)
	p.signsIn(at("one", "bob", bob, true), from(oldSource, both))
	p.at = p.at.Add(time.Hour)
	old := p.signsIn(at("one", "bob", "", false), from(newSource, both, oldSource))
	if next := p.signsIn(at("two", "bob", bob, true), both); old.EmailVerified() || next.ID == old.ID {
		t.Errorf("became %+v, and the next is %+v", old, next)
	}
}

// TestGroupsOfAProviderAndOfTheOperatorAreTwoLists: a provider that sends an empty list of groups removes none of the operator's.
func TestGroupsOfAProviderAndOfTheOperatorAreTwoLists(t *testing.T) {
	p := newPeople(t)
	account := google("1", "ada@acme.example", true)
	groups := func(account Account, want ...string) {
		t.Helper()
		if user := p.signsIn(account, links); !same(user.AllGroups(), want) || !same(user.Groups, want[:1]) {
			t.Errorf("groups %q and %q, not %q", user.Groups, user.ProviderGroups, want)
		}
	}
	groups(account, "founders")
	account.Groups = []string{}
	groups(account, "founders")
	account.Groups = []string{"staff", "founders"}
	groups(account, "founders", "staff")
	operators := []string{"board"}
	p.must(p.registry.People.UpdateUser(t.Context(), "u-ada", store.UserChange{Edit: func(u *store.User) error { u.Groups = operators; return nil }}))
	groups(account, "board", "founders", "staff")
	account.Groups = nil
	groups(account, "board", "founders", "staff")
	account.Groups = []string{}
	groups(account, "board")
	if linked, err := p.registry.People.User(t.Context(), "u-ada"); err != nil || linked.GroupsBy != "google" {
		t.Errorf("by %+v, %v", linked, err)
	}
}
