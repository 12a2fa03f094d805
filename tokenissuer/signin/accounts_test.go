package signin_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestP60CreatesAUserOnlyByTheRules: an unknown account with `create` → a user; without, with an unverified address, or a missing
// organisation or role → refused, nothing is added.
func TestP60CreatesAUserOnlyByTheRules(t *testing.T) {
	p := newPeople(t)
	account := google("108", "Grace@Acme.Example", true)
	account.Groups, account.Profile = []string{"navy"}, &store.Profile{GivenName: "Grace"}
	p.refuses(account, Rules{}, ReasonUnknown)
	p.refuses(account, links, ReasonUnknown)
	user := p.signsIn(account, Rules{Create: &Creation{Organisation: "acme", Role: store.RoleAdmin}})
	if user.Email != "grace@acme.example" || !user.EmailVerified() || user.Name != "Grace Hopper" || user.Organisation != "acme" ||
		user.Role != store.RoleAdmin || !same(user.AllGroups(), []string{"navy"}) || user.Profile.GivenName != "Grace" || !user.External || !user.IsActive() {
		t.Errorf("created %+v", user)
	}
	if again := p.signsIn(account, Rules{}); again.ID != user.ID {
		t.Errorf("came back as %s, not as %s", again.ID, user.ID)
	}
	for name, creation := range map[string]Creation{"organisation": {Organisation: "gone"}, "role": {Role: "gone"}} {
		_, err := p.User(t.Context(), google("109"+name, name+"@acme.example", true), Rules{Create: &creation})
		tokentest.WantCode(t, err, oauth.ServerError)
	}
	p.refuses(google("110", "", false), creates, ReasonAddressUnusable)
	p.refuses(google("110", "no address", true), creates, ReasonAddressUnusable)
	p.refuses(google("110", "ceo@acme.example", false), creates, ReasonAddressUnverified)
	unverified := creates
	unverified.AllowUnverifiedEmail = true
	if user := p.signsIn(google("110", "ceo@acme.example", false), unverified); user.EmailVerified() {
		t.Error("an address became verified that the provider has not verified")
	}
	if n := p.count(); n != 3 {
		t.Errorf("there are %d users", n)
	}
}

// TestP61LinksByAVerifiedAddressAlone: the address of an existing user, verified with `link verified_email` → linked; unverified or `link
// never` → refused, and no second user is created.
func TestP61LinksByAVerifiedAddressAlone(t *testing.T) {
	p := newPeople(t)
	ada := google("1", "Ada@acme.example", true)
	p.refuses(google("1", "ada@acme.example", false), both, ReasonAddressUnverified)
	unverified := both
	unverified.AllowUnverifiedEmail = true
	p.refuses(google("1", "ada@acme.example", false), unverified, ReasonAddressTaken)
	p.refuses(ada, creates, ReasonAddressTaken)
	p.refuses(ada, Rules{Link: LinkNever, Create: &Creation{}}, ReasonAddressTaken)
	p.refuses(google("2", "ada@acme.example.evil.example", true), links, ReasonUnknown)

	user := p.signsIn(ada, links)
	if user.ID != "u-ada" || user.Name != "Ada" || !user.External || len(p.identities("u-ada")) != 1 {
		t.Errorf("linked to %+v", user)
	}
	p.refuses(google("2", "ada@acme.example", true), both, ReasonOtherIdentity)
	other := Account{Provider: "corp", Subject: "1", Email: "ada@acme.example", EmailVerified: true}
	p.refuses(other, Rules{Create: &Creation{}}, ReasonAddressTaken)
	if second := p.signsIn(other, links); second.ID != "u-ada" || len(p.identities("u-ada")) != 2 {
		t.Errorf("a second provider led to %+v", second)
	}
	if declared := p.signsIn(google("3", "DORA@acme.example", true), links); declared.ID != "u-dora" || !declared.Declared {
		t.Errorf("linked to %+v", declared)
	}
	p.must(p.stored.Users.AddUser(t.Context(), &store.User{ID: "u-invited", Email: "ivy@acme.example", Status: store.UserActive}, true))
	if invited := p.signsIn(google("4", "ivy@acme.example", true), links); invited.ID != "u-invited" || !invited.IsActive() {
		t.Errorf("linked to %+v", invited)
	}
}

// TestP62AnAddressTakenBeforehandIsNotLinkedTo: a user created with another person's unverified address, then that person comes → refused
// until an operator vouches for the address.
func TestP62AnAddressTakenBeforehandIsNotLinkedTo(t *testing.T) {
	p := newPeople(t)
	loose := Rules{Create: &Creation{}, AllowUnverifiedEmail: true}
	thief := p.signsIn(Account{Provider: "loose", Subject: "evil", Email: "victim@acme.example"}, loose)
	p.refuses(google("9", "victim@acme.example", true), both, ReasonAddressUnproven)
	p.refuses(google("9", "victim@acme.example", true), creates, ReasonAddressTaken)
	p.must(p.registry.People.UpdateUser(t.Context(), thief.ID, store.UserChange{KeepsTokens: true, VerifiesEmail: true}))
	if user := p.signsIn(google("9", "victim@acme.example", true), both); user.ID != thief.ID {
		t.Errorf("after the operator vouched for it, the address led to %s", user.ID)
	}
}

