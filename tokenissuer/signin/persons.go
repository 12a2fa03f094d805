package signin

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Persons finds the users of people whom a trusted issuer identifies in an assertion. It implements grants.PersonFinder.
type Persons struct {
	Accounts Accounts
	// Provider returns the sign-in provider with an issuer identifier, whose subjects are the same people. known is false if there is none.
	Provider func(issuer string) (name string, rules Rules, known bool)
}

// trustedPrefix begins the provider names of accounts at a trusted issuer that is not a sign-in provider.
const trustedPrefix = "trust:"

// Trusted returns the provider name of accounts at a trusted issuer that is not a sign-in provider, and their rules.
func Trusted(name, issuer string) (provider string, rules Rules) {
	return trustedPrefix + name, Rules{Link: LinkNever, Source: "trust " + issuer}
}

// Person returns the user who has the account or, if the rule links by address, its verified address. It adds no users. The provider's
// restrictions apply here too.
func (p Persons) Person(ctx context.Context, rule *clients.AcceptRule, t *token.AccessToken) (*store.User, error) {
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
