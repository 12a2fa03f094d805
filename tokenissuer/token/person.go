package token

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

// Person has the claims about its user that only the token of a browser's session has.
type Person struct {
	Name, Email   string
	EmailVerified bool
	// EmailKnown reports that Email is the user's own: it is verified, or an operator has set it. Rules use it.
	EmailKnown bool
	Groups     []string
	// ACR and AMR are how the user signed in (OpenID Connect Core §2); empty: unknown.
	ACR string
	AMR []string
	// Profile is nil if the user has none.
	Profile *store.Profile
	// UpdatedAt is the time of the last change to the user; zero: unknown.
	UpdatedAt time.Time
}

// WithPerson sets the user of a session's token. It is never part of a signed token.
func (t *AccessToken) WithPerson(p *Person) { t.extra.person = p }

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

// profileClaims are the claims of a Person's Profile. The members of address have paths.
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

// CanOwnTokenClaim reports whether one of our tokens can have a claim. Session: the token of a browser's session.
func CanOwnTokenClaim(name string, session bool) bool {
	if _, ofPerson := personClaims[name]; session && ofPerson {
		return true
	}
	if _, ofProfile := profileClaims[name]; session && ofProfile {
		return true
	}
	return name != "nbf" && slices.Contains(registeredClaims, name) || slices.Contains([]string{
		ClaimGroups, claimACR, claimAMR, OriginIssuer, OriginID, OriginIssuedAt, OriginClient, OriginVia, OriginKeys,
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

// CheckUnsigned checks expiry and revocation of a token that was never signed, such as that of a session. Known is the generation at which
// it was last valid.
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
