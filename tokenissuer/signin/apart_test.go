package signin_test

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// isRefused fails unless the account is refused because it lacks the address of its user, who has other accounts.
func (p *providerPeople) isRefused(account Account, rules Rules) {
	p.Helper()
	user, err := p.User(p.Context(), account, rules)
	if user != nil || err == nil || oauth.AsError(err).Reason != ReasonOtherAddress {
		p.Errorf("%s %q: %+v, %v", account.Provider, account.Subject, user, err)
	}
}

func (p *providerPeople) user(id string) *store.User {
	p.Helper()
	user, err := p.registry.People.User(p.Context(), id)
	p.must(err)
	return user
}

// TestV1AnOperatorGivesAnotherAddress: an operator changes a user's address, and the owner of the new address signs in. Nothing proves that
// the two are one person.
func TestV1AnOperatorGivesAnotherAddress(t *testing.T) {
	for name, address := range map[string]string{"a provider's user": bob, "the operator's user": "ada@acme.example"} {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t)
			old, next := p.signsIn(at("one", "bob", address, true), both), "robert@acme.example"
			p.must(p.registry.People.UpdateUser(t.Context(), old.ID, store.UserChange{KeepsTokens: true, Edit: func(u *store.User) error { u.SetEmail(next); return nil }}))
			p.refuses(at("two", "robert", next, true), both, ReasonAddressUnproven)
			p.signsIn(at("one", "bob", next, true), both)
			if user := p.signsIn(at("two", "robert", next, true), both); user.ID != old.ID {
				t.Errorf("with the word of both it is %+v", user)
			}
		})
	}
}

// TestV1ANewAddressIsVouchedForAnew: a new address is vouched for at once, even if the use of the account was recorded too recently to be
// written.
func TestV1ANewAddressIsVouchedForAnew(t *testing.T) {
	p := newPeople(t)
	old := p.signsIn(at("one", "bob", bob, true), both)
	p.signsIn(at("one", "bob", "robert@acme.example", true), both)
	if user := p.signsIn(at("two", "bob", "robert@acme.example", true), both); user.ID != old.ID {
		t.Errorf("linked to %+v", user)
	}
}

// TestV1AnotherAddressBesideTheTouch: between look-up and TouchIdentity, the user gets another address, for which the account does not
// vouch.
func TestV1AnotherAddressBesideTheTouch(t *testing.T) {
	p := newPeople(t)
	user, next := p.signsIn(at("one", "ada", "ada@acme.example", true), both), "ceo@acme.example"
	p.at = p.at.Add(25 * time.Hour)
	p.stored.beforeTouch = func() {
		p.stored.beforeTouch = nil
		p.must(p.registry.People.UpdateUser(t.Context(), user.ID, store.UserChange{KeepsTokens: true, Edit: func(u *store.User) error { u.SetEmail(next); return nil }}))
	}
	p.signsIn(at("one", "ada", "ada@acme.example", true), both)
	p.refuses(at("two", "ceo", next, true), both, ReasonAddressUnproven)
}

// TestV1TheNextOwnerComesFirst: the first provider's verification is outdated when the next owner of the address is linked by it. When the
// former owner returns and the provider no longer vouches for the address, the two do not share a user.
func TestV1TheNextOwnerComesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		id, email string
		verified  bool // verified by the operator
	}{"a provider's user": {"", bob, false}, "stored": {"u-ada", "ada@acme.example", false}, "verified": {"u-ada", "ada@acme.example", true}, "declared": {"u-dora", "dora@acme.example", false}} {
		for statement, later := range laterStatements {
			t.Run(name+", "+statement, func(t *testing.T) {
				p := newPeople(t)
				if c.verified {
					p.must(p.registry.People.UpdateUser(t.Context(), c.id, store.UserChange{KeepsTokens: true, VerifiesEmail: true}))
				}
				old := p.signsIn(at("one", "bob", c.email, true), both)
				two := at("two", "bob", c.email, true)
				two.Groups = []string{"admins"}
				if next := p.signsIn(two, both); next.ID != old.ID {
					t.Fatalf("linked to %+v", next)
				}
				if later.Email == c.email {
					later.EmailVerified = false
				}
				p.isRefused(later, both)
				p.isRefused(later, both)
				p.isRefused(Account{Provider: "one", Subject: "bob", NamedOnly: true}, Rules{})
				if next := p.signsIn(two, both); next.ID != old.ID || next.Email != c.email {
					t.Errorf("the next one became %+v", next)
				}
				p.refuses(at("three", "bob", c.email, true), both, ReasonAddressUnproven)
				if old.Declared {
					return
				}
				p.must(p.registry.People.UpdateUser(t.Context(), old.ID, store.UserChange{KeepsTokens: true, KeepIdentities: true}))
				if kept := p.signsIn(later, both); kept.ID != old.ID {
					t.Errorf("whom the operator keeps is %+v", kept)
				}
			})
		}
	}
}

// TestV1AnOperatorsWordIsNotForever: an operator's verification applies to an address and an account. Here the account has another address
// now.
func TestV1AnOperatorsWordIsNotForever(t *testing.T) {
	p := newPeople(t)
	old := p.signsIn(at("one", "bob", bob, true), creates)
	p.must(p.registry.People.UpdateUser(t.Context(), old.ID, store.UserChange{KeepsTokens: true, VerifiesEmail: true}))
	p.signsIn(at("one", "bob", bob, true), creates) // this provider's verification alone would not suffice
	p.signsIn(at("one", "bob", "other@acme.example", true), creates)
	p.refuses(at("two", "bob", bob, true), both, ReasonAddressUnproven)
}

