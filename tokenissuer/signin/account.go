package signin

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Account is what an identity provider states about a person who has just signed in.
type Account struct {
	// Provider is the provider's name in the configuration. Subject is the provider's permanent identifier of the person, which it never
	// reassigns. Both are compared byte for byte.
	Provider, Subject string
	// Email is an address as the provider spells it. It is empty if the provider sends none.
	Email string
	// EmailVerified reports that the provider has verified Email. Only a verified address can admit or link an account.
	EmailVerified bool
	// Aliases are further addresses. The provider vouches for them if it vouches for Email.
	Aliases []string
	// Name is the person's name. It is empty if the provider sends none.
	Name string
	// Groups are the person's groups at the provider. If it is nil, the provider sends no groups, and the user keeps the earlier ones. An
	// empty list that is not nil removes the user from all of them.
	Groups []string
	// Profile has further attributes that the provider sends, or is nil.
	Profile *store.Profile
	// AuthTime is when the person was authenticated, by the provider's statement. It is zero if the provider does not state it.
	AuthTime time.Time
	// Proof is how the person was authenticated, as far as the provider states it.
	Proof store.Proof
	// NamedOnly reports that the person has not signed in, but was named in another party's token. Such an account identifies the person
	// and changes nothing about the user.
	NamedOnly bool
	// RefreshToken is a new refresh token of the provider to keep for Recheck. It is empty if there is none.
	RefreshToken oauth.Secret
}