// TestP62APasswordOfAnotherPersonIsNotLinkedTo: a user who was imported with a password and an unverified address, then the person whose address it
// is comes from a provider → refused until the address is verified; without a password → linked, and a passkey and a personal access token of a
// former holder, whose only account was unlinked, are gone.
func TestP62APasswordOfAnotherPersonIsNotLinkedTo(t *testing.T) {
	p := newPeople(t)
	for id, hash := range map[string]string{"u-taken": "$2a$04$abcdefghijklmnopqrstuuZ7ZmX5rQ9rQ9rQ9rQ9rQ9rQ9rQ9rQ9r", "u-free": ""} {
		p.must(p.stored.Users.AddUser(t.Context(), &store.User{ID: id, Email: id + "@acme.example", Status: store.UserActive, PasswordHash: oauth.NewSecret(hash), EmailVerifiedBy: store.Unvouched}, true))
	}
	former := store.Identity{Provider: "former", Subject: "1", UserID: "u-left", Created: true}
	p.must(p.stored.Users.AddUser(t.Context(), &store.User{ID: "u-left", Email: "u-left@acme.example", Status: store.UserActive}, true, former))
	left, err := p.stored.Users.User(t.Context(), "u-left")
	p.must(err)
	p.must(p.stored.Factors.AddFactor(t.Context(), &store.Factor{ID: "key", UserID: left.ID, Kind: store.Passkey, Credential: "c", Data: []byte("x")}, left.Version))
	p.must(p.stored.PersonalTokens.AddPersonalToken(t.Context(), &store.PersonalToken{ID: "pat", UserID: left.ID, ExpiresAt: p.at.Add(time.Hour)}, left.Version))
	p.must(p.registry.People.Unlink(t.Context(), store.Unlinking{Provider: "former", Subject: "1", UserID: left.ID, MayBeLast: true}))
	p.refuses(google("taken", "u-taken@acme.example", true), both, ReasonAddressUnproven)
	p.must(p.registry.People.UpdateUser(t.Context(), "u-taken", store.UserChange{KeepsTokens: true, VerifiesEmail: true}))
	for _, id := range []string{"u-taken", "u-free", "u-left"} {
		if user := p.signsIn(google(id, id+"@acme.example", true), both); user.ID != id {
			t.Errorf("%s led to %s", id, user.ID)
		}
	}
	factors, err := p.stored.Factors.Factors(t.Context(), left.ID)
	p.must(err)
	tokens, err := p.stored.PersonalTokens.PersonalTokens(t.Context(), left.ID)
	if p.must(err); len(factors)+len(tokens) != 0 {
		t.Errorf("left are %d factors and %d personal access tokens", len(factors), len(tokens))
	}
}

// TestP205ABrowserHangsUpDuringItsSignIn: the browser hangs up while a sign-in at a provider adds or links a user → the user is added or linked, and
// the audit log says so.
func TestP205ABrowserHangsUpDuringItsSignIn(t *testing.T) {
	p := newPeople(t)
	told := make(map[bool]int) // of added users, and of changed ones
	accounts := p.Accounts
	accounts.Changed = func(c Change) { told[c.Added]++ }
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for _, email := range []string{"ada@acme.example", "new@acme.example"} {
		if _, err := accounts.User(gone, google(email, email, true), both); err != nil {
			t.Errorf("%s: %v", email, err)
		}
	}
	if told[true] != 1 || told[false] == 0 {
		t.Errorf("the audit log is told of %v", told)
	}
}

// TestP63SpellingsOfAnAddressAreOneUser: a verified address in another case, width or form → the same user; a look-alike → another.
func TestP63SpellingsOfAnAddressAreOneUser(t *testing.T) {
	for name, email := range map[string]string{
		"case": "ADA@ACME.EXAMPLE", "full width": "ａｄａ@acme.example", "dot": "ada@acme.example.", "spaces": " ada@acme.example ", "ideographic dot": "ada@acme．example",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t)
			if user := p.signsIn(google("1", email, true), links); user.ID != "u-ada" {
				t.Errorf("led to %s", user.ID)
			}
		})
	}
	for name, email := range map[string]string{
		"cyrillic": "аda@acme.example", "plus": "ada+x@acme.example", "zero width": "a\u200bda@acme.example", "NUL": "ada@acme.example\x00", "two": "ada@acme.example@evil.example",
		"not UTF-8": "ada@acme.example\xff", "line": "ada@acme.example\nx",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t)
			p.refuses(google("1", email, true), links, ReasonUnknown)
		})
	}
}

