package signin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Linking says when an account that is not linked yet is linked to an existing user.
type Linking string

// The ways to link. The zero value means LinkNever.
const (
	// LinkNever: an account belongs to the user whom it created, and to no other.
	LinkNever Linking = "never"
	// LinkVerifiedEmail: an account belongs to the user who has its address, if the provider has verified that.
	LinkVerifiedEmail Linking = "verified_email"
)

// ParseLinking returns the way to link of that name.
func ParseLinking(name string) (Linking, error) {
	switch l := Linking(name); l {
	case LinkNever, LinkVerifiedEmail:
		return l, nil
	}
	return "", fmt.Errorf("unknown way to link %q: use never or verified_email", name)
}

// Rules say which people of a provider may sign in, and which users they are. The zero value admits everyone who is linked already.
type Rules struct {
	// AllowEmailDomains requires a verified address in one of these domains, in the form of CanonicalDomain; empty: any account is
	// admitted.
	AllowEmailDomains []string
	// AllowGroups requires one of these groups at the provider; empty: any account is admitted.
	AllowGroups []string
	// GroupPrefix is put before each group of an account. AllowGroups names groups as the provider does.
	GroupPrefix string
	// AllowUnverifiedEmail lets an account create a user with an address that the provider has not verified.
	AllowUnverifiedEmail bool
	// Link says when an account is linked to an existing user.
	Link Linking
	// Create describes the users that accounts without one create; nil: users must exist.
	Create *Creation
	// Source is what the provider's name stands for, as in store.Identity. Accounts that were linked under another source have no user.
	Source string
	// Formerly are earlier sources with the same people and the same identifiers.
	Formerly []string
}

// Creation describes the users whom a provider creates.
type Creation struct {
	// Organisation is the id of one that exists; empty: none.
	Organisation string
	// Role is one that is known; empty: the default one.
	Role store.Role
}

// CanonicalDomain returns the domain of addresses in the form in which CanonicalEmail leaves it.
func CanonicalDomain(domain string) (string, error) {
	address, err := store.CanonicalEmail("a@" + domain)
	canonical := strings.TrimPrefix(address, "a@")
	if err != nil || strings.HasPrefix(canonical, ".") || strings.ContainsAny(canonical, "*/:") {
		return "", fmt.Errorf("%.64q cannot stand behind the @ of an e-mail address: write a domain, as example.com", domain)
	}
	return canonical, nil
}

// domainOf returns the domain of a canonical address.
func domainOf(email string) string {
	_, domain, _ := strings.Cut(email, "@")
	return domain
}

// prefixed returns the groups as they become those of a user; nil stays nil.
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

// allows reports whether the rules admit an account, whichever user it belongs to. email is its canonical verified address; empty: it has
// none.
func (r Rules) allows(a Account, email string) error {
	if len(r.AllowEmailDomains) > 0 && (email == "" || !slices.Contains(r.AllowEmailDomains, domainOf(email))) {
		return refused(reasonEmailDomain)
	}
	if len(r.AllowGroups) > 0 && !slices.ContainsFunc(r.AllowGroups, func(group string) bool { return slices.Contains(a.Groups, group) }) {
		return refused(reasonGroup)
	}
	return nil
}
