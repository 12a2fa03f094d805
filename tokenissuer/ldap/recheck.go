package ldap

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// maxRechecked bounds the addresses and usernames of an entry with which its person could sign in.
const maxRechecked = 8

// Recheck returns the account of the entry with that subject, as it is now. It implements signin.Source and needs no token. The error is
// store.ErrNotFound if there is no such entry, or if the user filter finds it by none of its addresses and usernames. It is invalid_grant if
// the entry says that the account is disabled, and temporarily_unavailable if the directory fails. A directory that keeps the lock of an
// account to itself refuses only the next sign-in.
func (d *Directory) Recheck(ctx context.Context, subject string, _ oauth.Secret) (account signin.Account, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.plan.DialTimeout+2*d.plan.Timeout)
	defer cancel()
	leave, err := d.turns.Enter(ctx, fairqueue.Share{Name: "recheck", Most: 1}) // sign-ins come first
	if err != nil {
		return signin.Account{}, unavailable(err)
	}
	defer leave()
	err = d.pool.run(ctx, func(c *connection) (err error) {
		account, err = d.plan.recheck(ctx, c, subject)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) && oauth.AsError(err).Code != oauth.InvalidGrant {
		err = unavailable(err)
	}
	d.note(err)
	return account, err
}

func (p *plan) recheck(ctx context.Context, c *connection, subject string) (none signin.Account, err error) {
	// 1. The entry.
	e, err := p.entryOf(ctx, c, subject)
	if err != nil {
		return none, err
	}
	// 2. A person could still sign in with it.
	filters := ""
	for _, login := range p.logins(e) {
		filters += p.userFilter.expand(emailPlaceholder, login, usernamePlaceholder, login)
	}
	if filters == "" {
		return none, store.ErrNotFound
	}
	found, err := c.search(ctx, e.DN, ldap.ScopeBaseObject, "(|"+filters+")", []string{"1.1"}, 1) // no attributes (RFC 4511 §4.5.1.8)
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject), err == nil && len(found) == 0:
		return none, store.ErrNotFound
	case err != nil:
		return none, fmt.Errorf("the entry %q: %w", e.DN, withoutReferral(err))
	case isDisabled(e):
		return none, refused(ReasonDisabled, fmt.Errorf("%q", e.DN))
	}
	// 3. The groups.
	account := p.account(e, subject, "")
	if p.knowsGroups() {
		account.Groups, err = p.groups(ctx, c, e)
	}
	return account, err
}

// logins returns what the person of an entry can type to sign in.
func (p *plan) logins(e *ldap.Entry) (list []string) {
	for _, name := range append([]string{p.Attributes.Email}, p.Attributes.Usernames...) {
		for _, value := range e.GetEqualFoldAttributeValues(name) {
			if value != "" && len(value) <= maxLogin && len(list) < maxRechecked {
				list = append(list, value)
			}
		}
	}
	return list
}

// entryOf returns the entry with a subject, which plan.subject gave it.
func (p *plan) entryOf(ctx context.Context, c *connection, subject string) (*ldap.Entry, error) {
	base, scope, filter := p.UserBase, ldap.ScopeWholeSubtree, p.subjectFilter(subject)
	if p.Attributes.Subject == "" && strings.Contains(subject, "=") { // the name of the entry
		name, err := ldap.ParseDN(subject)
		below, _ := ldap.ParseDN(p.UserBase) // checked by plan
		if err != nil || !below.AncestorOfFold(name) {
			return nil, store.ErrNotFound
		}
		base, scope, filter = subject, ldap.ScopeBaseObject, "(objectClass=*)"
	}
	entries, err := c.search(ctx, base, scope, filter, p.userAttributes(), 1)
	switch {
	case scope == ldap.ScopeBaseObject && ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("people below %s: %w", p.UserBase, withoutReferral(err))
	case len(entries) == 0:
		return nil, store.ErrNotFound
	}
	is, _, err := p.subject(entries[0])
	if err == nil && is != subject {
		err = store.ErrNotFound // another attribute has the value
	}
	return entries[0], err
}

// subjectFilter returns a filter for entries whose subject may be that.
func (p *plan) subjectFilter(subject string) string {
	names := subjectAttributes
	if p.Attributes.Subject != "" {
		names = []string{p.Attributes.Subject}
	}
	filter := "(|"
	for _, name := range names {
		value := ldap.EscapeFilter(subject)
		if strings.EqualFold(name, objectGUID) {
			if value = guidFilter(subject); value == "" {
				continue
			}
		}
		filter += "(" + name + "=" + value + ")"
	}
	return filter + ")"
}

// guidFilter returns the escaped bytes of an objectGUID that formatGUID has formatted, or "".
func guidFilter(subject string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(subject, "-", ""))
	if err != nil || len(b) != 16 {
		return ""
	}
	copy(b, []byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6]})
	escaped := ""
	for _, one := range b {
		escaped += fmt.Sprintf("\\%02x", one)
	}
	return escaped
}
