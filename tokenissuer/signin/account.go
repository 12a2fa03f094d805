package signin

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Account is what an identity provider says of a person who has just signed in there.
type Account struct {
	// Provider is the provider's name in the configuration, and Subject the provider's permanent identifier of the person,
	// which it never gives to another. Both are compared byte for byte.
	Provider, Subject string
	// Email is an address as the provider spells it; empty: it gives none.
	Email string
	// EmailVerified reports that the provider has verified Email. Only a verified address admits or links an account.
	EmailVerified bool
	// Aliases are further addresses for which the provider vouches if it does for Email.
	Aliases []string
	// Name is what the person is called; empty: the provider does not say.
	Name string
	// Groups are the groups that the provider has the person in; nil: the provider says nothing about groups, and the user keeps the former
	// ones. An empty list that is not nil removes the user from all of them.
	Groups []string
	// Profile is what else the provider says; nil: nothing.
	Profile *store.Profile
	// AuthTime is when the provider says that the person was authenticated; zero: it does not say.
	AuthTime time.Time
	// Proof is how, as far as the provider says.
	Proof store.Proof
	// NamedOnly reports that the person has not signed in, but was named in a token of another party. The account identifies the person,
	// and changes nothing of the user.
	NamedOnly bool
}
