package signin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Linking determines when an account without a user is linked to an existing user.
type Linking string

// The values of Linking. The zero value means LinkNever.
const (
	// LinkNever: an account belongs only to the user created for it.
	LinkNever Linking = "never"
	// LinkVerifiedEmail: an account belongs to the user who has its address, if the provider has verified the address.
	LinkVerifiedEmail Linking = "verified_email"
)

// ParseLinking returns the Linking of that name.
func ParseLinking(name string) (Linking, error) {
	switch l := Linking(name); l {
	case LinkNever, LinkVerifiedEmail:
		return l, nil
	}
	return "", fmt.Errorf("unknown way to link %q: use never or verified_email", name)
}

// Rules determine which people of a provider may sign in, and which users they are. The zero value admits everyone who is already linked.
type Rules struct {
	// AllowEmailDomains requires a verified address in one of these domains, in the form of CanonicalDomain. If it is empty, any account is
	// admitted.
	AllowEmailDomains []string
	// AllowGroups requires one of these groups at the provider. If it is empty, any account is admitted.
	AllowGroups []string
	// GroupPrefix is prepended to each group of an account. AllowGroups has the provider's names, without the prefix.
	GroupPrefix string
	// AllowUnverifiedEmail lets an account create a user with an address that the provider has not verified.
	AllowUnverifiedEmail bool
	// Link determines when an account is linked to an existing user.
	Link Linking
	// Create describes the users created for accounts without one. If it is nil, users must already exist.
	Create *Creation
	// Source identifies the provider behind the name, as in store.Identity. Accounts linked under another source have no user.
	Source string
	// Formerly lists earlier sources with the same people and identifiers.
	Formerly []string
}

// Creation describes the users created for a provider's accounts, or who register.
type Creation struct {
	// Organisation is the id of an existing organisation, or empty.
	Organisation string
	// Role is a known role. If it is empty, the default role applies.
	Role store.Role
}

// CanonicalDomain returns the domain of e-mail addresses in the form that CanonicalEmail gives it.
func CanonicalDomain(domain string) (string, error) {
	address, err := store.CanonicalEmail("a@" + domain)
	canonical := strings.TrimPrefix(address, "a@")
	if err != nil || strings.HasPrefix(canonical, ".") || strings.ContainsAny(canonical, "*/:{}") {
		return "", fmt.Errorf("%.64q cannot stand behind the @ of an e-mail address: write a domain, as example.com", domain)
	}
	return canonical, nil
}

// DomainOf returns the domain of a canonical address.
func DomainOf(email string) string {
	_, domain, _ := strings.Cut(email, "@")
	return domain
}

// prefixed returns the groups as a user gets them, with GroupPrefix. nil stays nil.
func (r Rules) prefixed(groups []string) []string {
	if r.GroupPrefix == "" || groups == nil {
		return groups
	}
	prefixed := make([]string, len(groups))
	for i, group := range groups {
		prefixed[i] = r.GroupPrefix + group
	}
	return prefixed
}

// allows reports whether the rules admit an account, whichever user it belongs to. email is its canonical verified address, or empty if it
// has none.
func (r Rules) allows(a Account, email string) error {
	if len(r.AllowEmailDomains) > 0 && (email == "" || !slices.Contains(r.AllowEmailDomains, DomainOf(email))) {
		return refused(reasonEmailDomain)
	}
	if len(r.AllowGroups) > 0 && !slices.ContainsFunc(r.AllowGroups, func(group string) bool { return slices.Contains(a.Groups, group) }) {
		return refused(reasonGroup)
	}
	return nil
}
