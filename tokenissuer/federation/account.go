package federation

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
	// EmailVerified says that the provider has verified Email. Nothing is allowed or linked by any other address.
	EmailVerified bool
	// Aliases are further addresses for which the provider vouches if it does for Email.
	Aliases []string
	// Name is what the person is called; empty: the provider does not say.
	Name string
	// Groups are those that the provider puts the person in; nil: the provider says nothing of groups, and the user keeps those
	// of before. An empty list that is not nil takes the user out of all.
	Groups []string
	// Profile is what else the provider says; nil: nothing.
	Profile *store.Profile
	// AuthTime is when the provider says that the person was authenticated; zero: it does not say.
	AuthTime time.Time
	// Proof is how, as far as the provider says.
	Proof store.Proof
	// NamedOnly: the person has not signed in, but was named in a token for somebody else. It says whose account is meant, and what it
	// says of the person, or leaves out, changes nothing.
	NamedOnly bool
}