// TestV1ProvenByTheOperatorAndLinked: the provider has verified nothing, but still states the address.
func TestV1ProvenByTheOperatorAndLinked(t *testing.T) {
	p := newPeople(t)
	loose := Rules{Create: &Creation{}, AllowUnverifiedEmail: true}
	old := p.signsIn(at("one", "bob", bob, false), loose)
	p.must(p.registry.People.UpdateUser(t.Context(), old.ID, store.UserChange{KeepsTokens: true, VerifiesEmail: true, KeepIdentities: true}))
	p.signsIn(at("one", "bob", bob, false), loose)
	p.signsIn(at("two", "bob", bob, true), links)
	if user := p.signsIn(at("one", "bob", bob, false), loose); user.ID != old.ID {
		t.Errorf("became %+v", user)
	}
}

// TestV1AnAddressForWhichNobodyVouchesAnyMore: an address that is no longer vouched for goes to the next person who proves it.
func TestV1AnAddressForWhichNobodyVouchesAnyMore(t *testing.T) {
	for name, second := range map[string]func(*providerPeople, *store.User){
		"taken back": func(p *providerPeople, old *store.User) {
			p.isRefused(at("one", "bob", "", false), both)
			if user := p.user(old.ID); user.Email != bob || user.EmailVerifiedBy != "provider two" {
				p.Errorf("became %+v", user)
			}
			p.isRefused(at("two", "bob", "", false), both)
		},
		"unlinked": func(p *providerPeople, old *store.User) {
			p.isRefused(at("one", "bob", "", false), both)
			p.must(p.registry.People.Unlink(p.Context(), store.Unlinking{Provider: "two", Subject: "bob", UserID: old.ID, MayBeLast: true}))
			p.signsIn(at("one", "bob", "", false), both)
			writes := p.stored.writes.Load()
			if p.signsIn(at("one", "bob", "", false), both); p.stored.writes.Load() != writes {
				p.Error("what is known already was written again")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t)
			old := p.signsIn(at("one", "bob", bob, true), both)
			p.signsIn(at("two", "bob", bob, true), both)
			p.T = t
			second(p, old)
			if user := p.user(old.ID); user.Email != store.UnknownEmail(old.ID) || user.EmailVerified() {
				t.Errorf("became %+v", user)
			}
			if next := p.signsIn(at("three", "bob", bob, true), both); next.ID == old.ID {
				t.Errorf("the next one is %+v", next)
			}
		})
	}
}

// TestV1NobodyHasTheAddressOfNobody: providers cannot send the placeholder addresses of users without an address.
func TestV1NobodyHasTheAddressOfNobody(t *testing.T) {
	p := newPeople(t)
	loose := both
	loose.AllowUnverifiedEmail = true
	old := p.signsIn(at("one", "bob", bob, true), both)
	for _, address := range []string{store.UnknownEmail(old.ID), store.ServiceEmail("robot"), "X@Unknown.Invalid."} {
		p.refuses(at("two", "eve", address, false), loose, ReasonAddressUnusable)
		p.refuses(at("two", "eve", address, true), both, ReasonAddressUnusable)
	}
	if now := p.signsIn(at("one", "bob", "", false), both); now.Email != store.UnknownEmail(old.ID) {
		t.Errorf("became %+v", now)
	}
	p.refuses(at("two", "eve", store.UnknownEmail(old.ID), true), both, ReasonAddressUnusable)
}

// TestV1TheAddressOfNobodyIsTaken: if the placeholder address is taken, as by an operator, the user keeps the old address unverified.
func TestV1TheAddressOfNobodyIsTaken(t *testing.T) {
	p := newPeople(t)
	old := p.signsIn(at("one", "bob", bob, true), both)
	p.must(p.stored.Users.AddUser(t.Context(), &store.User{ID: "squatter", Email: store.UnknownEmail(old.ID), Name: "x", Status: store.UserActive}, true))
	for range 2 {
		if now := p.signsIn(at("one", "bob", "ada@acme.example", true), both); now.Email != bob || now.EmailVerified() {
			t.Errorf("became %+v", now)
		}
	}
	p.refuses(at("two", "bob", bob, true), both, ReasonAddressUnproven)
}

// TestV1ADirectoryMakesAUser: a directory creates a user and has several addresses for it. Whichever was typed, the user keeps an address
// for which others vouch too.
func TestV1ADirectoryMakesAUser(t *testing.T) {
	p := newPeople(t)
	account := at("staff", "bob", bob, true)
	account.Aliases = []string{bob, "bobby@acme.example"}
	old := p.signsIn(account, both)
	p.signsIn(at("two", "bob", bob, true), both)
	account.Email = "bobby@acme.example"
	if user := p.signsIn(account, both); user.ID != old.ID || user.Email != bob {
		t.Errorf("became %+v", user)
	}
	if user := p.signsIn(at("two", "bob", bob, true), both); user.ID != old.ID {
		t.Errorf("the other account's is %+v", user)
	}
}
