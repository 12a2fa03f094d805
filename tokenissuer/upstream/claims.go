package upstream

import (
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// account returns the account that the claims describe.
func (s *Settings) account(c *claimSet) (signin.Account, error) {
	a := signin.Account{
		Provider: s.Name, Subject: c.Subject, Email: c.text("email"), EmailVerified: s.emailVerified(c),
		Name: c.text("name"), Profile: c.profile(), AuthTime: c.authenticated, Proof: store.Proof{AMR: c.methods()},
	}
	if s.GroupsClaim == "" {
		return a, nil
	}
	if c.hasDistributed(s.GroupsClaim) {
		return signin.Account{}, misconfigured("the provider left out %q because there are too many: at Entra, choose "+
			"“Groups assigned to the application”", s.GroupsClaim)
	}
	// A missing claim means no groups, because many providers omit an empty list.
	a.Groups = []string{}
	switch groups := c.find(s.GroupsClaim).(type) {
	case nil:
	case string:
		a.Groups = append(a.Groups, groups)
	case []any:
		for _, group := range groups {
			name, ok := group.(string)
			if !ok {
				return signin.Account{}, misconfigured("claim %q holds something other than texts", s.GroupsClaim)
			}
			a.Groups = append(a.Groups, name)
		}
	default:
		return signin.Account{}, misconfigured("claim %q is neither a text nor a list of texts", s.GroupsClaim)
	}
	return a, nil
}

// text returns a string claim. It returns "" for any other type.
func (c *claimSet) text(name string) string {
	text, _ := c.members[name].(string)
	return strings.TrimSpace(text)
}

// maxMethods bounds the number of authentication methods kept, and maxMethod the length of each in bytes. Those of RFC 8176 have at most
// five.
const maxMethods, maxMethod = 8, 32

// methods returns how the person signed in (amr). It returns nil if the provider does not say, or if amr is not a list of names.
func (c *claimSet) methods() []string {
	list, _ := c.members["amr"].([]any)
	if len(list) > maxMethods {
		return nil
	}
	var methods []string
	for _, value := range list {
		method, _ := value.(string)
		if method == "" || len(method) > maxMethod || strings.ContainsFunc(method, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil
		}
		methods = append(methods, method)
	}
	return methods
}

// find returns the claim of that name or, if there is none, the claim at a path: objects and a name, separated by dots. At each step the
// longest prefix that names an object wins, so every path has one meaning even if names contain dots.
func (c *claimSet) find(path string) any { return find(c.members, path) }

func find(members map[string]any, path string) any {
	if value, ok := members[path]; ok {
		return value
	}
	for end := strings.LastIndexByte(path, '.'); end > 0; end = strings.LastIndexByte(path[:end], '.') {
		if inner, ok := members[path[:end]].(map[string]any); ok {
			return find(inner, path[end+1:])
		}
	}
	return nil
}

// hasDistributed reports whether a claim is a distributed one (OpenID Connect Core §5.6.2), which is not fetched.
func (c *claimSet) hasDistributed(name string) bool {
	elsewhere, _ := c.members["_claim_names"].(map[string]any)
	return c.members[name] == nil && elsewhere[name] != nil
}

// isTrue reports whether a claim is the boolean true, or the string "true", which some providers send.
func isTrue(claim any) bool { return claim == true || claim == "true" }

// profile returns the claims other than name and address. It omits values that cannot be stored.
func (c *claimSet) profile() *store.Profile {
	p := new(store.Profile)
	for name, member := range map[string]*string{
		"given_name": &p.GivenName, "family_name": &p.FamilyName, "preferred_username": &p.PreferredUsername,
		"locale": &p.Locale, "zoneinfo": &p.Zoneinfo, "picture": &p.Picture,
	} {
		*member = c.text(name)
		if p.Validate() != nil {
			*member = ""
		}
	}
	if p.IsZero() {
		return nil
	}
	return p
}