// TestP64SubjectsAreComparedByteForByte: a subject in another case or with spaces, or at another provider → another person.
func TestP64SubjectsAreComparedByteForByte(t *testing.T) {
	p := newPeople(t)
	first := p.signsIn(google("aB", "b1@acme.example", true), creates)
	for name, account := range map[string]Account{
		"case": google("ab", "b1@acme.example", true), "space": google("aB ", "b1@acme.example", true), "NUL": google("aB\x00", "b1@acme.example", true),
		"provider": {Provider: "Google", Subject: "aB", Email: "b1@acme.example", EmailVerified: true},
	} {
		t.Run(name, func(t *testing.T) { p.refuses(account, creates, ReasonAddressTaken) })
	}
	if again := p.signsIn(google("aB", "moved@acme.example", true), Rules{}); again.ID != first.ID {
		t.Errorf("another address led to %s", again.ID)
	}
}

// TestP65FirstSignInsAtOnceMakeOneUser: first sign-ins of one account at once → one user, one identity.
func TestP65FirstSignInsAtOnceMakeOneUser(t *testing.T) {
	for name, rules := range map[string]Rules{"created": creates, "linked": links} {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t)
			account := google("1", "grace@acme.example", true)
			if rules.Link == LinkVerifiedEmail {
				account.Email = "ada@acme.example"
			}
			ids := make([]string, 16)
			var all sync.WaitGroup
			for i := range ids {
				all.Go(func() {
					user, err := p.User(t.Context(), account, rules)
					if err != nil {
						t.Error(err)
						return
					}
					ids[i] = user.ID
				})
			}
			all.Wait()
			for _, id := range ids {
				if id != ids[0] {
					t.Fatalf("several users: %v", ids)
				}
			}
			if n := len(p.identities(ids[0])); n != 1 {
				t.Errorf("%d identities", n)
			}
		})
	}
}

// TestP68WhoIsOutStaysOut: a user disabled, removed or undeclared → refused, nothing written; removed with `create` → a new id.
func TestP68WhoIsOutStaysOut(t *testing.T) {
	p := newPeople(t)
	disabled := store.UserDisabled
	p.must(p.registry.People.UpdateUser(t.Context(), "u-ada", store.UserChange{Edit: func(u *store.User) error { u.Status = disabled; return nil }}))
	p.refuses(google("1", "ada@acme.example", true), both, ReasonInactive)
	grace := google("2", "grace@acme.example", true)
	created := p.signsIn(grace, creates)
	p.must(p.registry.People.UpdateUser(t.Context(), created.ID, store.UserChange{Edit: func(u *store.User) error { u.Status = disabled; return nil }}))
	p.at = p.at.Add(48 * time.Hour)
	p.refuses(grace, both, ReasonInactive)
	p.must(p.registry.People.RemoveUser(t.Context(), created.ID))
	p.refuses(grace, links, ReasonUnknown)
	if anew := p.signsIn(grace, creates); anew.ID == created.ID {
		t.Error("a removed id came back")
	}
	dora := google("3", "dora@acme.example", true)
	p.signsIn(dora, links)
	p.registry.People.Declared = store.StaticDirectory{}
	p.Families.Directory = store.OverlayDirectory{Stored: p.stored.Directory()}
	p.refuses(dora, both, ReasonRemoved)
}

// TestP69AllowsByVerifiedAddressAndGroup: `allow email_domain` with an unverified, sub- or look-alike domain, `allow group` in another
// case → refused each time.
func TestP69AllowsByVerifiedAddressAndGroup(t *testing.T) {
	p := newPeople(t)
	domain, err := CanonicalDomain("Acme.Example")
	p.must(err)
	rules := Rules{AllowEmailDomains: []string{domain}, AllowGroups: []string{"staff"}, Create: &Creation{}}
	in := func(email string, verified bool, groups ...string) Account {
		account := google(email, email, verified)
		account.Groups = groups
		return account
	}
	for name, account := range map[string]Account{
		"not verified": in("a@acme.example", false, "staff"), "none": in("", true, "staff"), "below it": in("a@x.acme.example", true, "staff"),
		"as an end": in("a@evilacme.example", true, "staff"), "as a local part": in("acme.example@evil.example", true, "staff"),
		"two": in("a@evil.example@acme.example", true, "staff"), "homoglyph": in("a@аcme.example", true, "staff"),
		"quoted": in(`"a@acme.example"@evil.example`, true, "staff"),
	} {
		t.Run(name, func(t *testing.T) { p.refuses(account, rules, ReasonEmailDomain) })
	}
	p.refuses(in("b@acme.example", true), rules, ReasonGroup)
	p.refuses(in("b@acme.example", true, "Staff", "staff ", "staffs"), rules, ReasonGroup)
	p.signsIn(in("b@ACME.example", true, "x", "staff"), rules)
	p.refuses(in("b@ACME.example", true, "x"), rules, ReasonGroup) // known but no longer allowed
	for _, wrong := range []string{"", "*", "@acme.example", ".acme.example", "a b", "*.acme.example", "https://acme.example", strings.Repeat("x", 300)} {
		if domain, err := CanonicalDomain(wrong); err == nil {
			t.Errorf("%q is the domain %q", wrong, domain)
		}
	}
}
