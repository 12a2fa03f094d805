package accesstoken

import (
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var errTokenRevoked = oauth.NewError(oauth.InvalidToken, "token_revoked").WithDescription("The access token was revoked")

// Person is what the session of a browser says of its user, beside the claims of every token.
type Person struct {
	Name, Email   string
	EmailVerified bool
	// EmailKnown says that Email is the user's own, by the word of the operator or of a provider that has verified it. Rules
	// go by it.
	EmailKnown bool
	Groups     []string
	// ACR and AMR say how the user has signed in (OpenID Connect Core §2); empty: it is not known.
	ACR string
	AMR []string
	// Profile is nil if the user has none.
	Profile *store.Profile
	// UpdatedAt is when the user was changed last; zero: it is not known.
	UpdatedAt time.Time
}

// WithPerson says of whom a session is. No token is signed that says it.
func (t *AccessToken) WithPerson(p *Person) { t.person = p }

// personClaims are the claims of a Person (OpenID Connect Core §5.1 and §2).
var personClaims = map[string]func(*Person) []string{
	"name":           func(p *Person) []string { return text(p.Name) },
	"email":          func(p *Person) []string { return text(p.Email) },
	"email_verified": func(p *Person) []string { return text(strconv.FormatBool(p.EmailVerified)) },
	ClaimGroups:      func(p *Person) []string { return p.Groups },
	"acr":            func(p *Person) []string { return text(p.ACR) },
	"amr":            func(p *Person) []string { return p.AMR },
	claimUpdatedAt:   func(p *Person) []string { return text(secondsText(p.UpdatedAt)) },
}

// profileClaims are those of its profile. The members of the address have paths.
var profileClaims = map[string]func(*store.Profile) string{
	"given_name":         func(p *store.Profile) string { return p.GivenName },
	"family_name":        func(p *store.Profile) string { return p.FamilyName },
	"preferred_username": func(p *store.Profile) string { return p.PreferredUsername },
	"locale":             func(p *store.Profile) string { return p.Locale },
	"zoneinfo":           func(p *store.Profile) string { return p.Zoneinfo },
	"picture":            func(p *store.Profile) string { return p.Picture },
	"phone_number":       func(p *store.Profile) string { return p.Phone },
	"phone_number_verified": func(p *store.Profile) string {
		if p.Phone == "" {
			return ""
		}
		return strconv.FormatBool(p.PhoneVerified)
	},
	"address.formatted":      func(p *store.Profile) string { return p.Address.Formatted },
	"address.street_address": func(p *store.Profile) string { return p.Address.StreetAddress },
	"address.locality":       func(p *store.Profile) string { return p.Address.Locality },
	"address.region":         func(p *store.Profile) string { return p.Address.Region },
	"address.postal_code":    func(p *store.Profile) string { return p.Address.PostalCode },
	"address.country":        func(p *store.Profile) string { return p.Address.Country },
}

const claimUpdatedAt = "updated_at"

// claim is Claim for the claims of a Person.
func (p *Person) claim(name string) []string {
	if of, ok := personClaims[name]; ok {
		return of(p)
	}
	if of, ok := profileClaims[name]; ok && p.Profile != nil {
		return text(of(p.Profile))
	}
	return nil
}

// CanOwnTokenClaim reports whether a token of ours can have a claim: one that was signed, or the one that stands for the session of a
// browser.
func CanOwnTokenClaim(name string, session bool) bool {
	if _, ofPerson := personClaims[name]; session && ofPerson {
		return true
	}
	if _, ofProfile := profileClaims[name]; session && ofProfile {
		return true
	}
	return name != "nbf" && slices.Contains(registeredClaims, name) || slices.Contains([]string{
		ClaimGroups, OriginIssuer, OriginID, OriginIssuedAt, OriginClient, OriginVia, OriginKeys,
	}, name)
}

// SessionClaims returns the claims that only the session of a browser has, sorted.
func SessionClaims() []string {
	names := slices.Concat(slices.Collect(maps.Keys(personClaims)), slices.Collect(maps.Keys(profileClaims)))
	return slices.Sorted(slices.Values(slices.DeleteFunc(names, func(name string) bool { return name == ClaimGroups })))
}

// size estimates the memory of the texts, in bytes.
func (p *Person) size() int {
	n := len(p.Name) + len(p.Email)
	for _, group := range p.Groups {
		n += 16 + len(group)
	}
	if p.Profile != nil {
		n += 16 * (len(profileClaims) + 1)
		for _, of := range profileClaims {
			n += len(of(p.Profile))
		}
	}
	return n
}

// CheckUnsigned checks a token that stands for a session and was never signed, as Verify checks those that were: expiry and
// revocation. Known is the generation at which it was last found good.
func (v *Verifier) CheckUnsigned(t *AccessToken, known *atomic.Uint64) error {
	now := v.now()
	if err := t.checkExpiry(now, 0); err != nil {
		return err
	}
	if err := v.checkFresh(now); err != nil {
		return err
	}
	generation := v.Generation() // before the check: a concurrent change is then checked next time
	if known.Load() == generation {
		return nil
	}
	if v.revocations.Revoked(t) {
		return errTokenRevoked
	}
	known.Store(generation)
	return nil
}
