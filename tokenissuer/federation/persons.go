package federation

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Persons finds the users of people whom a trusted issuer names in a grant. It is a tokenissuer.PersonFinder.
type Persons struct {
	Accounts Accounts
	// Provider returns the provider at which people sign in that has an issuer identifier: the subjects of both are the same people. It
	// returns false when there is none.
	Provider func(issuer string) (name string, rules Rules, known bool)
}

// trustedPrefix begins the names under which accounts are kept of an issuer at which nobody signs in. No provider has such a name.
const trustedPrefix = "trust:"

// Trusted returns the name under which accounts of a trusted issuer are kept at which nobody signs in, and the rules that know them.
func Trusted(name, issuer string) (provider string, rules Rules) {
	return trustedPrefix + name, Rules{Link: LinkNever, Source: "trust " + issuer}
}

// Person returns the user who has the account, or who has its verified address where the rule links by it. It makes no users. What a
// provider allows holds here too.
func (p Persons) Person(ctx context.Context, rule *assertion.Rule, t *token.AccessToken) (*store.User, error) {
	provider, rules := Trusted(rule.Trust, t.Issuer)
	account := Account{Provider: provider, Subject: t.Subject, NamedOnly: true}
	account.Email, account.EmailVerified = t.Email()
	if name, signIn, known := p.Provider(t.Issuer); known {
		account.Provider = name
		rules.AllowEmailDomains, rules.AllowGroups = signIn.AllowEmailDomains, signIn.AllowGroups
		rules.Source, rules.Formerly = signIn.Source, signIn.Formerly
	}
	if rule.LinkVerifiedEmail {
		rules.Link = LinkVerifiedEmail
	}
	if len(rules.AllowGroups) > 0 {
		account.Groups = t.Claim("groups")
	}
	return p.Accounts.User(ctx, account, rules)
}
