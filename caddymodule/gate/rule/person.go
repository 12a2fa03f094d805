package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// NeedsEmail reports whether only a token with an e-mail address satisfies the rule.
func (r *Rule) NeedsEmail() bool {
	isID := func(value string) bool { return !strings.Contains(value, "@") }
	return len(r.EmailDomains) > 0 || len(r.Users) > 0 && !slices.ContainsFunc(r.Users, isID)
}

// canonicalUsers returns ids and e-mail addresses as they are compared. What has an @ is an address.
func canonicalUsers(values []string) ([]string, error) {
	canonical := make([]string, len(values))
	for i, value := range values {
		var err error
		switch {
		case value == "*" || strings.HasPrefix(value, "/") || strings.HasPrefix(value, "@"):
			err = fmt.Errorf("user %s looks like a matcher: a matcher comes first", value)
		case strings.Contains(value, "@"):
			canonical[i], err = store.CanonicalEmail(value)
		default:
			canonical[i], err = value, store.ValidateID(value)
		}
		if err != nil {
			return nil, err
		}
	}
	return canonical, nil
}

// canonicalDomains returns domains as they are compared.
func canonicalDomains(values []string) ([]string, error) {
	canonical := make([]string, len(values))
	for i, value := range values {
		if strings.HasPrefix(value, "@") || strings.HasPrefix(value, "/") || value == "*" {
			return nil, fmt.Errorf("email_domain %s looks like a matcher: a matcher comes first, and a domain is written as example.com", value)
		}
		var err error
		if canonical[i], err = signin.CanonicalDomain(value); err != nil {
			return nil, err
		}
	}
	return canonical, nil
}

// checkPerson checks the rule against the person behind the token. A token that acts for no user has none. An address is compared
// only with one that is verified: a person could call themselves what they like otherwise. Some issuers let people choose what
// becomes sub, so there it is never an address; the ids of our users come from the operator.
func (r *Rule) checkPerson(e *Input) error {
	t := e.Token
	reason := "email_domain_missing"
	if len(r.Users) > 0 {
		reason = "user_not_listed"
	}
	if t.IsServerToken() {
		return oauth.NewError(oauth.AccessDenied, reason)
	}
	if (e.Own || !strings.Contains(t.Subject, "@")) && slices.Contains(r.Users, t.Subject) {
		return nil
	}
	address, verified := t.Email()
	_, domain, found := strings.Cut(address, "@")
	switch listed := found && (slices.Contains(r.users, address) || slices.Contains(r.domains, domain)); {
	case !listed:
		return oauth.NewError(oauth.AccessDenied, reason)
	case !verified:
		return oauth.NewError(oauth.AccessDenied, "email_unverified")
	}
	return nil
}
